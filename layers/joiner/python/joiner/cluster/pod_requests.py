"""The requests of a pod, computed as kube-scheduler does.

Sources: Kubernetes, "Sidecar Containers" (resource sharing within containers), "Pod Overhead", "Pod-level resources",
KEP-1287 (in-place resize), KEP-5419 (in-place resize of pod-level resources). Init containers run one after the other,
so the largest counts. Init containers that restart continue to run, so they add to everything that starts after them.

>>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
>>> first = {"resources": {"requests": {"cpu": "2"}}}
>>> main = {"resources": {"requests": {"cpu": "1"}}}
>>> sum_pod_requests({"containers": [main], "initContainers": [sidecar, first]}).to_kube()
{'cpu': '2500m', 'pods': '1'}
"""

from collections.abc import Mapping
from typing import Any

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.resources import CPU, MEMORY, PODS, Resources

Manifest = Mapping[str, Any]


class PodTooSmall(InvalidField):
    """The pod-level resources are less than its containers need. Each quantity is valid; together they are not."""


def sum_pod_requests(spec: Manifest, status: Manifest | None = None) -> Resources:
    """Return the requests of the whole pod, including ``pods: 1``.

    ``status`` matters while a pod is resized in place. InvalidField for an invalid quantity. PodTooSmall if
    ``spec.resources`` is less than the containers need.
    """
    resized = _resized(status or {})
    infeasible = any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in (status or {}).get("conditions") or ()
    )
    counted = dict(_sum_of_containers(spec, resized, infeasible=infeasible))
    if spec.get("resources"):
        _check_pod_level(spec, _sum_of_containers(spec, {}, infeasible=False) if resized else counted)
    pod_level = _pod_level(spec, counted)
    actual = _given(status or {}) if pod_level else {}
    counted.update({name: _in_resize(asked, actual.get(name), infeasible) for name, asked in pod_level.items()})
    return (Resources(counted) + _read(spec.get("overhead"), "overhead") + Resources({PODS: 1})).without_zeros()


def _sum_of_containers(spec: Manifest, resized: Mapping[str, Resources], *, infeasible: bool) -> Resources:
    running, starting, sidecars = Resources(), Resources(), Resources()
    for container in spec.get("initContainers") or ():
        asked = _container(container, resized, infeasible=infeasible)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            starting |= sidecars
        else:
            starting |= asked + sidecars
    for container in spec.get("containers") or ():
        running += _container(container, resized, infeasible=infeasible)
    return (running + sidecars) | starting


def _container(container: Manifest, resized: Mapping[str, Resources], *, infeasible: bool) -> Resources:
    resources = container.get("resources") or {}
    asked = Resources(
        {**_read(resources.get("limits"), "resources.limits"), **_read(resources.get("requests"), "resources.requests")}
    )
    actual = resized.get(container.get("name") or "")
    if actual is None:
        return asked
    return actual if infeasible else asked | actual


def _resized(status: Manifest) -> dict[str, Resources]:
    """Return the resources that the kubelet allocated to each container.

    They may differ from the spec during a resize.
    """
    found = {}
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        given = (container.get("resources") or {}).get("requests")
        if given is not None or container.get("allocatedResources") is not None:
            found[container.get("name") or ""] = _given(container)
    return found


def _given(status: Manifest) -> Resources:
    """Return the larger of what a container or a pod has and what is allocated to it, by its status."""
    return Resources.from_kube((status.get("resources") or {}).get("requests")) | Resources.from_kube(
        status.get("allocatedResources")
    )


def _in_resize(asked: int, actual: int | None, infeasible: bool) -> int:
    """Return what counts of a pod-level request: the larger amount, or what the pod has if a resize is infeasible."""
    if actual is None:
        return asked
    return actual if infeasible else max(asked, actual)


def _check_pod_level(spec: Manifest, asked: Mapping[str, int]) -> None:
    """Check pod-level resources as the API server does (``validatePodResourceConsistency``).

    The pod requests at least the sum of its containers, and no container's limit is above the pod's limit. If only the
    pod's limit is set, its request is the sum of the containers, which must be within the limit.
    """
    resources = spec["resources"]
    limits, requests = (
        _read(resources.get("limits"), "resources.limits"),
        _read(resources.get("requests"), "resources.requests"),
    )
    for name, amount in asked.items():
        side, most = ("requests", requests) if name in requests else ("limits", limits)
        if name in most and amount > most[name]:
            together = Resources({name: amount}).to_kube()[name]
            remedy = f"give the whole pod at least what its containers request together, which is {together}"
            raise PodTooSmall(f"resources.{side}[{name}]", resources[side][name], remedy)
    for number, container in enumerate(spec.get("containers") or ()):
        own = (container.get("resources") or {}).get("limits") or {}
        for name, amount in _read(own, "resources.limits").items():
            if name in limits and amount > limits[name]:
                remedy = f"it must be at most the limit of the whole pod, which is {resources['limits'][name]}"
                raise PodTooSmall(f"containers[{number}].resources.limits[{name}]", own[name], remedy)


def _pod_level(spec: Manifest, counted: Mapping[str, int]) -> dict[str, int]:
    """Return the pod-level requests that replace the sum of the containers.

    A pod-level limit is used where no container has a request.
    """
    resources = spec.get("resources") or {}
    limits = {
        name: amount
        for name, amount in _read(resources.get("limits"), "resources.limits").items()
        if not counted.get(name)
    }
    return {
        name: amount
        for name, amount in {**limits, **_read(resources.get("requests"), "resources.requests")}.items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }


def _read(quantities: Manifest | None, path: str) -> Resources:
    try:
        return Resources.from_kube(quantities)
    except InvalidField as invalid:
        raise invalid.within(path) from invalid
