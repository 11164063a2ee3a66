"""`CpuOptions` of a launch: nested virtualization. Others are refused, because the local EC2 would drop them.

Source: EC2 user guide, "CPU options for Amazon EC2 instances" and "Nested virtualization".
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

NESTED = "NestedVirtualization"


def processor_problems(data: Mapping[str, Any], instance_type: str) -> Iterator[tuple[str, str]]:
    """Return the errors of RunInstances for the CPU options of a launch."""
    options: Mapping[str, Any] = data.get("CpuOptions") or {}
    if other := sorted(options.keys() - {NESTED}):
        yield "UnsupportedOperation", f"the local EC2 has no CpuOptions {', '.join(other)}"
    value = options.get(NESTED)
    if value not in (None, "enabled", "disabled"):
        yield "InvalidParameterValue", f"Invalid value '{value}' for {NESTED}."
    features = INSTANCE_TYPES[instance_type]["ProcessorInfo"].get("SupportedFeatures", ())
    if value == "enabled" and "nested-virtualization" not in features:
        message = f"The instance type {instance_type} does not support nested virtualization."
        yield "InvalidParameterCombination", message


def describe_on(instance: Any, data: Mapping[str, Any]) -> None:
    """Show the options on a launched instance, with the processor of its type."""
    processor = INSTANCE_TYPES[instance.instance_type]["VCpuInfo"]
    own = {key: value for key, value in (data.get("CpuOptions") or {}).items() if key == NESTED}
    instance.cpu_options = {
        "CoreCount": processor.get("DefaultCores"),
        "ThreadsPerCore": processor.get("DefaultThreadsPerCore"),
        **own,
    }
