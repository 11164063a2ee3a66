"""One stack for all end-to-end tests: started once, deployed into once, its schedules held, so that a test fires the
sweep itself.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from joiner_local.control_plane.audit_policy import LOG
from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from joiner_local.tooling.build_cache import made_once

pytest.register_assert_rewrite("tests.e2e.policy_members", "tests.e2e.stack_actions")
from tests.e2e.cluster_history import ClusterRecorder  # noqa: E402
from tests.e2e.policy_members import PolicedCluster, policed_cluster  # noqa: E402
from tests.e2e.stack_actions import Actor  # noqa: E402  its assertions show their values

FORGOTTEN_AFTER = 120
"""Seconds that EC2 shows an instance after its end: hundreds of old instances are a large part of each answer."""
BOOT_SECONDS = 1.0
"""Short, because these tests boot many nodes and do not depend on the time of a boot."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After each test of the deployed app that passed, before anything is removed: everything comes to rest and every
    invariant holds; and every disruption during the test kept its rules (`disruption_rules`).

    `@pytest.mark.restless("why")` is for a test after which they cannot hold, `@pytest.mark.denied("why")` for a test
    in which IAM denies calls.
    """
    fixtures = getattr(item, "funcargs", {})
    stack, actor, recorder = (fixtures.get(name) for name in ("bare_stack", "deployed", "recorded"))
    if isinstance(recorder, ClusterRecorder):
        recorder.forget()  # what was before the test
    result = yield
    if isinstance(actor, Actor) and item.get_closest_marker("restless") is None:
        actor.assert_at_rest()
    if isinstance(actor, Actor) and isinstance(recorder, ClusterRecorder):
        assert actor.judge_disruptions().violations == []
    if isinstance(stack, LocalStack):
        found = new_denials(stack)
        assert found == [] or item.get_closest_marker("denied"), found
    return result


REPORTED: Counter[str] = Counter()
"""Denials of the session's stack that a test has already reported."""


def new_denials(stack: LocalStack) -> list[str]:
    """The denials since the last call, those during deployment and between tests included."""
    new = denials(stack) - REPORTED
    REPORTED.update(new)
    return sorted(new)


def denials(stack: LocalStack) -> Counter[str]:
    """The calls that the local IAM denied so far, and those whose permissions it does not know."""
    report = stack.knob("iam/denied")
    denied = {each["message"]: each["times"] for each in report["denied"]}
    unmapped = {f"no table knows {each['call']} of {each['role']}": each["times"] for each in report["unmapped"]}
    return Counter({**denied, **unmapped})


@pytest.fixture(scope="session")
def bare_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A cluster and an account in which nothing is deployed, at least by its fixture."""
    with LocalStack(tmp_path_factory.mktemp("stack"), boot_seconds=BOOT_SECONDS, say=print) as stack:
        stack.knob("preload", {"packages": ["joiner"]})
        yield stack
        assert new_denials(stack) == []


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """This checkout's app as the CDK writes it down, once for all workers."""
    mine = tmp_path_factory.getbasetemp()
    run = mine if worker_id == "master" else mine.parent

    def synthesise(folder: Path) -> None:
        shutil.copytree(
            Deployment(REPOSITORY, mine / "synthesis", say=print).synthesise(),
            folder,
            symlinks=True,
            dirs_exist_ok=True,
        )

    return made_once(run / "cdk.out", synthesise, what="the app's synthesis", say=print)


@pytest.fixture(scope="session")
def printed() -> list[str]:
    """What the deployment of `stack` printed, line by line."""
    return []


@pytest.fixture(scope="session")
def stack(bare_stack: LocalStack, synthesised: Path, printed: list[str]) -> LocalStack:
    """This checkout's app, deployed."""

    def say(line: str) -> None:
        printed.append(line)
        print(line)

    bare_stack.deploy(Deployment(REPOSITORY, bare_stack.root, say=say, synthesised=synthesised))
    bare_stack.knob("schedules/hold", {"held": True})
    bare_stack.knob("instances", {"shownSeconds": FORGOTTEN_AFTER})
    return bare_stack


@pytest.fixture(scope="session")
def deployed(stack: LocalStack) -> Actor:
    return Actor(DemoStack.of(stack), stack.outputs())


@pytest.fixture(scope="session")
def recorder(deployed: Actor) -> ClusterRecorder:
    """What happens in the cluster of the deployed app."""
    stack = deployed.world.stack
    deployed.recorder = ClusterRecorder(stack.kube(), stack.client("ec2"), stack.root / "log" / LOG)
    return deployed.recorder


@pytest.fixture(autouse=True)
def recorded(request: pytest.FixtureRequest) -> ClusterRecorder | None:
    """Record the cluster during every test of the deployed app; `pytest_runtest_call` judges the record."""
    return request.getfixturevalue("recorder") if "deployed" in request.fixturenames else None


@pytest.fixture
def pool(deployed: Actor) -> Iterator[Actor]:
    """Scenario c's pool in an empty cluster."""
    deployed.clean()
    deployed.apply("c-template.yaml")
    deployed.rest()  # a new pool rings, too
    yield deployed
    deployed.clean()


@pytest.fixture(scope="session")
def kube(bare_stack: LocalStack) -> KubeApi:
    """The API server as its administrator."""
    return bare_stack.kube()


@pytest.fixture(scope="session")
def aws(bare_stack: LocalStack) -> Callable[[str], Any]:
    """boto3 clients of the local AWS, by the service's name."""
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in clients:
            clients[service] = bare_stack.client(service)
        return clients[service]

    return client


@pytest.fixture(scope="module", name="cluster")
def policed(bare_stack: LocalStack, kube: KubeApi, aws: Callable[[str], Any]) -> Iterator[PolicedCluster]:
    """A cluster with CRDs, admission policies and RBAC, and members of Joiner's groups."""
    with policed_cluster(bare_stack, kube, aws) as made:
        yield made
