"""EC2's error codes: shortages, throttles, temporary errors, and remedies for the others.

Sources: EC2 API reference, "Error codes"; Karpenter (`pkg/errors/errors.go`).
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Extent(StrEnum):
    """Which offerings a shortage concerns."""

    OFFERING = "the instance type in the zone"
    TYPE = "the instance type in every zone"
    ZONE = "every instance type in the zone"
    CAPACITY_TYPE = "every offering of the capacity type"


SHORTAGES: Mapping[str, Extent] = {
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Extent.CAPACITY_TYPE,
    "InstanceLimitExceeded": Extent.TYPE,
    "InsufficientCapacityOnHost": Extent.OFFERING,
    "InsufficientFreeAddressesInSubnet": Extent.ZONE,
    "InsufficientInstanceCapacity": Extent.OFFERING,
    "InsufficientReservedInstanceCapacity": Extent.OFFERING,
    "InvalidCapacityReservationId.NotFound": Extent.OFFERING,  # the next plan reads the reservations again
    "InvalidCapacityReservationState": Extent.OFFERING,
    "InvalidFleetConfiguration": Extent.OFFERING,  # the zone does not offer the type
    "MaxFleetCountExceeded": Extent.CAPACITY_TYPE,
    "MaxSpotInstanceCountExceeded": Extent.TYPE,
    "ReservationCapacityExceeded": Extent.OFFERING,
    "SpotMaxPriceTooLow": Extent.OFFERING,
    "UnfulfillableCapacity": Extent.OFFERING,
    "Unsupported": Extent.OFFERING,
    "VcpuLimitExceeded": Extent.TYPE,  # the quota of a family is the same in every zone; a smaller type may fit
}
"""Errors after which these offerings are avoided for some time; others may be available. A shortage is recorded for the
capacity type of the launch.
"""

CAPACITY_ERRORS = frozenset(SHORTAGES)

PLACEMENT_ERRORS = frozenset({"InsufficientInstanceCapacity", "UnfulfillableCapacity"})
"""Shortages that concern only the placement group of the launch, if it has one."""

TENANCY_ERRORS = PLACEMENT_ERRORS | {"Unsupported"}
"""Shortages that concern only the tenancy of the launch: dedicated hardware exists for fewer instance types."""

THROTTLING_ERRORS = frozenset(
    {"EC2ThrottledException", "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"}
)
TRANSIENT_ERRORS = frozenset(
    {
        "IdempotentParameterMismatch",  # the token belongs to another request; the next plan's launches have new tokens
        "InternalError",
        "InternalFailure",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidLaunchTemplateName.NotFoundException",  # a new template may not be visible everywhere yet
        "ServiceUnavailable",
        "Unavailable",
    }
)
"""Temporary errors: the same claims may be launched a few seconds later."""

ALL_SPOT_ERRORS = frozenset({"AuthFailure.ServiceLinkedRoleCreationNotPermitted"})
"""Errors that concern every spot offering."""

VCPU_QUOTA_ERRORS = frozenset({"MaxSpotInstanceCountExceeded", "VcpuLimitExceeded"})
"""Errors of a quota that counts the vCPUs of instance families."""

TEMPLATE_DIFFERS = "LaunchTemplateDiffers"
"""Joiner's own code: a launch template of the wanted name has another content."""


class Remedy(NamedTuple):
    """A reason for programs, and a sentence for users."""

    reason: str
    remedy: str


REMEDIES: Mapping[str, Remedy] = {
    "AttachmentLimitExceeded": Remedy(
        "TooManyInterfaces", "declare fewer networkInterfaces on each network card of the class"
    ),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Remedy(
        "SpotSLRCreationFailed", "run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    ),
    "IdempotentParameterMismatch": Remedy(
        "IdempotentParameterMismatch", "no action is needed: the next plan sends a new request"
    ),
    "InstanceLimitExceeded": Remedy(
        "InstanceLimitExceeded", "request a higher quota of this instance type in Service Quotas"
    ),
    "InsufficientFreeAddressesInSubnet": Remedy(
        "InsufficientFreeAddressesInSubnet", "give the class larger or more subnets"
    ),
    "InternalError": Remedy("InternalError", "EC2 had an internal error: the launch is tried again"),
    "InvalidAMIID.Malformed": Remedy("InvalidAMIID", "correct the id of the image"),
    "InvalidAMIID.NotFound": Remedy("AMINotFound", "the image does not exist: select another"),
    "InvalidAMIID.Unavailable": Remedy("AMINotFound", "the image is not available: select another"),
    "InvalidBlockDeviceMapping": Remedy("BlockDeviceInvalid", "correct the class's blockDeviceMappings"),
    "InvalidGroup.NotFound": Remedy(
        "SecurityGroupNotFound", "the security group does not exist: it is looked up again before the next launch"
    ),
    "InvalidLaunchTemplateId.NotFoundException": Remedy(
        "LaunchTemplateNotFound", "the launch template was deleted: the next launch creates it again"
    ),
    "InvalidLaunchTemplateName.NotFoundException": Remedy(
        "LaunchTemplateNotFound", "the launch template was deleted: the next launch creates it again"
    ),
    "InvalidPlacementGroup.Unknown": Remedy(
        "PlacementGroupNotFound", "the placement group does not exist: it is looked up again before the next launch"
    ),
    "InvalidSnapshot.NotFound": Remedy(
        "SnapshotNotFound", "the snapshot does not exist, or this account may not use it: name another"
    ),
    "InvalidSubnetID.NotFound": Remedy(
        "SubnetNotFound", "the subnet does not exist: it is looked up again before the next launch"
    ),
    "InvalidUserData.Malformed": Remedy("InvalidUserData", "correct the class's userData"),
    TEMPLATE_DIFFERS: Remedy(
        TEMPLATE_DIFFERS,
        (
            "delete that launch template, then Joiner creates it again; CloudTrail shows who created it "
            "(CreateLaunchTemplate)"
        ),
    ),
    "MaxFleetCountExceeded": Remedy(
        "FleetQuotaExceeded", "request a higher quota of EC2 Fleets per Region in Service Quotas"
    ),
    "MaxSpotInstanceCountExceeded": Remedy(
        "SpotQuotaExceeded", "request a higher quota of Spot Instance requests in Service Quotas"
    ),
    "MaxIOPSLimitExceeded": Remedy(
        "IOPSQuotaExceeded", "request a higher quota of provisioned IOPS of EBS in Service Quotas, or delete volumes"
    ),
    "MaxTemplateLimitExceeded": Remedy(
        "LaunchTemplateQuotaExceeded",
        (
            "request a higher quota of launch templates per Region in Service Quotas, or delete launch templates of "
            "others that nothing uses: Joiner deletes its own an hour after their last use"
        ),
    ),
    "PendingVerification": Remedy(
        "AccountPendingVerification", "AWS still verifies this account or region: wait, or contact AWS Support"
    ),
    "PrivateIpAddressLimitExceeded": Remedy(
        "TooManyAddresses", "lower the class's ipPrefixCount: each prefix takes one address of the interface"
    ),
    "SecurityGroupsPerInterfaceLimitExceeded": Remedy(
        "TooManySecurityGroups",
        "select fewer security groups, or request a higher quota of security groups per network interface in Service "
        "Quotas",
    ),
    "UnauthorizedOperation": Remedy(
        "Unauthorized",
        "allow the role of launch_instances what it lacks: aws sts decode-authorization-message shows what",
    ),
    "VcpuLimitExceeded": Remedy(
        "VCPULimitExceeded", "request a higher vCPU quota of this instance family in Service Quotas"
    ),
}
SERVICE_LINKED_ROLES: tuple[tuple[re.Pattern[str], Remedy], ...] = (
    (
        re.compile(r"service-linked ?role.*spot|AWSServiceRoleForEC2Spot", re.IGNORECASE | re.DOTALL),
        REMEDIES["AuthFailure.ServiceLinkedRoleCreationNotPermitted"],
    ),
    (
        re.compile(r"iam:CreateServiceLinkedRole|service-linked ?role", re.IGNORECASE),
        Remedy(
            "ServiceLinkedRoleMissing",
            "create the service-linked role that EC2 names: aws iam create-service-linked-role",
        ),
    ),
)
"""Texts that identify a missing service-linked role for any code of EC2."""

BY_MESSAGE: tuple[tuple[re.Pattern[str], Remedy], ...] = (
    (
        re.compile(r"iam ?instance ?profile", re.IGNORECASE),
        Remedy(
            "InstanceProfileNameInvalid",
            "the instance profile does not exist or has no role: correct the class's instanceProfile",
        ),
    ),
    (
        re.compile(r"user data is limited", re.IGNORECASE),
        Remedy("UserDataSizeLimitExceeded", "shorten the class's userData"),
    ),
    (
        re.compile(r"security group .*subnet .*different networks|different networks", re.IGNORECASE),
        Remedy("SecurityGroupSubnetVPCMismatch", "select security groups and subnets of one VPC"),
    ),
    (re.compile(r"encoded authorization failure|not authorized", re.IGNORECASE), REMEDIES["UnauthorizedOperation"]),
    (
        re.compile(r"free tier", re.IGNORECASE),
        Remedy("FreeTierIneligible", "this account may only use types of the free tier"),
    ),
)

ENCODED = re.compile(r"[,.]?\s*Encoded authorization failure message: \S+")


def without_encoded_part(message: str) -> str:
    """Return a message of EC2 without the encoded part, which differs every time.

    The same refusal must be the same event. The log has the whole message.

    >>> without_encoded_part("You are not authorized. Encoded authorization failure message: x9Zk")
    'You are not authorized'
    """
    return ENCODED.sub("", message)


def find_error_remedy(code: str, message: str) -> Remedy:
    """Return the reason and the remedy of an error. An unknown code is reported as unknown.

    >>> find_error_remedy("InvalidParameterValue", "Invalid IAM Instance Profile name").reason
    'InstanceProfileNameInvalid'
    """
    for pattern, remedy in SERVICE_LINKED_ROLES:
        if pattern.search(message):
            return remedy
    if code in REMEDIES:
        return REMEDIES[code]
    for pattern, remedy in BY_MESSAGE:
        if pattern.search(message):
            return remedy
    return Remedy("LaunchFailed", f"EC2 returned {code}: read its message, then correct the class or the permissions")
