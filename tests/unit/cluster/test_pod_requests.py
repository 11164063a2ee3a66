"""A pod's requests, against the cases of Kubernetes' own documentation."""

import pytest

from joiner.cluster import InvalidField
from joiner.cluster.pod_requests import sum_pod_requests


def container(
    cpu: str | None = None, memory: str | None = None, *, limits: dict[str, str] | None = None, **more: object
) -> dict[str, object]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"resources": {"requests": requests, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"containers": [container("1", "1Gi"), container("500m")]}, {"cpu": "1500m", "memory": "1Gi"}),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, {"cpu": "3"}),
        (
            {"containers": [container("1")], "initContainers": [container("500m", restartPolicy="Always")]},
            {"cpu": "1500m"},
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2"), container("1", restartPolicy="Always")],
            },
            {"cpu": "2"},
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("2")],
            },
            {"cpu": "3"},
        ),
        ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": "2"}),
        (
            {"containers": [container("1", limits={"cpu": "2", "nvidia.com/gpu": "1"})]},
            {"cpu": "1", "nvidia.com/gpu": "1"},
        ),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, {"cpu": "3"}),
        (
            {"containers": [container("1")], "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}},
            {"cpu": "1", "memory": "1Gi"},
        ),
        (
            {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": "1250m", "memory": "64Mi"},
        ),
        ({"containers": [container()]}, {}),
    ],
    ids=[
        "containers add up",
        "the largest init container counts",
        "a sidecar stays",
        "an init container before a sidecar runs without it",
        "an init container after a sidecar runs beside it",
        "a limit alone is a request",
        "a request goes before its limit",
        "the pod's own requests go before its containers'",
        "the pod's limits count where nobody requests",
        "a runtime class has its overhead",
        "nothing is asked",
    ],
)
def test_requests_are_counted_as_the_scheduler_counts_them(spec: dict[str, object], asked: dict[str, str]) -> None:
    assert sum_pod_requests(spec).to_kube() == {**asked, "pods": "1"}


@pytest.mark.parametrize(
    ("spec", "field", "value", "remedy"),
    [
        (
            {"containers": [container("2")], "resources": {"requests": {"cpu": "1"}}},
            "resources.requests[cpu]",
            "1",
            "give the whole pod at least what its containers request together, which is 2",
        ),
        (
            {
                "containers": [container("1"), container(limits={"cpu": "1"})],
                "initContainers": [container("500m", restartPolicy="Always")],
                "resources": {"requests": {"cpu": "2"}},
            },
            "resources.requests[cpu]",
            "2",
            "give the whole pod at least what its containers request together, which is 2500m",
        ),
        (
            {"containers": [container("1", "2Gi")], "resources": {"limits": {"memory": "1Gi"}}},
            "resources.limits[memory]",
            "1Gi",
            "give the whole pod at least what its containers request together, which is 2Gi",
        ),
        (
            {
                "containers": [container("1"), container("1", limits={"cpu": "4"})],
                "resources": {"limits": {"cpu": "3"}},
            },
            "containers[1].resources.limits[cpu]",
            "4",
            "it must be at most the limit of the whole pod, which is 3",
        ),
    ],
    ids=[
        "a container asks for more",
        "containers and sidecars ask for more",
        "beyond the limit that is the request",
        "a higher limit",
    ],
)
def test_pod_level_resources_below_the_sum_of_the_containers_are_refused(
    spec: dict[str, object], field: str, value: str, remedy: str
) -> None:
    with pytest.raises(InvalidField) as refused:
        sum_pod_requests(spec)

    assert (refused.value.field, refused.value.value, refused.value.remedy) == (field, value, remedy)


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        (
            {"containers": [container("2", "3Gi")], "resources": {"requests": {"cpu": "2"}}},
            {"cpu": "2", "memory": "3Gi"},
        ),
        (
            {"containers": [container("1", limits={"cpu": "2"})], "resources": {"limits": {"memory": "1Gi"}}},
            {"cpu": "1", "memory": "1Gi"},
        ),
        ({"containers": [container(limits={"cpu": "2"})], "resources": {"limits": {"cpu": "2"}}}, {"cpu": "2"}),
        (
            {"containers": [container("1", limits={"cpu": "2"})] * 2, "resources": {"limits": {"cpu": "3"}}},
            {"cpu": "2"},
        ),
        (
            {"containers": [container("1", limits={"cpu": "2"})], "resources": {"requests": {"cpu": "1500m"}}},
            {"cpu": "1500m"},
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", limits={"cpu": "9"})],
                "resources": {"limits": {"cpu": "2"}},
            },
            {"cpu": "1"},
        ),
    ],
    ids=[
        "only some resources are given",
        "another resource is limited",
        "a limit alone is the request, and just enough",
        "limits may add up to more than the pod's",
        "a limit may be above the pod's request",
        "a limit of an init container may be above the pod's",
    ],
)
def test_sufficient_pod_level_resources_replace_the_sum_of_the_containers(
    spec: dict[str, object], asked: dict[str, str]
) -> None:
    assert sum_pod_requests(spec).to_kube() == {**asked, "pods": "1"}


def test_a_resize_in_progress_makes_no_pod_invalid() -> None:
    spec = {"containers": [{"name": "main", **container("1")}], "resources": {"requests": {"cpu": "1"}}}
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}

    assert sum_pod_requests(spec, status).to_kube() == {"cpu": "1", "pods": "1"}


def test_a_pod_in_a_resize_counts_with_the_larger_of_requested_and_allocated() -> None:
    spec = {"containers": [{"name": "main", **container("1")}]}
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}

    assert sum_pod_requests(spec, status).to_kube() == {"cpu": "2", "pods": "1"}


def test_a_pod_with_an_infeasible_resize_counts_with_its_allocated_resources() -> None:
    spec = {"containers": [{"name": "main", **container("64")}]}
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    }

    assert sum_pod_requests(spec, status).to_kube() == {"cpu": "2", "pods": "1"}


WHOLE: dict[str, object] = {
    "containers": [{"name": "main", **container("50m")}],
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
}
INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, "100m"),
        ({"resources": {"requests": {"cpu": "900m"}}}, "900m"),
        ({"allocatedResources": {"cpu": "900m"}}, "900m"),
        ({"resources": {"requests": {"cpu": "900m"}}, "allocatedResources": {"cpu": "100m"}}, "900m"),
        ({"resources": {"requests": {"cpu": "80m"}}, "allocatedResources": {"cpu": "90m"}}, "100m"),
        ({"allocatedResources": {"cpu": "80m"}, "conditions": [DEFERRED]}, "100m"),
        ({"allocatedResources": {"cpu": "80m"}, "conditions": [INFEASIBLE]}, "80m"),
        (
            {
                "resources": {"requests": {"cpu": "90m"}},
                "allocatedResources": {"cpu": "80m"},
                "conditions": [INFEASIBLE],
            },
            "90m",
        ),
        ({"conditions": [INFEASIBLE]}, "100m"),
    ],
    ids=[
        "no status",
        "shrinks, and has more",
        "shrinks, and more is allocated",
        "shrinks, and less is allocated already",
        "grows",
        "cannot grow now",
        "can never grow",
        "can never grow, and has more than is allocated",
        "can never grow, and has no status",
    ],
)
def test_a_resize_of_the_pod_as_a_whole_counts_like_that_of_a_container(status: dict[str, object], cpu: str) -> None:
    assert sum_pod_requests(WHOLE, status).to_kube() == {"cpu": cpu, "memory": "1Gi", "pods": "1"}


def test_a_status_of_the_pod_as_a_whole_does_not_replace_the_sum_of_its_containers() -> None:
    """The scheduler reads it only for pods with pod-level requests, and for the resources that these may have."""
    containers = {"containers": [container("1")]}
    level = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"allocatedResources": {"cpu": "3", "ephemeral-storage": "1Gi"}}

    assert sum_pod_requests(containers, status).to_kube() == {"cpu": "1", "pods": "1"}
    assert sum_pod_requests(level, status).to_kube() == {"cpu": "3", "pods": "1"}
