"""Custom resource and hourly schedule: create the access of nodes to the cluster, and keep it until no node uses it.

CloudFormation would delete the access entry, the instance profile and the role of running nodes when the stack is
deleted or when `nodeRoles` changes. So the stack retains profiles and role, and does not contain the access entries.
This function creates the entries, and removes entries, profiles and the role that the settings do not name and no
instance uses. The hourly removal needs two checks, at least half an hour apart: an execution that began before a
deployment may still launch with the previous role. When the stack is deleted, launches have stopped, and one check is
enough; what is in use then stays.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from aws_lambda_powertools import Logger

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve
from joiner.adapters.node_access import Kept, NodeAccess

logger = Logger()

PHYSICAL_ID: Final = "joiner-node-access"
CONFIRM_AFTER: Final = 1800
"""Seconds between two checks that find something unused, before it is removed."""


class UnusedSince(Protocol):
    """The times since which access objects are unused."""

    def since(self) -> Mapping[str, int]:
        """Return since when roles have no node, in epoch seconds."""

    def keep(self, seen: set[str], known: Mapping[str, int], now: int) -> None:
        """Store since when the roles that were seen have no node; forget the others."""


@dataclass(frozen=True, slots=True)
class WantedAccess:
    """The settings: role ARNs (`windows_roles`: those of Windows nodes among them), whether this function creates their
    entries, and the names of the deployment's own role and profiles.
    """

    cluster: str
    roles: tuple[str, ...]
    manage_entries: bool
    own_role: str
    path: str
    profiles: tuple[str, ...] = ()
    windows_roles: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "WantedAccess":
        """Read the properties of the custom resource; deployments of earlier versions lack the last two."""
        return cls(
            cluster=properties["Cluster"],
            roles=tuple(filter(None, properties["Roles"].split(","))),
            manage_entries=properties["ManageEntries"] == "true",
            own_role=properties["OwnRole"],
            path=properties["ProfilePath"],
            profiles=tuple(filter(None, properties.get("Profiles", "").split(","))),
            windows_roles=tuple(filter(None, properties.get("WindowsRoles", "").split(","))),
        )


@dataclass(frozen=True, slots=True)
class UnusedAccess:
    """An object that the settings no longer name: `what` identifies it, `remove` deletes it, `used` returns whether an
    instance needs it.
    """

    what: str
    used: bool
    remove: Callable[[], None]


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, list[str]] | None:
    """Answer CloudFormation, or the schedule."""
    if "RequestType" in event:
        serve(event, context, act)
        return None
    from joiner.adapters import environment

    wanted = WantedAccess.of({name: os.environ[f"NODE_ACCESS_{name.upper()}"] for name in NAMES})
    return remove_unused(_access(wanted), wanted, environment.disuse(), int(time.time()))


NAMES: Final = ("Cluster", "Roles", "ManageEntries", "OwnRole", "ProfilePath", "Profiles", "WindowsRoles")


def act(request: Request) -> Answer:
    """Create the wanted entries; on Delete remove what is not in use."""
    wanted = WantedAccess.of(request.properties)
    access = _access(wanted)
    if request.kind != "Delete":
        grant_access(access, wanted)
        return Answer(PHYSICAL_ID)
    for each in removable(access, WantedAccess(wanted.cluster, (), False, wanted.own_role, wanted.path)):
        if each.used:
            logger.warning("kept, because instances use it", what=each.what)
        else:
            remove(each)
    return Answer(request.physical_id or PHYSICAL_ID)


def remove(unused: UnusedAccess) -> bool:
    """Remove an unused object; return False, with a warning, if it has additions by others and therefore stays."""
    try:
        unused.remove()
    except Kept as reason:
        logger.warning("kept", what=unused.what, reason=str(reason))
        return False
    logger.info("removed: no instance uses it", what=unused.what)
    return True


def grant_access(access: NodeAccess, wanted: WantedAccess) -> None:
    """Create the entries that the settings want and that do not exist."""
    for role in wanted.roles if wanted.manage_entries else ():
        if access.grant(role, windows=role in wanted.windows_roles):
            logger.info("made an access entry", role=role)


def remove_unused(access: NodeAccess, wanted: WantedAccess, disuse: UnusedSince, now: int) -> dict[str, list[str]]:
    """Create missing entries again, and remove what two checks found unused.

    Return ``{"removed", "unused", "used"}`` of what the settings no longer name.
    """
    grant_access(access, wanted)
    found = list(removable(access, wanted))
    since = disuse.since()
    unused = {each.what for each in found if not each.used}
    due = [each for each in found if each.what in unused and since.get(each.what, now) <= now - CONFIRM_AFTER]
    removed = {each.what for each in due if remove(each)}
    disuse.keep(unused - removed, since, now)
    return {
        "removed": sorted(removed),
        "unused": sorted(unused - removed),
        "used": sorted(each.what for each in found if each.used),
    }


def removable(access: NodeAccess, wanted: WantedAccess) -> Iterator[UnusedAccess]:
    """Yield what a deployment created and the settings do not name: entries, then profiles, then the role.

    The role can only be deleted when it has no profile.
    """
    used = access.used_profiles()
    for role in access.entries():
        if role not in wanted.roles:
            in_use = bool(access.profiles_of(role.rpartition("/")[2]) & used)
            yield UnusedAccess(role, in_use, partial(access.remove_entry, role))
    for arn, name in access.profiles(wanted.path).items():
        if name not in wanted.profiles:
            yield UnusedAccess(arn, arn in used, partial(access.remove_profile, name))
    own = wanted.own_role
    if own not in {each.rpartition("/")[2] for each in wanted.roles} and access.made_role(own):
        yield UnusedAccess(f"role/{own}", bool(access.profiles_of(own)), partial(access.remove_role, own))


def _access(wanted: WantedAccess) -> NodeAccess:
    from joiner.adapters.environment import client

    return NodeAccess(wanted.cluster, eks=client("eks"), iam=client("iam"), ec2=client("ec2"))
