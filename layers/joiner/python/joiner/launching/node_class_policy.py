"""The resources that node classes may name: roles, image owners, subnets, security groups, snapshots, KMS keys,
capacity reservations, placement groups, launch templates.

The settings of a cluster set these limits for all users who can write a node class. The permissions of
`launch_instances` have the same limits (`infra/aws_permissions.py`), except that of launch templates: they are only
read, and IAM cannot limit which, so the role of `resolve_node_classes` may read them only if the settings allow some.
The resolver refuses first, because it can name the field and the remedy.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

ANY_VALUE = "*"
AWS_MANAGED_KEY = "alias/aws/ebs"
"""The EBS key that AWS manages. Every user of the account can use it through EC2, so no setting names it."""
FILTER_TOKEN = re.compile(r"\\(?P<literal>.)|(?P<wildcard>[*?])", re.DOTALL)


OWNER_ALIASES = ("amazon", "aws-marketplace")


def owner_in_conditions(owner: str, alias: str) -> str:
    """Return the value of the condition key ``ec2:Owner`` for an image or a snapshot: the alias of its owner if EC2
    shows one of AWS's, and otherwise the number. Source: Service Authorization Reference, Amazon EC2.

    >>> owner_in_conditions("602401143452", "amazon"), owner_in_conditions("123456789012", "")
    ('amazon', '123456789012')
    """
    return alias if alias in OWNER_ALIASES else owner


def has_wildcards(value: str) -> bool:
    """Return whether the value of a filter of EC2 matches more than one text."""
    return any(token["wildcard"] for token in FILTER_TOKEN.finditer(value))


def may_match(pattern: str, text: str) -> bool:
    """Return whether the value of a filter of EC2 matches a text: ``*`` are any characters, ``?`` is at most one, and
    a backslash takes the meaning from the next one. Source: EC2 user guide, "Find your Amazon EC2 resources"
    (wildcards).

    >>> [may_match(pattern, "prod-a") for pattern in ("prod-*", "prod-?", "prod-a?", "prod", r"prod-\\*")]
    [True, True, True, False, False]
    """
    parts, end = [], 0
    for token in FILTER_TOKEN.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        parts.append({"*": ".*", "?": ".?"}.get(token["wildcard"] or "", re.escape(token["literal"] or "")))
        end = token.end()
    parts.append(re.escape(pattern[end:]))
    return bool(re.fullmatch("".join(parts), text, re.DOTALL))


@dataclass(frozen=True, slots=True)
class AllowedResources:
    """Resources that are allowed by id or by tag; one match is enough. An empty value allows nothing.

    >>> by_tag = AllowedResources(tags={"karpenter.sh/discovery": ("prod",)})
    >>> by_tag.allows("subnet-1", {"karpenter.sh/discovery": "prod"})
    True
    >>> AllowedResources(ids=("subnet-2",)).allows("subnet-1", {})
    False
    """

    ids: tuple[str, ...] = ()
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tag key -> allowed values, of which the tag must have one; ``*`` means any value."""
    of_cluster: bool = False
    """Whether the cluster's own resources, as EKS describes them, are also allowed."""

    def allows(self, identifier: str, tags: Mapping[str, str]) -> bool:
        """Return whether this id or one of these tags is allowed."""
        if identifier in self.ids:
            return True
        return any(key in tags and (ANY_VALUE in values or tags[key] in values) for key, values in self.tags.items())

    def decide(self, identifier: str, tags: Mapping[str, str]) -> bool | None:
        """Return whether resources are allowed of which only the id, or only these tags are known; None if that depends
        on the rest of them. A tag whose value has wildcards of EC2's filters has one of the values that match.

        >>> both = AllowedResources(("subnet-1",), {"team": ("web",)})
        >>> both.decide("subnet-1", {}), both.decide("subnet-2", {}), both.decide("", {"team": "web"})
        (True, None, True)
        >>> AllowedResources(("subnet-1",)).decide("subnet-2", {})
        False
        >>> by_name = AllowedResources(tags={"Name": ("prod-a",)})
        >>> [by_name.decide("", {"Name": name}) for name in ("prod-a", "prod-*", "prod-?", "test-*")]
        [True, None, None, False]
        """
        exact = {key: value for key, value in tags.items() if not has_wildcards(value) or self._any_value_of(key)}
        if (identifier and identifier in self.ids) or self.allows("", exact):
            return True
        unknown_tags = any(
            any(may_match(tags.get(key, ANY_VALUE), value) for value in values) for key, values in self.tags.items()
        )
        unknown_id = not identifier and bool(self.ids)
        return None if self.of_cluster or unknown_tags or unknown_id else False

    def _any_value_of(self, key: str) -> bool:
        return ANY_VALUE in self.tags.get(key, ())

    def with_own(self, identifiers: Iterable[str]) -> "AllowedResources":
        """Return these limits with the cluster's own resources added, if they are allowed."""
        return replace(self, ids=(*self.ids, *(each for each in identifiers if each))) if self.of_cluster else self

    def __str__(self) -> str:
        """Return the allowed ids and tags as text for a message.

        >>> str(AllowedResources(("sg-1",), {"team": ("a", "b"), "stage": ("*",)}))
        'sg-1, tag team = a or b, tag stage'
        """
        tags = (
            f"tag {key}" if ANY_VALUE in values else f"tag {key} = {' or '.join(values)}"
            for key, values in self.tags.items()
        )
        return ", ".join((*self.ids, *tags)) or "none"

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "AllowedResources":
        """Read ``{"ids", "tags", "ofCluster"}``, as the deployment writes it."""
        tags = {key: tuple(values) for key, values in raw.get("tags", {}).items()}
        return cls(tuple(raw.get("ids", ())), tags, bool(raw.get("ofCluster", False)))


@dataclass(frozen=True, slots=True)
class NodeClassPolicy:
    """The resources that the settings of the cluster allow in node classes.

    The first role is the default, and ``instance_profile`` is its profile. Roles are names, with or without
    a path, or ARNs. ``role_profiles``
    are the instance profiles of all roles, in the same order. Nodes with one of the ``windows_roles`` may run Windows;
    None if that is unknown. An empty ``image_owners`` allows all owners. ``account`` is the number that the owner
    ``self`` means. ``kms_keys`` are ARNs of customer-managed keys. ``reservations`` and ``placement_groups`` (by name)
    are None if all are allowed. ``launch_templates`` are None if none are allowed.
    """

    node_roles: tuple[str, ...]
    instance_profile: str
    image_owners: tuple[str, ...] = ()
    _: KW_ONLY
    account: str = ""
    subnets: AllowedResources = AllowedResources()
    security_groups: AllowedResources = AllowedResources()
    snapshots: AllowedResources = AllowedResources()
    snapshot_owners: tuple[str, ...] = ()
    kms_keys: tuple[str, ...] = ()
    role_profiles: tuple[str, ...] = ()
    windows_roles: tuple[str, ...] | None = None
    reservations: AllowedResources | None = None
    placement_groups: AllowedResources | None = None
    launch_templates: AllowedResources | None = None

    def profile_of(self, role: str) -> str:
        """Return the instance profile that the deployment made for a role (a name); empty if it has none.

        >>> policy = NodeClassPolicy(("arn:aws:iam::1:role/web", "db"), "p1", role_profiles=("p1", "p2"))
        >>> policy.profile_of("db"), policy.profile_of("other")
        ('p2', '')
        """
        names = [each.rpartition("/")[2] for each in self.node_roles]
        profiles = self.role_profiles or (self.instance_profile,)
        return dict(zip(names, profiles, strict=False)).get(role, "")

    def with_limits(self, raw: Mapping[str, Any]) -> "NodeClassPolicy":
        """Return this policy with the limits of the setting `nodeClasses`, as the deployment writes them."""
        snapshots = raw.get("snapshots", {})
        return replace(
            self,
            subnets=AllowedResources.from_json(raw.get("subnets", {})),
            security_groups=AllowedResources.from_json(raw.get("securityGroups", {})),
            snapshots=AllowedResources.from_json(snapshots),
            snapshot_owners=tuple(snapshots.get("owners", ())),
            kms_keys=tuple(raw.get("kmsKeys", ())),
            reservations=_optional(raw.get("capacityReservations")),
            placement_groups=_optional(raw.get("placementGroups")),
            launch_templates=_optional(raw.get("launchTemplates")),
        )

    def with_own(self, subnets: Iterable[str], security_group: str) -> "NodeClassPolicy":
        """Return this policy with the cluster's own subnets and security group added, where the settings allow them.

        EKS describes these as the cluster's own.
        """
        return replace(
            self,
            subnets=self.subnets.with_own(subnets),
            security_groups=self.security_groups.with_own([security_group]),
        )

    def allows_owner(self, allowed: Iterable[str], *, owner: str, alias: str = "") -> bool:
        """Return whether the owner of an image or a snapshot (number and alias from EC2) is allowed.

        >>> NodeClassPolicy((), "", account="123456789012").allows_owner(("self",), owner="123456789012")
        True
        >>> NodeClassPolicy((), "").allows_owner(("602401143452",), owner="602401143452", alias="amazon")
        False
        """
        numbers = {self.account if each == "self" else each for each in allowed} - {""}
        return owner_in_conditions(owner, alias) in numbers

    def decide_snapshot(self, snapshot: str) -> bool | None:
        """Return whether a snapshot is allowed of which only the id is known; None if that depends on its owner or
        tags."""
        allowed = self.snapshots.decide(snapshot, {})
        return None if allowed is False and self.snapshot_owners else allowed

    def allows_key(self, wanted: str) -> bool:
        """Return whether a KMS key (id or ARN) is the one that AWS manages, or allowed by the settings.

        >>> key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
        >>> ceilings = NodeClassPolicy((), "", kms_keys=(key,))
        >>> ceilings.allows_key("1234abcd-12ab-34cd-56ef-1234567890ab"), ceilings.allows_key("alias/mine")
        (True, False)
        """
        if wanted == AWS_MANAGED_KEY or wanted.endswith(f":{AWS_MANAGED_KEY}"):
            return True
        return any(wanted in (key, key.rpartition("/")[2]) for key in self.kms_keys)


def _optional(raw: Mapping[str, Any] | None) -> AllowedResources | None:
    return None if raw is None else AllowedResources.from_json(raw)
