"""The instance of a drained claim: whether it is terminated now, and when it is gone."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from joiner.lifecycle.retirement import RetirementReason, RetirementStage, RetiringClaim
from joiner.names import CLUSTER_NAME_TAG, NODEPOOL, cluster_tag


class ShownInstance(Protocol):
    """An instance as EC2 shows it (`joiner.adapters.ec2_instances.Instance`)."""

    @property
    def state(self) -> str:
        """Return its state, such as ``running``."""

    @property
    def tags(self) -> Mapping[str, str]:
        """Return its tags."""

    @property
    def alive(self) -> bool:
        """Return whether it is neither terminated nor shutting down."""

    @property
    def works(self) -> bool:
        """Return whether it runs pods or will soon."""


def judge_before_termination(
    one: RetiringClaim, instance: ShownInstance | None, cluster: str, now: datetime
) -> RetiringClaim | None:
    """Return the claim's new stage if its instance is not to be terminated; None if it is.

    `instance` is None if EC2 does not know it. An instance that runs although it was reported lost is drained first.
    """
    if instance is None:
        stage = RetirementStage.TERMINATED if one.unknown_is_gone(now) else RetirementStage.DRAINED
        return one.at(stage, f"EC2 knows no instance {one.instance}")
    if not instance.alive:
        return one.at(RetirementStage.TERMINATING, f"instance {one.instance} is {instance.state}")
    if not has_cluster_tags(instance.tags, cluster):
        tags = f"{cluster_tag(cluster)}=owned, {CLUSTER_NAME_TAG}={cluster} and {NODEPOOL} must be there"
        return one.at(RetirementStage.DRAINED, f"instance {one.instance} lacks a tag of {cluster}: {tags}")
    if one.reason is RetirementReason.LOST and instance.works and one.node:
        return one.found(f"instance {one.instance} is {instance.state}")
    return None


def judge_after_termination(one: RetiringClaim, instance: ShownInstance | None, now: datetime) -> RetiringClaim:
    """Return the claim's stage after a termination was requested.

    An instance that still runs is terminated again: the first call was lost, or it was restarted.
    """
    if instance is None:
        stage = RetirementStage.TERMINATED if one.unknown_is_gone(now) else RetirementStage.TERMINATING
        return one.at(stage, f"EC2 knows no instance {one.instance}")
    if instance.state == "terminated":
        return one.at(RetirementStage.TERMINATED)
    stage = RetirementStage.DRAINED if instance.alive else RetirementStage.TERMINATING
    return one.at(stage, f"instance {one.instance} is {instance.state}")


def has_cluster_tags(tags: Mapping[str, str], cluster: str) -> bool:
    """Return whether an instance has the three tags that the IAM policy requires for its termination.

    >>> has_cluster_tags({"kubernetes.io/cluster/prod": "owned", "eks:eks-cluster-name": "prod"}, "prod")
    False
    """
    return tags.get(cluster_tag(cluster)) == "owned" and tags.get(CLUSTER_NAME_TAG) == cluster and NODEPOOL in tags
