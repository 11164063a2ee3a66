"""The text of `mapRoles` in the ConfigMap `kube-system/aws-auth`: read and edit, without a change of other entries.

The value is YAML, which people and other programs write, too. An edit changes only lines of the entries that are added
or removed: comments, order and indentation of the others stay. (A list in flow style, which JSON is, is written anew as
one.) The edited text is parsed again and compared with what it must contain; a text for which this fails is refused
unchanged.

Source: EKS user guide, "Grant IAM users access to Kubernetes with a ConfigMap". STS does not return the path of a role,
so that `rolearn` has none.

>>> text = "# ours\\n- rolearn: arn:aws:iam::1:role/a\\n  username: a\\n"
>>> print(edit_mappings(text, add=[], remove=["arn:aws:iam::1:role/a"]))
# ours
[]
<BLANKLINE>
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

NODE_USERNAME: Final = "system:node:{{EC2PrivateDNSName}}"
NODE_GROUPS: Final = ("system:bootstrappers", "system:nodes")
WINDOWS_GROUP: Final = "eks:kube-proxy-windows"


class UnreadableMappings(Exception):
    """`mapRoles` is not a list of role mappings, or cannot be edited safely; the message names the cause."""


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """One entry: a role without path, its user name in the cluster, and its groups."""

    arn: str
    username: str
    groups: tuple[str, ...]

    @classmethod
    def of_nodes(cls, arn: str, *, windows: bool = False) -> "RoleMapping":
        """Return the mapping that nodes with this role need in order to join. That of Windows nodes also admits Linux
        nodes.

        >>> made = RoleMapping.of_nodes("arn:aws:iam::1:role/teams/web/node", windows=True)
        >>> made.arn, made.groups
        ('arn:aws:iam::1:role/node', ('system:bootstrappers', 'system:nodes', 'eks:kube-proxy-windows'))
        """
        return cls(without_path(arn), NODE_USERNAME, (*NODE_GROUPS, WINDOWS_GROUP) if windows else NODE_GROUPS)

    @classmethod
    def of_sessions(cls, arn: str, groups: Collection[str]) -> "RoleMapping":
        """Return the mapping of a function's role, with the user name that an access entry gives by default.

        >>> RoleMapping.of_sessions("arn:aws:iam::1:role/sweep", ["joiner:viewer"]).username
        'arn:aws:sts::1:assumed-role/sweep/{{SessionName}}'
        """
        bare = without_path(arn)
        start, _, name = bare.rpartition(":role/")
        sessions = f"{start.replace(':iam:', ':sts:')}:assumed-role/{name}/{{{{SessionName}}}}"
        return cls(bare, sessions, tuple(groups))

    def entry(self) -> dict[str, Any]:
        """Return the entry of `mapRoles`."""
        return {"rolearn": self.arn, "username": self.username, "groups": list(self.groups)}


def without_path(arn: str) -> str:
    """Return the ARN of a role without its path, because the sessions of a role do not show it.

    Source: EKS user guide, "Troubleshoot IAM" (a role with a path in aws-auth).

    >>> without_path("arn:aws:iam::1:role/teams/web/node"), without_path("arn:aws:iam::1:role/node")
    ('arn:aws:iam::1:role/node', 'arn:aws:iam::1:role/node')
    """
    start, _, role = arn.rpartition(":role/")
    return f"{start}:role/{role.rpartition('/')[2]}"


def read_mappings(text: str) -> list[dict[str, Any]]:
    """Return the entries; an empty text has none. Raises UnreadableMappings."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableMappings(f"it is not YAML: {' '.join(str(error).split())[:300]}") from error
    if found is None:
        return []
    if not isinstance(found, list):
        raise UnreadableMappings(f"it is a {type(found).__name__}, not a list")
    for index, each in enumerate(found):
        if not isinstance(each, dict) or not isinstance(each.get("rolearn"), str):
            raise UnreadableMappings(f"entry {index + 1} has no rolearn")
    return found


def role_of(entry: Mapping[str, Any]) -> str:
    """Return the role of an entry as the authenticator compares it: in lower case."""
    return str(entry["rolearn"]).lower()


def edit_mappings(text: str, *, add: Sequence[RoleMapping], remove: Collection[str]) -> str:
    """Return the text without the entries of the roles `remove`, and with the entries `add` at the end.

    Raises UnreadableMappings if the text cannot be read, or if the result would not have exactly these entries.
    """
    gone = {arn.lower() for arn in remove}
    wanted = [each for each in read_mappings(text) if role_of(each) not in gone] + [each.entry() for each in add]
    if wanted == read_mappings(text):
        return text
    edited = _append(_cut(text, gone), add)
    try:
        same = read_mappings(edited) == wanted
    except UnreadableMappings:
        same = False
    if not same:
        raise UnreadableMappings("it is written in a way that cannot be edited without a change of other entries")
    return edited


def _cut(text: str, gone: Collection[str]) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    entries = read_mappings(text)
    if not isinstance(root, yaml.SequenceNode) or not any(role_of(each) in gone for each in entries):
        return text
    if root.flow_style:
        return _rewrite_flow(text, root, [each for each in entries if role_of(each) not in gone])
    lines = text.splitlines(keepends=True)
    for node, entry in reversed(list(zip(root.value, entries, strict=True))):
        if role_of(entry) in gone:
            del lines[node.start_mark.line : _last_line(node) + 1]
    left = "".join(lines)
    return left if read_mappings(left) else _with_line_end(left) + "[]\n"


def _append(text: str, add: Sequence[RoleMapping]) -> str:
    if not add:
        return text
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.SequenceNode) and root.flow_style and root.value:
        return _rewrite_flow(text, root, [*read_mappings(text), *(each.entry() for each in add)])
    indent = 0
    if isinstance(root, yaml.SequenceNode) and root.flow_style:
        text = text[: root.start_mark.index] + text[root.end_mark.index :].lstrip()
    elif isinstance(root, yaml.SequenceNode):
        indent = root.start_mark.column
    return _with_line_end(text) + "".join(" " * indent + line + "\n" for each in add for line in _lines(each))


def _rewrite_flow(text: str, root: yaml.SequenceNode, entries: Sequence[Mapping[str, Any]]) -> str:
    return text[: root.start_mark.index] + json.dumps(entries) + text[root.end_mark.index :]


def _lines(mapping: RoleMapping) -> list[str]:
    """Return an entry in block style. Scalars are in double quotes, which JSON and YAML read alike."""
    fields = [f"- rolearn: {json.dumps(mapping.arn)}", f"  username: {json.dumps(mapping.username)}", "  groups:"]
    if not mapping.groups:
        return [*fields[:2], "  groups: []"]
    return fields + [f"  - {json.dumps(group)}" for group in mapping.groups]


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node's own text; the end mark of a block is behind the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return max(_last_line(each) for pair in node.value for each in pair)
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return max(map(_last_line, node.value))
    return int(node.end_mark.line)


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
