"""What a plan assumes about a node class that is not among the valid manifests."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from joiner.pools import InvalidManifest, NodeClass
from joiner.pools.suggestions import find_misspelt
from joiner_cli.manifests.yaml_text import seems_to_define

ABSENT_CLASS: Final = "there is no such class among the manifests"
BROKEN_CLASS: Final = "this class is invalid; the plan has no nodes of it"
ASSUMED_CLASS: Final = "AL2023 with its defaults is assumed, in every zone"
UNREAD_CLASS: Final = "a document that cannot be read seems to define this class; the plan has no nodes of it"


def assume_class(
    absent: InvalidManifest, classes: Iterable[NodeClass], broken: Collection[str], unread: Iterable[str]
) -> InvalidManifest:
    """Return the problem of a missing node class: a note that defaults are assumed; an error if its name is a misspelt
    name of another class; a warning if the class is invalid, or one of the ``unread`` texts seems to define it.
    """
    if absent.value in broken:
        return replace(absent, severity="warning", remedy=BROKEN_CLASS)
    kind, _, name = absent.value.partition("/")
    if meant := find_misspelt(name, [one.name for one in classes if one.kind == kind]):
        return replace(absent, severity="error", remedy=f'{ABSENT_CLASS}; did you mean "{meant}"?')
    if any(seems_to_define(text, kind, name) for text in unread):
        return replace(absent, severity="warning", remedy=UNREAD_CLASS)
    return replace(absent, severity="info", remedy=f"{ABSENT_CLASS}; {ASSUMED_CLASS}")


def closes_pool(absent: InvalidManifest) -> bool:
    """Return whether the plan has no nodes of the pool with this missing class."""
    return absent.severity == "error" or absent.remedy == UNREAD_CLASS
