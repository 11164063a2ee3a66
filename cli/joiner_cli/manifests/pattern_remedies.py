"""Describes the patterns of Karpenter's CRDs in words, because a regular expression is no remedy.

>>> describe_pattern("^sg-[0-9a-z]+$")
'give the id of a security group, such as "sg-0123456789abcdef0"'
"""

import re
from collections.abc import Mapping
from typing import Final

from joiner.pools.codecs.karpenter_v1 import ALIAS_REMEDY
from joiner_cli.manifests.validation.metadata_validation import LABEL_VALUE

QUANTITY: Final = "write a Kubernetes quantity such as 500m, 2 or 4Gi"
NOT_NEGATIVE: Final = "give a quantity of at least zero"

REMEDIES: Final[Mapping[str, str]] = {
    "^[+]?([0-9]+|[0-9]+[.][0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$": QUANTITY,
    r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$": QUANTITY,
    "^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$": ALIAS_REMEDY,
    "^ami-[0-9a-z]+$": 'give the id of an image, such as "ami-0123456789abcdef0"',
    "^[0-9a-z]+$": 'give the 12 digits of an account in quotes, "self", or an alias such as "amazon"',
    "^[1-9][0-9]{0,4}(Gi|G|Ti|T)$": 'give a size from 1Gi to 64Ti, such as "40Gi"',
    "^cr-[0-9a-z]+$": 'give the id of a capacity reservation, such as "cr-0123456789abcdef0"',
    "^[0-9]{12}$": 'give the 12 digits of an account in quotes, such as "123456789012"',
    r"^[\w+=,.@-]+$": "give the name (not the ARN) of an IAM role or instance profile: letters, digits and _+=,.@-",
    r"^((100|[0-9]{1,2})(\.[0-9]+)?%|[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?)$": (
        'write a quantity or a share such as "100Mi" or "10%"'
    ),
    "^([0-9]+(s|m|h))+$": "write a duration such as 30s, 15m or 720h",
    r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$": "write a duration such as 1m30s or 1.5m",
    "^pg-[0-9a-z]+$": 'give the id of a placement group, such as "pg-0123456789abcdef0"',
    "^sg-[0-9a-z]+$": 'give the id of a security group, such as "sg-0123456789abcdef0"',
    "^subnet-[0-9a-z]+$": 'give the id of a subnet, such as "subnet-0123456789abcdef0"',
    r"^[a-zA-Z0-9().\-/_]+$": "give the name of a launch template, such as my-nodes, of letters, digits and ().-/_",
    "^(([0-9]+(s|m|h))+|Never)$": "write a duration such as 30s, 15m or 720h, or Never",
    "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$": LABEL_VALUE,
    "^([0-9]+(m|h))+(0s)?$": "write a duration in hours and minutes such as 12h or 8h30m",
    "^((100|[0-9]{1,2})%|[0-9]+)$": "write a number or a share such as 2 or 20%",
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(\S+\s+){4}\S+)$": (
        'give five cron fields, such as "0 9 * * mon-fri", or @daily'
    ),
    "^[0-9]+([.][0-9]+)?$": 'give dollars an hour as a text, such as "0.25"',
    "^[+-][0-9]+([.][0-9]+)?%?$": 'give a signed amount or share, such as "+0.1" or "-10%"',
}


def describe_pattern(pattern: str, value: str = "") -> str:
    """Return how to write a value that matches a pattern of a packaged schema; ``value`` is one that does not.

    >>> quantities = "^[+]?([0-9]+|[0-9]+[.][0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
    >>> describe_pattern(quantities, "-1"), describe_pattern(quantities, "one")
    ('give a quantity of at least zero', 'write a Kubernetes quantity such as 500m, 2 or 4Gi')
    """
    remedy = REMEDIES.get(pattern, "see the documentation of this field for its form")
    return NOT_NEGATIVE if remedy == QUANTITY and value[:1] == "-" and re.search(pattern, value[1:]) else remedy
