"""The CDK app that deploys Joiner: one construct for each capability, and one stack that connects them.

`settings` defines what the file of a cluster may contain. `function_configuration` lists the size and the permissions
of every function, `asset_bundles` packs what is uploaded. A construct does not import other constructs of the stack:
`cluster_stack` passes what each needs, and grants every permission that spans two of them.
"""

import os
from typing import Final

END_OF_LIFE_NODE: Final = "20"
"""The oldest version of Node.js that the CDK runs on. jsii, which aws_cdk starts, warns of it in thirteen lines."""

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", END_OF_LIFE_NODE)
