"""The names that regions of AWS can have.

A region that is new has such a name, too; a misspelt direction, or an area whose letters are exchanged, is no name.

>>> import re
>>> [bool(re.fullmatch(REGION, one)) for one in ("eu-west-1", "us-gov-east-1", "eu-wset-1", "ue-west-1")]
[True, True, False, False]
"""

from typing import Final

DIRECTIONS: Final = "north|south|east|west|central|northeast|northwest|southeast|southwest"
REGION: Final = rf"(eusc|(?!ue|pa|ac|su)[a-z]{{2}})(-(gov|iso[a-z]?|de))?-({DIRECTIONS})-\d"
"""An area, a partition if it has its own regions, a direction and a number."""
