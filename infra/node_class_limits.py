"""The setting `nodeClasses` with its defaults resolved: the values from which both the environment of the resolver and
the IAM permissions are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.node_class_settings import AllowedSecurityGroups, AllowedSubnets
from infra.settings import Settings
from joiner.names import DISCOVERY_TAG, cluster_tag


@dataclass(frozen=True, slots=True)
class NodeClassLimit:
    """Allowed resources by id or by tag (key to values, one of which suffices). `of_cluster` also allows those that EKS
    describes as the cluster's own."""

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]
    of_cluster: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the limit as the resolver of node classes (`joiner.launching`) reads it."""
        tags = {key: list(values) for key, values in self.tags.items()}
        return {"ids": list(self.ids), "tags": tags, **({"ofCluster": True} if self.of_cluster else {})}


def cluster_tags(cluster: str) -> Mapping[str, tuple[str, ...]]:
    """Return the tags by which EKS and Karpenter's documentation mark the resources of a cluster."""
    return {cluster_tag(cluster): ("owned", "shared"), DISCOVERY_TAG: (cluster,)}


def subnet_limit(settings: Settings) -> NodeClassLimit:
    """Return which subnets node classes may select."""
    return _limit(settings, settings.node_classes.subnets)


def security_group_limit(settings: Settings) -> NodeClassLimit:
    """Return which security groups node classes may select."""
    return _limit(settings, settings.node_classes.security_groups)


def snapshot_limit(settings: Settings) -> NodeClassLimit:
    """Return which snapshots node classes may name, by id or tag; those of whole owners are
    `nodeClasses.snapshots.owners`."""
    setting = settings.node_classes.snapshots
    tags = (
        cluster_tags(settings.cluster)
        if setting.tags is None
        else {key: (value,) for key, value in setting.tags.items()}
    )
    return NodeClassLimit(setting.ids, tags)


def reservation_limit(settings: Settings) -> NodeClassLimit | None:
    """Return which capacity reservations node classes may select; None for all."""
    setting = settings.node_classes.capacity_reservations
    return None if setting is None else _named(setting.ids, setting.tags)


def placement_group_limit(settings: Settings) -> NodeClassLimit | None:
    """Return which placement groups node classes may select, with names as ids; None for all."""
    setting = settings.node_classes.placement_groups
    return None if setting is None else _named(setting.names, setting.tags)


def launch_template_limit(settings: Settings) -> NodeClassLimit | None:
    """Return which launch templates of users legacy node classes may name; None if none."""
    setting = settings.node_classes.launch_templates
    return _named(setting.ids, setting.tags) if setting and (setting.ids or setting.tags) else None


def node_class_limits(settings: Settings) -> dict[str, Any]:
    """Return all limits as the resolver of node classes (`joiner.launching`) reads them."""
    optional = {
        "capacityReservations": reservation_limit(settings),
        "placementGroups": placement_group_limit(settings),
        "launchTemplates": launch_template_limit(settings),
    }
    return {
        **{name: limit.to_json() for name, limit in optional.items() if limit},
        "subnets": subnet_limit(settings).to_json(),
        "securityGroups": security_group_limit(settings).to_json(),
        "snapshots": {**snapshot_limit(settings).to_json(), "owners": list(settings.node_classes.snapshots.owners)},
        "kmsKeys": list(settings.node_classes.kms_keys),
    }


def _limit(settings: Settings, setting: AllowedSubnets | AllowedSecurityGroups | None) -> NodeClassLimit:
    if setting is None:
        return NodeClassLimit((), cluster_tags(settings.cluster), of_cluster=True)
    return _named(setting.ids, setting.tags)


def _named(ids: tuple[str, ...], tags: Mapping[str, str]) -> NodeClassLimit:
    return NodeClassLimit(ids, {key: (value,) for key, value in tags.items()})
