"""The setting `nodeClasses` with its defaults worked out: one value, from which the resolver's settings and the permissions are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.settings import AllowedSecurityGroups, AllowedSubnets, Settings
from joiner.names import DISCOVERY_TAG, cluster_tag


@dataclass(frozen=True, slots=True)
class NodeClassLimit:
    """Resources by id or by tag (key -> values, one of which is enough); `of_cluster`: those that EKS describes as the cluster's own."""

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]
    of_cluster: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `joiner.launching.Allowed` reads it."""
        tags = {key: list(values) for key, values in self.tags.items()}
        return {"ids": list(self.ids), "tags": tags, **({"ofCluster": True} if self.of_cluster else {})}


def cluster_tags(cluster: str) -> Mapping[str, tuple[str, ...]]:
    """The tags by which EKS and Karpenter's documentation mark what belongs to a cluster."""
    return {cluster_tag(cluster): ("owned", "shared"), DISCOVERY_TAG: (cluster,)}


def subnet_limit(settings: Settings) -> NodeClassLimit:
    return _limit(settings, settings.node_classes.subnets)


def security_group_limit(settings: Settings) -> NodeClassLimit:
    return _limit(settings, settings.node_classes.security_groups)


def snapshot_limit(settings: Settings) -> NodeClassLimit:
    """Snapshots by id or tag; those of whole owners are `nodeClasses.snapshots.owners`."""
    said = settings.node_classes.snapshots
    tags = cluster_tags(settings.cluster) if said.tags is None else {key: (value,) for key, value in said.tags.items()}
    return NodeClassLimit(said.ids, tags)


def node_class_limits(settings: Settings) -> dict[str, Any]:
    """All of them, as `joiner.launching.Ceilings.with_limits` reads it."""
    return {
        "subnets": subnet_limit(settings).to_json(),
        "securityGroups": security_group_limit(settings).to_json(),
        "snapshots": {**snapshot_limit(settings).to_json(), "owners": list(settings.node_classes.snapshots.owners)},
        "kmsKeys": list(settings.node_classes.kms_keys),
    }


def _limit(settings: Settings, said: AllowedSubnets | AllowedSecurityGroups | None) -> NodeClassLimit:
    if said is None:
        return NodeClassLimit((), cluster_tags(settings.cluster), of_cluster=True)
    return NodeClassLimit(said.ids, {key: (value,) for key, value in said.tags.items()})
