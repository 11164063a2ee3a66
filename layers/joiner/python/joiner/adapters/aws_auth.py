"""The ConfigMap `kube-system/aws-auth`: which roles have access to a cluster whose authentication mode is CONFIG_MAP.

Other programs write it, too (eksctl, Terraform, people). So only `mapRoles` and one annotation are written, with the
resourceVersion that was read; a conflict means to read again. The annotation lists the roles that Joiner mapped: at the
end only these are removed, except those of nodes that others may use. A mapping of a node role that existed before is
used as it is. A content that cannot be read is reported and stays.

A subject that may write this ConfigMap can become an administrator of the cluster.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from joiner.adapters.kube_errors import AlreadyExists, Conflict, NotFound
from joiner.adapters.kube_kinds import CONFIG_MAPS
from joiner.adapters.role_mappings import (
    NODE_USERNAME,
    RoleMapping,
    UnreadableMappings,
    edit_mappings,
    read_mappings,
    role_of,
)
from joiner.names import MAPPED_ROLES

if TYPE_CHECKING:
    from joiner.adapters.kube import Kube

NAMESPACE: Final = "kube-system"
NAME: Final = "aws-auth"
ATTEMPTS: Final = 10
"""How often a conflict is answered by reading again."""


class MappingRefused(Exception):
    """The ConfigMap cannot be changed safely. The message names what is wrong and what to write."""


@dataclass(frozen=True, slots=True)
class MappedRoles:
    """The value of `mapRoles`, and the roles in it that Joiner mapped."""

    text: str
    ours: frozenset[str] = frozenset()

    @classmethod
    def from_kube(cls, manifest: Mapping[str, Any]) -> "MappedRoles":
        """Read the manifest of the ConfigMap; missing parts are empty."""
        annotation = (manifest["metadata"].get("annotations") or {}).get(MAPPED_ROLES) or ""
        text = (manifest.get("data") or {}).get("mapRoles") or ""
        return cls(text, frozenset(filter(None, annotation.split(","))))

    def changes(self) -> dict[str, Any]:
        """Return the fields of a merge patch; without roles of Joiner the annotation is removed."""
        annotation = ",".join(sorted(self.ours)) or None
        return {"metadata": {"annotations": {MAPPED_ROLES: annotation}}, "data": {"mapRoles": self.text}}


def map_roles(
    mapped: MappedRoles, functions: Sequence[RoleMapping], nodes: Sequence[RoleMapping], *, keep: bool = False
) -> MappedRoles:
    """Return the content with the roles of functions and of nodes. Former roles of functions are removed; former roles
    of nodes stay, because running nodes may have them; with `keep` all stay.
    """
    entries = {role_of(each): each for each in read_mappings(mapped.text)}
    wanted = {each.arn.lower(): each for each in functions}
    former = [
        arn
        for arn in mapped.ours
        if not keep and arn.lower() not in wanted and (entries.get(arn.lower()) or {}).get("username") != NODE_USERNAME
    ]
    changed = [each for key, each in wanted.items() if entries.get(key) != each.entry()]
    own = {arn.lower() for arn in mapped.ours}
    missing = []
    for each in nodes:
        entry = entries.get(each.arn.lower())
        if entry is None or (each.arn.lower() in own and not _lets_join(entry, each)):
            missing.append(each)
        else:
            _check_node_mapping(entry, each)
    text = edit_mappings(
        mapped.text,
        add=[*changed, *missing],
        remove=[*former, *(each.arn for each in (*changed, *missing))],
    )
    ours = (mapped.ours - set(former)) | {each.arn for each in functions} | {each.arn for each in missing}
    return MappedRoles(text, ours)


def unmap_roles(mapped: MappedRoles, functions: Collection[str], *, unused_nodes: Collection[str]) -> MappedRoles:
    """Return the content without the roles that Joiner mapped; of those of nodes only `unused_nodes` are removed."""
    unused = {arn.lower() for arn in unused_nodes}
    nodes = {role_of(each) for each in read_mappings(mapped.text) if each.get("username") == NODE_USERNAME} - unused
    kept = {arn for arn in mapped.ours if arn.lower() in nodes}
    remove = (mapped.ours | set(functions)) - kept
    return MappedRoles(edit_mappings(mapped.text, add=[], remove=remove), frozenset(kept))


def _lets_join(entry: Mapping[str, Any], wanted: RoleMapping) -> bool:
    return entry.get("username") == NODE_USERNAME and set(wanted.groups) <= set(entry.get("groups") or ())


def _check_node_mapping(entry: Mapping[str, Any], wanted: RoleMapping) -> None:
    if _lets_join(entry, wanted):
        return
    raise MappingRefused(
        f"ConfigMap {NAMESPACE}/{NAME}, mapRoles: the entry of {wanted.arn} has username {entry.get('username')!r} "
        f"and groups {list(entry.get('groups') or ())}; nodes with this role could not join: write username "
        f"{NODE_USERNAME!r} and the groups {', '.join(wanted.groups)}, or name another role in nodeRoles.names"
    )


def write(kube: "Kube", change: Callable[[MappedRoles], MappedRoles]) -> bool:
    """Change the ConfigMap, and return whether it was changed. A ConfigMap that does not exist is created, if there is
    something to write.

    Raises MappingRefused for a content that cannot be read, and the last Conflict.
    """
    conflict: Exception = MappingRefused("never written")
    for _ in range(ATTEMPTS):
        try:
            found = kube.get(CONFIG_MAPS, NAME, namespace=NAMESPACE)
        except NotFound:
            found = {"metadata": {}}
        before = MappedRoles.from_kube(found)
        after = _changed(before, change)
        if after == before:
            return False
        try:
            _store(kube, found, after)
        except (Conflict, AlreadyExists, NotFound) as reason:
            conflict = reason
        else:
            return True
    raise conflict


def _changed(before: MappedRoles, change: Callable[[MappedRoles], MappedRoles]) -> MappedRoles:
    try:
        return change(before)
    except UnreadableMappings as reason:
        raise MappingRefused(
            f"ConfigMap {NAMESPACE}/{NAME}, mapRoles: {reason}. Nothing was changed. Correct it (kubectl "
            f"-n {NAMESPACE} edit configmap {NAME}), and repeat"
        ) from reason


def _store(kube: "Kube", found: Mapping[str, Any], after: MappedRoles) -> None:
    changes = after.changes()
    version = found["metadata"].get("resourceVersion")
    if version is None:
        kube.create(CONFIG_MAPS, {**changes, "metadata": {"name": NAME, **changes["metadata"]}}, namespace=NAMESPACE)
        return
    changes["metadata"]["resourceVersion"] = version
    kube.patch(CONFIG_MAPS, NAME, changes, namespace=NAMESPACE)
