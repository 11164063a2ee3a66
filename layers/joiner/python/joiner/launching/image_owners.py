"""Owners of images: a term of a node class with an owner outside the settings is refused, never replaced.

Source: EC2 API reference, DescribeImages (Owners, ImageOwnerAlias); the condition key ``ec2:Owner`` has the alias of an
image that has one, and otherwise the number of its owner.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from joiner.launching.node_class_policy import OWNER_ALIASES, NodeClassPolicy
from joiner.launching.node_images import list_image_parameters
from joiner.pools import NodeClass, NodeClassProblem

AMAZON = "amazon"


def find_owner_problems(node_class: NodeClass, ceilings: NodeClassPolicy, *, field: str) -> list[NodeClassProblem]:
    """Return a problem for each term with an owner outside the settings' ``imageOwners``.

    Images of Amazon are also a problem if the settings omit it. ``field`` is the path of the terms in the class.
    """
    if not ceilings.image_owners:
        return []
    problems = [
        _not_allowed(
            f"{field}[{index}].owner" if node_class.kind == "EC2NodeClass" else f"{field}[aws::owners]",
            term.owner,
            ceilings,
        )
        for index, term in enumerate(node_class.image_terms)
        if term.owner and not _allowed(term.owner, ceilings)
    ]
    if list_image_parameters(node_class, "") and AMAZON not in ceilings.image_owners:
        problems.append(_not_allowed(field, f"{AMAZON}, whose images an alias or the family stands for,", ceilings))
    return problems


def find_alias_problems(
    described: Iterable[Mapping[str, Any]], ceilings: NodeClassPolicy, *, field: str
) -> list[NodeClassProblem]:
    """Return a problem for each alias of owners whose images the settings allow by number only: EC2 selects them by the
    number, and IAM refuses their launch, because ``ec2:Owner`` has the alias.

    ``described`` are images as DescribeImages answers them.
    """
    if not ceilings.image_owners:
        return []
    by_alias: dict[str, list[Mapping[str, Any]]] = {}
    for each in described:
        alias = str(each.get("ImageOwnerAlias") or "")
        if alias in OWNER_ALIASES and alias not in ceilings.image_owners:
            by_alias.setdefault(alias, []).append(each)
    return [_named_by_number(field, alias, images) for alias, images in sorted(by_alias.items())]


def _named_by_number(field: str, alias: str, images: list[Mapping[str, Any]]) -> NodeClassProblem:
    first = min(images, key=lambda each: str(each["ImageId"]))
    others = f" and {len(images) - 1} more" if len(images) > 1 else ""
    message = (
        f"{field}: the owner of {first['ImageId']}{others}, {first.get('OwnerId', '')}, has the alias {alias}, and IAM "
        f"knows it by this alias only: write {alias} in imageOwners in clusters/NAME.yaml and deploy, or select other "
        "images"
    )
    return NodeClassProblem("AMIsReady", "ImageOwnerNotAllowed", message)


def _allowed(owner: str, ceilings: NodeClassPolicy) -> bool:
    """Return whether the settings allow this owner.

    Only `self` and the account's own number are equivalent. The alias ``amazon`` also includes images of partners, so a
    number does not match it.
    """
    if is_undecided(owner, ceilings):
        return True
    if owner == "self":
        return not {"self", ceilings.account}.isdisjoint(ceilings.image_owners)
    return owner in ceilings.image_owners or ceilings.allows_owner(ceilings.image_owners, owner=owner)


def is_undecided(owner: str, ceilings: NodeClassPolicy) -> bool:
    """Return whether only the account shows if an owner is allowed: the account may have the number of the owner, or
    the owner `self` may have a number of the settings.

    A cluster knows the number of its account.

    >>> is_undecided("111122223333", NodeClassPolicy((), "", ("self",)))
    True
    >>> is_undecided("self", NodeClassPolicy((), "", ("111122223333",)))
    True
    >>> is_undecided("self", NodeClassPolicy((), "", ("amazon",)))
    False
    """
    named = ceilings.image_owners
    if ceilings.account or owner in named:
        return False
    return "self" in named if owner.isdecimal() else owner == "self" and any(each.isdecimal() for each in named)


def _not_allowed(where: str, owner: str, ceilings: NodeClassPolicy) -> NodeClassProblem:
    named = ", ".join(ceilings.image_owners)
    remedy = "write one of those, as it stands there, or add the owner to imageOwners in clusters/NAME.yaml and deploy"
    message = f"{where}: nodes may not boot images of {owner}; the settings allow {named}: {remedy}"
    return NodeClassProblem("AMIsReady", "ImageOwnerNotAllowed", message)
