"""Whether EC2 allows the launches of a node class, as dry runs of them show: a condition of the class, as in Karpenter.

A dry run is a request with all the fields of a launch that launches nothing. Only a missing permission counts: the
class is not ready until a later dry run is allowed. Everything else (a throttle, no answer, no capacity, a type that a
zone does not have) says nothing about permissions. Source: EC2 API reference, "Common query parameters", `DryRun`;
Karpenter, `pkg/controllers/nodeclass/validation.go`.

A class without a verdict is ready, unlike in Karpenter: no pod waits for a dry run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

LaunchCall = Literal["CreateLaunchTemplate", "CreateFleet", "RunInstances"]

ALLOWED: Final = "DryRunOperation"
"""EC2's code for a dry run that it allows."""
REFUSED: Final = "UnauthorizedOperation"

ALLOWED_SECONDS: Final = 29 * 60
"""Seconds after which launches that were allowed are tried again, with the next detection of drift."""
REFUSED_SECONDS: Final = 4 * 60
"""Seconds after which refused launches are tried again: with every detection of drift, so that a permission that was
granted is noticed."""
HELD_SECONDS: Final = 30 * 60
"""Seconds for which a refusal that is not tried again holds the class back."""

ENCODED: Final = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
DENIAL: Final = re.compile(
    r"is not authorized to perform: (?P<action>[\w:-]+)(?: on resource: (?P<resource>\S+))?\s*(?P<reason>.*)", re.DOTALL
)
OF_SOME_LAUNCHES: Final = re.compile(r":(instance|subnet|network-interface)/")
"""Resources of which a policy may forbid some by instance type, capacity type or zone."""
REMEDIES: Final[Mapping[str, str]] = {
    "service control policy": "have that service control policy of the organisation changed",
    "resource control policy": "have that resource control policy of the organisation changed",
    "permissions boundary": "extend that permissions boundary; the setting permissionsBoundary names it",
    "VPC endpoint policy": "extend the policy of that VPC endpoint",
    "explicit deny in an identity-based policy": "remove that statement from the policies of the role",
    "no identity-based policy allows": (
        "deploy Joiner again, which gives the role its policies, and check nodeClasses and imageOwners in the settings"
    ),
}
OTHER_REMEDY: Final = (
    "look for a service control policy, a permissions boundary, or an image owner that imageOwners does not name"
)


@dataclass(frozen=True, slots=True)
class MissingPermission:
    """A call that the role of launch_instances may not make; ``message`` is EC2's, without its encoded part.

    It is ``certain`` if no launch of the class can be allowed. Policies may allow only some instance types, and a class
    has more of them than are tried.
    """

    call: LaunchCall
    message: str
    certain: bool = True

    @property
    def reason(self) -> str:
        """Return the reason of the condition, as Karpenter has it.

        >>> MissingPermission("CreateFleet", "").reason
        'CreateFleetAuthCheckFailed'
        """
        return f"{self.call}AuthCheckFailed"

    @property
    def concerns_every_launch(self) -> bool:
        """Return whether EC2 would refuse all launches of the class for the same reason, whatever their instance type
        and zone: the launch template, the role's own policies, and all that the class decides.

        >>> denied = "is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:"
        >>> kinds = ("instance/*", "volume/*")
        >>> [MissingPermission("RunInstances", denied + each).concerns_every_launch for each in kinds]
        [False, True]
        """
        if self.call == "CreateLaunchTemplate" or "no identity-based policy allows" in self.message:
            return True
        found = DENIAL.search(self.message)
        return found is not None and bool(found["resource"]) and not OF_SOME_LAUNCHES.search(found["resource"])

    @property
    def explanation(self) -> str:
        """Return the refusal with its remedy, for the class's condition.

        >>> text = "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: ec2:RunInstances on resource: "
        >>> print(MissingPermission("RunInstances", text + "arn:b with an explicit deny in a service control policy")
        ... .explanation.partition(" (")[0])
        EC2 refuses RunInstances: the role of launch_instances may not ec2:RunInstances on arn:b
        """
        found = DENIAL.search(self.message)
        remedy = next((text for part, text in REMEDIES.items() if part in self.message), OTHER_REMEDY)
        if found is None:
            shown = f"EC2 refuses {self.call} to the role of launch_instances: {self.message.rstrip('.')}"
        else:
            resource = f" on {found['resource'].rstrip('.')}" if found["resource"] else ""
            reason = f" ({because})" if (because := found["reason"].strip().rstrip(".")) else ""
            shown = f"EC2 refuses {self.call}: the role of launch_instances may not {found['action']}{resource}{reason}"
        return f"{shown}: {remedy}; `joiner accept` shows EC2's whole answer"


@dataclass(frozen=True, slots=True)
class ClassVerdict:
    """What the last dry runs of a class showed: ``refusals`` are empty if EC2 allows its launches.

    ``digest`` is that of the class then (`digest_class`), ``at`` the time in epoch seconds.
    """

    digest: str
    refusals: tuple[MissingPermission, ...] = ()
    at: int = 0

    def is_due(self, digest: str, now: int) -> bool:
        """Return whether the launches of the class, which has this digest now, are to be tried again.

        >>> ClassVerdict("a", (), 0).is_due("a", 1700), ClassVerdict("a", (), 0).is_due("b", 1)
        (False, True)
        """
        return digest != self.digest or now - self.at >= (REFUSED_SECONDS if self.refusals else ALLOWED_SECONDS)

    def holds(self, digest: str, now: int) -> bool:
        """Return whether its refusals, if any, are those of the class, which has this digest now."""
        return bool(self.refusals) and digest == self.digest and now - self.at < HELD_SECONDS


def refusals_to_json(refusals: Iterable[MissingPermission]) -> list[list[str]]:
    """Return the JSON form of refusals."""
    return [[each.call, each.message, "" if each.certain else "uncertain"] for each in refusals]


def refusals_from_json(raw: Iterable[Sequence[Any]]) -> tuple[MissingPermission, ...]:
    """Read the JSON form of refusals, as `refusals_to_json` returns it."""
    return tuple(MissingPermission(call, str(message), certain=not uncertain) for call, message, uncertain in raw)


def shorten_message(message: str) -> str:
    """Return EC2's message without the encoded part, which only `sts:DecodeAuthorizationMessage` can read.

    >>> shorten_message("You are not authorized to perform this operation. Encoded authorization failure message: 4b1")
    'You are not authorized to perform this operation.'
    """
    return ENCODED.sub("", message)
