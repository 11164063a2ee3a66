"""The vCPU quotas of EC2: one for each group of instance families and purchase option, counted in vCPUs.

EC2's error names neither the quota nor its code in Service Quotas; both follow from the instance family. Only the
message of an on-demand launch has the value. Source: EC2 user guide, "Amazon EC2 service quotas"; AWS General
Reference, "Amazon EC2 endpoints and quotas".
"""

import re
from typing import Final, NamedTuple

from joiner import names

STANDARD: Final = "Standard (A, C, D, H, I, M, R, T, Z)"
VALUE: Final = re.compile(r"limit of (\d+)")
FAMILY: Final = re.compile(r"[a-z]+")


class VcpuQuota(NamedTuple):
    """A quota by its name and code in Service Quotas."""

    name: str
    code: str


ON_DEMAND: Final[dict[str, VcpuQuota]] = {
    "dl": VcpuQuota("Running On-Demand DL instances", "L-6E869C2A"),
    "f": VcpuQuota("Running On-Demand F instances", "L-74FC7D96"),
    "g": VcpuQuota("Running On-Demand G and VT instances", "L-DB2E81BA"),
    "gr": VcpuQuota("Running On-Demand G and VT instances", "L-DB2E81BA"),
    "vt": VcpuQuota("Running On-Demand G and VT instances", "L-DB2E81BA"),
    "hpc": VcpuQuota("Running On-Demand HPC instances", "L-F7808C92"),
    "inf": VcpuQuota("Running On-Demand Inf instances", "L-1945791B"),
    "p": VcpuQuota("Running On-Demand P instances", "L-417A185B"),
    "trn": VcpuQuota("Running On-Demand Trn instances", "L-2C3B7624"),
    "u": VcpuQuota("Running On-Demand High Memory instances", "L-43DA4232"),
    "x": VcpuQuota("Running On-Demand X instances", "L-7295265B"),
}
SPOT: Final[dict[str, VcpuQuota]] = {
    "dl": VcpuQuota("All DL Spot Instance Requests", "L-85EED4F7"),
    "f": VcpuQuota("All F Spot Instance Requests", "L-88CF9481"),
    "g": VcpuQuota("All G and VT Spot Instance Requests", "L-3819A6DF"),
    "gr": VcpuQuota("All G and VT Spot Instance Requests", "L-3819A6DF"),
    "vt": VcpuQuota("All G and VT Spot Instance Requests", "L-3819A6DF"),
    "inf": VcpuQuota("All Inf Spot Instance Requests", "L-B5D1601B"),
    "trn": VcpuQuota("All Trn Spot Instance Requests", "L-6B0D517C"),
    "x": VcpuQuota("All X Spot Instance Requests", "L-E3A00192"),
}
OTHERS: Final = {
    names.ON_DEMAND: VcpuQuota(f"Running On-Demand {STANDARD} instances", "L-1216C47A"),
    names.SPOT: VcpuQuota(f"All {STANDARD} Spot Instance Requests", "L-34B43A08"),
}
SPOT_P: Final = {
    True: VcpuQuota("All P5 Spot Instance Requests", "L-C4BD4855"),
    False: VcpuQuota("All P4, P3 and P2 Spot Instance Requests", "L-7212CCBC"),
}
STANDARD_FAMILIES: Final = frozenset({"a", "c", "d", "h", "i", "im", "is", "m", "mac", "r", "t", "z"})


def find_vcpu_quota(instance_type: str, capacity_type: str) -> VcpuQuota | None:
    """Return the quota that counts an instance type; None for a family that is not known here.

    >>> find_vcpu_quota("m5.large", "spot").code
    'L-34B43A08'
    >>> find_vcpu_quota("g5.xlarge", "on-demand").name
    'Running On-Demand G and VT instances'
    """
    found = FAMILY.match(instance_type)
    family = found.group() if found else ""
    purchase_option = names.SPOT if capacity_type == names.SPOT else names.ON_DEMAND
    if purchase_option == names.SPOT and family == "p":
        return SPOT_P[instance_type.startswith("p5")]
    if family in STANDARD_FAMILIES:
        return OTHERS[purchase_option]
    return (SPOT if purchase_option == names.SPOT else ON_DEMAND).get(family)


def read_quota_value(message: str) -> int:
    """Return the value of the quota that EC2's message contains; 0 if there is none.

    >>> read_quota_value("You have requested more vCPU capacity than your current vCPU limit of 32 allows")
    32
    """
    found = VALUE.search(message)
    return int(found.group(1)) if found else 0


def describe_quota(quota: VcpuQuota, value: int) -> str:
    """Return the name and the value of a quota, and the commands that show and raise it.

    >>> print(describe_quota(VcpuQuota("All F Spot Instance Requests", "L-88CF9481"), 0))
    The quota "All F Spot Instance Requests" of Service Quotas (L-88CF9481) is used up. Show it: aws service-quotas \
get-service-quota \
--service-code ec2 --quota-code L-88CF9481. Raise it: aws service-quotas request-service-quota-increase --service-code \
ec2 --quota-code L-88CF9481 --desired-value N
    """
    state = f"is {value} vCPUs and used up" if value else "is used up"
    named = f"--service-code ec2 --quota-code {quota.code}"
    show = "" if value else f"Show it: aws service-quotas get-service-quota {named}. "
    return (
        f'The quota "{quota.name}" of Service Quotas ({quota.code}) {state}. {show}'
        f"Raise it: aws service-quotas request-service-quota-increase {named} --desired-value N"
    )
