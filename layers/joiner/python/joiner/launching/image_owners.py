"""Whose images nodes may boot: a term of a node class that reaches beyond the settings' owners is refused, never replaced.

Source: EC2 API reference, DescribeImages (Owners, ImageOwnerAlias); the condition key ``ec2:Owner`` has the same words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.launching.ceilings import Ceilings
from joiner.launching.images import image_parameters
from joiner.pools import ImageTerm, NodeClass, Problem

Answer = Mapping[str, Any]
AMAZON = "amazon"


def owner_problems(node_class: NodeClass, images: Sequence[Answer], ceilings: Ceilings, *, field: str) -> list[Problem]:
    """A problem for each term that names an owner beyond the settings' ``imageOwners``, and for images of Amazon where it is not named.

    ``images`` is what DescribeImages answered to the class's terms; ``field`` is where the class lists them.
    """
    if not ceilings.image_owners:
        return []
    problems = [
        _not_allowed(f"{field}[{index}].owner" if node_class.kind == "EC2NodeClass" else f"{field}[aws::owners]", term.owner, ceilings)
        for index, term in enumerate(node_class.image_terms)
        if term.owner and not _allowed(term, images, ceilings)
    ]
    if image_parameters(node_class, "") and AMAZON not in ceilings.image_owners:
        problems.append(_not_allowed(field, f"{AMAZON}, whose images an alias or the family stands for,", ceilings))
    return problems


def _allowed(term: ImageTerm, images: Sequence[Answer], ceilings: Ceilings) -> bool:
    """An owner may be named by number where the settings name its alias: then the images that it has show both."""
    if term.owner in ceilings.image_owners or ceilings.allows_owner(ceilings.image_owners, owner=term.owner):
        return True
    if term.owner == "self":
        return ceilings.account in ceilings.image_owners
    of_owner = [image for image in images if image.get("OwnerId") == term.owner]
    return bool(of_owner) and all(
        ceilings.allows_owner(ceilings.image_owners, owner=term.owner, alias=str(image.get("ImageOwnerAlias", ""))) for image in of_owner
    )


def _not_allowed(where: str, owner: str, ceilings: Ceilings) -> Problem:
    named = ", ".join(ceilings.image_owners)
    remedy = "name one of those, or add the owner to imageOwners in clusters/NAME.yaml and deploy"
    message = f"{where}: nodes may not boot images of {owner}; the settings allow {named}: {remedy}"
    return Problem("AMIsReady", "ImageOwnerNotAllowed", message)
