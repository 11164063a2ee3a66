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
    """A word for programs, and a sentence for users."""

    reason: str
    remedy: str


REMEDIES: Mapping[str, Remedy] = {
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Remedy(
        "SpotSLRCreationFailed", "run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    ),
    "IdempotentParameterMismatch": Remedy(
        "IdempotentParameterMismatch", "nothing is to be done: the next plan sends a new request"
    ),
    "InstanceLimitExceeded": Remedy(
        "InstanceLimitExceeded", "request a higher quota of this instance type in Service Quotas"
    ),
    "InsufficientFreeAddressesInSubnet": Remedy(
        "InsufficientFreeAddressesInSubnet", "give the class larger or more subnets"
    ),
    "InternalError": Remedy("InternalError", "EC2 has trouble of its own: it will be tried again"),
    "InvalidAMIID.Malformed": Remedy("InvalidAMIID", "put the image's id right"),
    "InvalidAMIID.NotFound": Remedy("AMINotFound", "the image is gone: select another"),
    "InvalidAMIID.Unavailable": Remedy("AMINotFound", "the image is not available (any more): select another"),
    "InvalidBlockDeviceMapping": Remedy("BlockDeviceInvalid", "put the class's blockDeviceMappings right"),
    "InvalidGroup.NotFound": Remedy("SecurityGroupNotFound", "the security group is gone: it will be looked up again"),
    "InvalidLaunchTemplateId.NotFoundException": Remedy(
        "LaunchTemplateNotFound", "the launch template was deleted: it will be made again"
    ),
    "InvalidLaunchTemplateName.NotFoundException": Remedy(
        "LaunchTemplateNotFound", "the launch template was deleted: it will be made again"
    ),
    "InvalidSnapshot.NotFound": Remedy(
        "SnapshotNotFound", "the snapshot is gone, or this account may not use it: name another"
    ),
    "InvalidSubnetID.NotFound": Remedy("SubnetNotFound", "the subnet is gone: it will be looked up again"),
    "InvalidUserData.Malformed": Remedy("InvalidUserData", "put the class's userData right"),
    TEMPLATE_DIFFERS: Remedy(
        TEMPLATE_DIFFERS,
        (
            "delete that launch template, then Joiner creates it again; CloudTrail shows who made it "
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
            "request a higher quota of launch templates per Region in Service Quotas, or delete launch templates that "
            "nothing uses: Joiner makes the one that it needs again"
        ),
    ),
    "PendingVerification": Remedy(
        "AccountPendingVerification", "AWS is still checking this account or region: wait, or ask AWS"
    ),
    "SecurityGroupsPerInterfaceLimitExceeded": Remedy(
        "TooManySecurityGroups",
        "select fewer security groups, or request a higher quota of security groups per network interface in Service "
        "Quotas",
    ),
    "UnauthorizedOperation": Remedy(
        "Unauthorized",
        "allow the role of launch_instances what it lacks: aws sts decode-authorization-message tells what",
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
            "the instance profile does not exist or has no role: put the class's instanceProfile right",
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


def find_remedy(code: str, message: str) -> Remedy:
    """Return the reason and the remedy of an error. An unknown code is reported as unknown.

    >>> find_remedy("InvalidParameterValue", "Invalid IAM Instance Profile name").reason
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
