"""What a pod requests, against the cases of Kubernetes' own documentation."""

import pytest

from joiner.cluster.requests import pod_requests


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
        ({"containers": [container("1")], "initContainers": [container("500m", restartPolicy="Always")]}, {"cpu": "1500m"}),
        ({"containers": [container("1")], "initContainers": [container("2"), container("1", restartPolicy="Always")]}, {"cpu": "2"}),
        ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always"), container("2")]}, {"cpu": "3"}),
        ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": "2"}),
        ({"containers": [container("1", limits={"cpu": "2", "nvidia.com/gpu": "1"})]}, {"cpu": "1", "nvidia.com/gpu": "1"}),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, {"cpu": "3"}),
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}, {"cpu": "1", "memory": "1Gi"}),
        ({"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "64Mi"}}, {"cpu": "1250m", "memory": "64Mi"}),
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
    assert pod_requests(spec).to_kube() == {**asked, "pods": "1"}


def test_a_pod_that_is_resized_counts_with_the_larger_of_what_it_wants_and_has() -> None:
    spec = {"containers": [{"name": "main", **container("1")}]}
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}

    assert pod_requests(spec, status).to_kube() == {"cpu": "2", "pods": "1"}


def test_a_resize_that_is_infeasible_counts_with_what_the_pod_has() -> None:
    spec = {"containers": [{"name": "main", **container("64")}]}
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    }

    assert pod_requests(spec, status).to_kube() == {"cpu": "2", "pods": "1"}
