"""Settings of node roles: the IAM roles that nodes may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from infra.settings_reader import SettingsMistake, TextPattern

RoleName = TextPattern(
    r"([\w+=,.@-]{1,128}/)*[\w+=,.@-]{1,64}",
    "a role's name, with its path if it has one (teams/web/NAME), without arn:",
)


@dataclass(frozen=True, slots=True)
class NodeRoleSettings:
    """IAM roles that nodes may have: a limit that users of kubectl cannot raise."""

    names: Annotated[tuple[str, ...], RoleName] = ()
    """Names of existing roles, with their paths. The first is the default. Each gets an instance profile. Empty: the
    deployment creates a role with the four policies that EKS requires of nodes."""
    windows_names: Annotated[tuple[str, ...], RoleName] = ()
    """Those of the roles in `names` that Windows nodes have: their entries are of type EC2_WINDOWS, which also admits
    Linux nodes. The type of an entry cannot be changed."""
    manage_node_access_entry: bool = True
    """Create the access entries of these roles. An entry that exists, because a node group of the cluster
    uses the role, is used as it is. With the authentication mode CONFIG_MAP: map the roles in aws-auth. Set it to false
    where something else admits the nodes."""


def bare_role_name(named: str) -> str:
    """Return the name of a role without its path: node classes and instance profiles name roles so, and an account has
    no two roles of one name.

    >>> bare_role_name("teams/web/nodes"), bare_role_name("nodes")
    ('nodes', 'nodes')
    """
    return named.rpartition("/")[2]


def check_node_roles(roles: NodeRoleSettings) -> list[SettingsMistake]:
    """Return roles that occur twice, and roles of Windows nodes that nodes may not have."""
    unknown = [
        SettingsMistake(
            f"nodeRoles.windowsNames[{index}]",
            f"nodeRoles.windowsNames[{index}] is {name!r}: nodes may not have that role: write it in nodeRoles.names"
            f"{_remark(name, roles.names)}",
        )
        for index, name in enumerate(roles.windows_names)
        if name not in roles.names
    ]
    bare = [bare_role_name(name) for name in roles.names]
    twice = [
        SettingsMistake(
            f"nodeRoles.names[{index}]",
            f"nodeRoles.names[{index}] is {roles.names[index]!r}: an account has no two roles of one name, and "
            f"{roles.names[bare.index(name)]!r} is named before: write one of them",
        )
        for index, name in enumerate(bare)
        if bare.index(name) < index
    ]
    return [*unknown, *twice]


def _remark(name: str, allowed: Sequence[str]) -> str:
    same = next((each for each in allowed if bare_role_name(each) == bare_role_name(name)), None)
    return f", or here {same!r} as it stands there" if same else ""
