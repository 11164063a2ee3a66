"""The device plug-ins of a node: the extended resources that they register of the hardware of an instance.

The NVIDIA and Neuron plug-ins find devices only with the drivers of an accelerated image; Bottlerocket has the
driver of Neuron in its standard variant. The EFA plug-in registers one resource for each EFA interface of the instance.
Sources: EKS user guide, "Manage hardware devices on Amazon EKS"; Karpenter, pull request 7722.
"""

from collections.abc import Mapping
from typing import Any

NVIDIA = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"


def registered_devices(info: Mapping[str, Any], image: str, efa_interfaces: int) -> dict[str, int]:
    """Return the devices by resource. `info` is the type's entry of DescribeInstanceTypes, `image` the image's name.

    >>> gpus = {"GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA", "Count": 4}]}}
    >>> registered_devices(gpus, "amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261104", efa_interfaces=1)
    {'nvidia.com/gpu': 4, 'vpc.amazonaws.com/efa': 1}
    >>> registered_devices(gpus, "amazon-eks-node-al2023-x86_64-standard-1.36-v20261104", efa_interfaces=0)
    {}
    >>> devices = {"NeuronInfo": {"NeuronDevices": [{"Count": 1, "CoreInfo": {"Count": 4}}]}}
    >>> registered_devices(devices, "bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8", efa_interfaces=0)
    {'aws.amazon.com/neuron': 1, 'aws.amazon.com/neuroncore': 4}
    >>> registered_devices(devices, "bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.50.0-f2c1d5a8", efa_interfaces=0)
    {}
    """
    found: dict[str, int] = {}
    accelerated = "-gpu-" in image
    if accelerated or "nvidia" in image:
        gpus = (info.get("GpuInfo") or {}).get("Gpus") or ()
        found[NVIDIA] = sum(gpu["Count"] for gpu in gpus if gpu["Manufacturer"] == "NVIDIA")
    standard = image.startswith("bottlerocket-") and "nvidia" not in image
    if accelerated or standard or "neuron" in image:
        neurons = (info.get("NeuronInfo") or {}).get("NeuronDevices") or ()
        found["aws.amazon.com/neuron"] = sum(one["Count"] for one in neurons)
        found["aws.amazon.com/neuroncore"] = sum(one["Count"] * one["CoreInfo"]["Count"] for one in neurons)
    found[EFA] = efa_interfaces
    return {name: count for name, count in found.items() if count}
