"""Add missing tags to instances: the name of their claim, which a launch writes after the instance exists.

EC2 is eventually consistent: CreateTags may refuse an instance that was launched a moment ago. The launching function
may also stop before it tags. Each sweep tags the instances that lack the name.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aws_lambda_powertools import Logger

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.ec2_instances import Instance
from joiner.names import CLUSTER_NAME_TAG, NODECLAIM, NODEPOOL, claim_tags

logger = Logger(child=True)

NAMED_AT_ONCE: Final = 100
"""Maximum of instances that one sweep tags, one call each; the next sweep tags the others."""

OURS: Final = (CLUSTER_NAME_TAG, NODEPOOL)
"""Tags without which IAM refuses to tag an instance."""


def name_instances(
    ec2: Ec2, instances: Iterable[Instance], claims: Mapping[str, str], in_time: Callable[[], bool]
) -> list[str]:
    """Tag running instances that Joiner launched with their claims (instance id -> name). Return the tagged ids.

    An instance that cannot be tagged is left to the next sweep. Tagging ends after a throttle or a lost answer, or when
    `in_time` returns False.
    """
    launched = [
        each for each in instances if each.works and each.launch and each.id in claims and NODECLAIM not in each.tags
    ]
    nameless = {each.id: each.tags for each in launched if all(tag in each.tags for tag in OURS)}
    named = []
    for instance in sorted(nameless)[:NAMED_AT_ONCE]:
        if not in_time():
            break
        claim = claims[instance]
        try:
            ec2.tag([instance], claim_tags(claim, nameless[instance]))
        except Ec2Error as reason:
            logger.warning(
                "an instance could not be tagged",
                instance=instance,
                nodeclaim=claim,
                code=reason.code,
                reason=reason.message,
            )
            if reason.busy:
                break
            continue
        named.append(instance)
        logger.info("tagged an instance that lacked the name of its claim", instance=instance, nodeclaim=claim)
    return named
