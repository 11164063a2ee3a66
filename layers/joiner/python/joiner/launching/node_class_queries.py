"""The queries to EC2, SSM and IAM for a node class, with filters in the form of the Describe calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joiner import names
from joiner.launching.node_images import is_public_parameter, list_image_parameters
from joiner.pools import CapacityReservationTerm, ImageTerm, NodeClass, SecurityGroupTerm, SubnetTerm

Filter = Mapping[str, Any]
Filters = tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """One DescribeImages call."""

    filters: Filters
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReservationQuery:
    """One DescribeCapacityReservations call."""

    filters: Filters
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementGroupQuery:
    """One DescribePlacementGroups call, by name or by id."""

    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class NodeClassQueries:
    """The queries of one class.

    Each item of ``subnets`` and ``security_groups`` is one call; their answers are combined.
    """

    subnets: tuple[Filters, ...]
    security_groups: tuple[Filters, ...]
    parameters: tuple[str, ...]
    images: tuple[ImageQuery, ...]
    instance_profile: str
    snapshots: tuple[str, ...] = ()
    reservations: tuple[ReservationQuery, ...] = ()
    placement_group: PlacementGroupQuery | None = None
    image_parameters: tuple[str, ...] = ()
    """Parameters named by the class. Their values are images, which ``query_parameter_images`` asks for."""


def build_queries(
    node_class: NodeClass, kubernetes_version: str, *, cluster: str, image_owners: Sequence[str] = ()
) -> NodeClassQueries:
    """Return the queries of a class in the cluster with the name ``cluster``.

    ``image_owners`` are the owners that the settings allow, for terms without an owner (empty: no limit). A term with
    an owner is queried as written; ``resolve_node_class`` refuses the class if the settings do not allow that owner.
    """
    return NodeClassQueries(
        subnets=tuple(
            _named(term.id, "subnet-id") or _tagged(term.tags) for term in select_subnet_terms(node_class, cluster)
        ),
        security_groups=tuple(
            _named(term.id, "group-id") or _named(term.name, "group-name") or _tagged(term.tags)
            for term in select_security_group_terms(node_class, cluster)
        ),
        parameters=tuple(parameter.name for parameter in list_image_parameters(node_class, kubernetes_version)),
        images=tuple(
            ImageQuery(
                _named(term.id, "image-id") or (*_named(term.name, "name"), *_tagged(term.tags)),
                _owners(term, image_owners),
            )
            for term in node_class.image_terms
            if not term.alias and not term.ssm_parameter
        ),
        instance_profile=node_class.instance_profile or "",
        snapshots=tuple(device.snapshot_id for device in node_class.block_devices if device.snapshot_id),
        reservations=tuple(_reservations(term) for term in node_class.capacity_reservation_terms),
        placement_group=PlacementGroupQuery(group.name, group.id) if (group := node_class.placement_group) else None,
        image_parameters=tuple(
            term.ssm_parameter
            for term in node_class.image_terms
            if term.ssm_parameter and is_public_parameter(term.ssm_parameter)
        ),
    )


def _reservations(term: CapacityReservationTerm) -> ReservationQuery:
    """Return the query of one term. EC2 has no filter for ids.

    >>> _reservations(CapacityReservationTerm({"team": "ml"}, match="targeted")).filters[1:]
    ({'Name': 'instance-match-criteria', 'Values': ['targeted']}, {'Name': 'tag:team', 'Values': ['ml']})
    """
    filters = (
        {"Name": "state", "Values": ["active"]},
        *_named(term.owner, "owner-id"),
        *_named(term.match, "instance-match-criteria"),
        *_tagged(term.tags),
    )
    return ReservationQuery(filters, (term.id,) if term.id else ())


def query_parameter_images(values: Iterable[str], image_owners: Sequence[str]) -> tuple[ImageQuery, ...]:
    """Return the queries for the images that parameters named by a class have as their values."""
    ids = sorted(set(values))
    return (ImageQuery(({"Name": "image-id", "Values": ids},), tuple(image_owners)),) if ids else ()


def select_subnet_terms(node_class: NodeClass, cluster: str) -> tuple[SubnetTerm, ...]:
    """Return the subnet terms of a class; an inline provider without a selector has the tag of the cluster.

    The creation of an EKS cluster set this tag, with the value `shared` or `owned`; any value counts.

    >>> select_subnet_terms(NodeClass("default", kind="Inline"), "prod")
    (SubnetTerm(tags={'kubernetes.io/cluster/prod': '*'}, id=''),)
    """
    default = (SubnetTerm({names.cluster_tag(cluster): "*"}),) if node_class.kind == "Inline" else ()
    return node_class.subnet_terms or default


def select_security_group_terms(node_class: NodeClass, cluster: str) -> tuple[SecurityGroupTerm, ...]:
    """Return the security group terms of a class, with the same default as ``select_subnet_terms``."""
    default = (SecurityGroupTerm({names.cluster_tag(cluster): "*"}),) if node_class.kind == "Inline" else ()
    return node_class.security_group_terms or default


def _named(value: str, name: str) -> Filters:
    return ({"Name": name, "Values": [value]},) if value else ()


def _tagged(tags: Mapping[str, str]) -> Filters:
    """Return filters for tags; the value ``*`` requires only the key.

    >>> _tagged({"team": "*", "stage": "prod"})
    ({'Name': 'tag-key', 'Values': ['team']}, {'Name': 'tag:stage', 'Values': ['prod']})
    """
    return tuple(
        {"Name": "tag-key", "Values": [key]} if value == "*" else {"Name": f"tag:{key}", "Values": [value]}
        for key, value in tags.items()
    )


def _owners(term: ImageTerm, ceiling: Sequence[str]) -> tuple[str, ...]:
    """Return the owner of the term, or else the owners of the settings.

    If the settings set no limit, it is Karpenter's default.
    """
    if term.owner:
        return (term.owner,)
    return tuple(ceiling) or (("self", "amazon") if term.name else ())
