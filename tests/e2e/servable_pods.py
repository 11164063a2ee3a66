"""Finds pending pods that a pool could serve, from the manifests and EC2's answers, without Joiner's code.

It reports only certain cases. Pods with constraints that it does not check (host ports, devices, namespace selectors),
and pods that need nearly all of an instance, are left out. For each pod that it reports, EC2 offers an instance in a
zone of the cluster's subnets, within the pool's limits, the pod tolerates its taints, and it could run alone on that
instance beside the pods that are bound: its affinity, its spread and its volumes allow that (`neighbour_rules`).

>>> meets({"a": "1"}, {"key": "a", "operator": "In", "values": ["1", "2"]})
True
>>> meets({}, {"key": "a", "operator": "Exists"})
False
>>> meets({"generation": "6"}, {"key": "generation", "operator": "Gt", "values": ["5"]})
True
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchedStack, condition
from tests.e2e.decoded_quantities import mebibytes, millicores
from tests.e2e.neighbour_rules import HOSTNAME, Neighbours

POOL_PATHS: Final = ("/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1alpha5/provisioners")
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
NAME: Final = re.compile(r"([a-z]+)[a-z0-9-]*?(\d+)")
USABLE: Final = 0.75  # of an instance, at least, is left beside what the system and daemons take
LARGE: Final = 4  # cores: below that the share of the system is larger than a quarter
COMPARED: Final = {"Gt": operator.gt, "Lt": operator.lt, "Gte": operator.ge, "Lte": operator.le}
JUDGED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

Requirement = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfferingLabels:
    """An instance type in a zone by a capacity type, as labels, with what it has."""

    labels: Mapping[str, str]
    millicores: int
    mebibytes: int


def meets(labels: Mapping[str, str], requirement: Requirement) -> bool:
    """Return whether labels meet one requirement."""
    value, wanted = labels.get(requirement["key"]), [str(each) for each in requirement.get("values") or ()]
    asked = requirement["operator"]
    if asked in COMPARED:
        return value is not None and COMPARED[asked](int(value), int(wanted[0]))
    return {
        "In": value in wanted,
        "NotIn": value not in wanted,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[asked]


def for_sale(world: WatchedStack, limits: Sequence[Mapping[str, Any]]) -> list[OfferingLabels]:
    """Return what EC2 offers in the zones of the cluster's subnets; ``limits`` are the capacity pools that a test has
    limited.
    """
    ec2 = world.client("ec2")
    zones = {subnet["AvailabilityZone"] for subnet in ec2.describe_subnets()["Subnets"] if "Tags" in subnet}
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    offered = {(each["InstanceType"], each["Location"]) for page in pages for each in page["InstanceTypeOfferings"]}
    found = []
    for page in ec2.get_paginator("describe_instance_types").paginate():
        for info in page["InstanceTypes"]:
            name, match = info["InstanceType"], NAME.match(info["InstanceType"])
            if match is None or not info["CurrentGeneration"] or info.get("GpuInfo") or info.get("BareMetal"):
                continue
            labels = {
                "node.kubernetes.io/instance-type": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": next((ours for theirs, ours in ARCHITECTURES.items() if _is(info, theirs)), ""),
                "karpenter.k8s.aws/instance-category": match[1][:1] if match[1] in ("c", "m", "r") else match[1],
                "karpenter.k8s.aws/instance-generation": match[2],
                "karpenter.k8s.aws/instance-family": name.partition(".")[0],
                "karpenter.k8s.aws/instance-size": name.partition(".")[2],
                "karpenter.k8s.aws/instance-cpu": str(info["VCpuInfo"]["DefaultVCpus"]),
                "karpenter.k8s.aws/instance-memory": str(info["MemoryInfo"]["SizeInMiB"]),
            }
            for zone in zones:
                for capacity_type in info["SupportedUsageClasses"]:
                    if (
                        (name, zone) in offered
                        and capacity_type in ("spot", "on-demand")
                        and not _short(limits, name, zone, capacity_type)
                    ):
                        more = {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": capacity_type}
                        found.append(
                            OfferingLabels(
                                labels | more, info["VCpuInfo"]["DefaultVCpus"] * 1000, info["MemoryInfo"]["SizeInMiB"]
                            )
                        )
    return found


def _is(info: Mapping[str, Any], architecture: str) -> bool:
    return architecture in info["ProcessorInfo"]["SupportedArchitectures"]


def _short(limits: Sequence[Mapping[str, Any]], *pool: str) -> bool:
    return any(
        all(limit[key] in ("*", value) for key, value in zip(("instanceType", "zone", "lifecycle"), pool, strict=True))
        for limit in limits
    )


def neglected(world: WatchedStack, offerings: Sequence[OfferingLabels]) -> Iterator[str]:
    """Return a sentence for each unschedulable pod that a pool could serve."""
    pools = [{**pool, "path": path} for path in POOL_PATHS for pool in world.kube.items(path)]
    ready = [
        pool for pool in pools if condition(pool, "Ready") == "True" and "deletionTimestamp" not in pool["metadata"]
    ]
    nodes, pods = world.kube.items("/api/v1/nodes"), world.kube.items("/api/v1/pods")
    neighbours = Neighbours.of(
        nodes,
        pods,
        claims=world.kube.items("/api/v1/persistentvolumeclaims"),
        volumes=world.kube.items("/api/v1/persistentvolumes"),
        storage_classes=world.kube.items("/apis/storage.k8s.io/v1/storageclasses"),
    )
    for pod in pods:
        if not waits(pod) or not _plain(pod):
            continue
        for pool in ready:
            if (offering := _one_for(pod, pool, nodes, offerings, neighbours)) is not None:
                kind = offering.labels["node.kubernetes.io/instance-type"]
                yield (
                    f"pod {pod['metadata']['name']} is pending, and pool {pool['metadata']['name']} could serve it, by "
                    f"{kind}"
                )
                break


def waits(pod: Object) -> bool:
    """Return whether the pod is unschedulable."""
    gone = "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName")
    reasons = [each.get("reason") for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
    return not gone and reasons == ["Unschedulable"]


def _plain(pod: Object) -> bool:
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    terms = ((affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms", []
    )
    ports = [port for container in spec["containers"] for port in container.get("ports", []) if port.get("hostPort")]
    near = [
        term
        for kind in ("podAffinity", "podAntiAffinity")
        for term in (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    spread = spec.get("topologySpreadConstraints") or ()
    chosen = bool(terms or spec.get("nodeSelector"))
    strange = (
        spec.get("resourceClaims")
        or any({"namespaceSelector", "mismatchLabelKeys"} & term.keys() for term in near)
        or any({"nodeAffinityPolicy", "nodeTaintsPolicy"} & each.keys() for each in spread)
        or (chosen and any(each["topologyKey"] != HOSTNAME for each in spread))  # other nodes are other domains then
    )
    return not (strange or ports or len(terms) > 1) and set(_requests(pod)) <= JUDGED


def _one_for(
    pod: Object, pool: Object, nodes: Iterable[Object], offerings: Sequence[OfferingLabels], neighbours: Neighbours
) -> OfferingLabels | None:
    """Return the first offering with which the pool could serve the pod."""
    legacy = "provisioners" in pool["path"]
    template = pool["spec"] if legacy else pool["spec"]["template"]
    node = template if legacy else template["spec"]
    own_label = {"karpenter.sh/provisioner-name" if legacy else "karpenter.sh/nodepool": pool["metadata"]["name"]}
    own = {**((template if legacy else template.get("metadata", {})).get("labels") or {}), **own_label}
    if not all(_tolerated(taint, pod["spec"].get("tolerations", [])) for taint in node.get("taints", [])):
        return None
    limits = pool["spec"].get("limits") or {}
    limit = (limits.get("resources") or {} if legacy else limits).get("cpu")
    used = sum(
        millicores(one["status"]["capacity"]["cpu"])
        for one in nodes
        if own_label.items() <= one["metadata"]["labels"].items()
    )
    required, wanted = node.get("requirements", []), _wishes(pod)
    defaults = _defaults(required) if legacy else []
    cpu, memory = millicores(_requests(pod).get("cpu", "0")), mebibytes(_requests(pod).get("memory", "0"))
    for offering in offerings:
        share = USABLE if offering.millicores >= LARGE * 1000 else USABLE / 2
        labels = {**offering.labels, **own}
        if (
            cpu <= offering.millicores * share
            and memory <= offering.mebibytes * share
            and (limit is None or used + offering.millicores <= millicores(str(limit)))
            and all(meets(labels, each) for each in (*required, *defaults, *wanted))
            and neighbours.may_join(pod, labels)
        ):
            return offering
    return None


def _defaults(required: Sequence[Requirement]) -> Iterator[Requirement]:
    """Return the default requirements of a Provisioner."""
    keys = {each["key"] for each in required}
    of_type = {f"karpenter.k8s.aws/instance-{word}" for word in ("family", "category", "generation")} | {
        "node.kubernetes.io/instance-type"
    }
    for key, value in (("kubernetes.io/arch", "amd64"), ("karpenter.sh/capacity-type", "on-demand")):
        if key not in keys:
            yield {"key": key, "operator": "In", "values": [value]}
    if not keys & of_type:
        yield {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}
        yield {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}


def _wishes(pod: Object) -> list[Requirement]:
    selector = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in (pod["spec"].get("nodeSelector") or {}).items()
    ]
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return selector + [
        each for term in affinity.get("nodeSelectorTerms", []) for each in term.get("matchExpressions", [])
    ]


def _tolerated(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, str]]) -> bool:
    return taint["effect"] == "PreferNoSchedule" or any(
        each.get("key") in (None, taint["key"])
        and each.get("effect") in (None, "", taint["effect"])
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in tolerations
    )


def _requests(pod: Object) -> dict[str, str]:
    """Return the requests of the pod's largest container; pods of these tests have one."""
    asked = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    return max(asked, key=lambda requests: millicores(str(requests.get("cpu", "0"))))
