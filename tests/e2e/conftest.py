"""One stack for all end-to-end tests: started once, deployed into once, its schedules held, so that a test fires the sweep itself."""

import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from joiner_local.caches import made_once
from joiner_local.demo import DeployedWorld
from joiner_local.deployment import Deployment
from joiner_local.kube_api import KubeApi
from joiner_local.stack import REPOSITORY, Stack

pytest.register_assert_rewrite("tests.e2e.world")
from tests.e2e.world import Actor  # noqa: E402  its assertions are to tell what they saw

FORGOTTEN_AFTER = (
    120  # seconds that an instance is shown after its end: hundreds of old ones are a large part of each answer of EC2
)
BOOT_SECONDS = 1.0  # what a boot takes is no matter of these tests, and there are many


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After every test of the deployed app that passed, before anything is cleaned away: everything comes to rest and every promise holds.

    `@pytest.mark.restless("why")` is for the test after which they cannot hold.
    """
    result = yield
    actor = getattr(item, "funcargs", {}).get("deployed")
    if isinstance(actor, Actor) and item.get_closest_marker("restless") is None:
        actor.assert_at_rest()
    return result


@pytest.fixture(scope="session")
def bare_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A cluster and an account in which nothing is deployed, at least by its fixture."""
    with Stack(tmp_path_factory.mktemp("stack"), boot_seconds=BOOT_SECONDS, say=print) as stack:
        yield stack


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
def stack(bare_stack: Stack, synthesised: Path, printed: list[str]) -> Stack:
    """This checkout's app, deployed."""

    def say(line: str) -> None:
        printed.append(line)
        print(line)

    bare_stack.deploy(Deployment(REPOSITORY, bare_stack.root, say=say, synthesised=synthesised))
    bare_stack.knob("schedules/hold", {"held": True})
    bare_stack.knob("instances", {"shownSeconds": FORGOTTEN_AFTER})
    return bare_stack


@pytest.fixture(scope="session")
def deployed(stack: Stack) -> Actor:
    return Actor(DeployedWorld.of(stack), stack.outputs())


@pytest.fixture
def pool(deployed: Actor) -> Iterator[Actor]:
    """Scenario c's pool in an empty cluster."""
    deployed.clean()
    deployed.apply("c-template.yaml")
    deployed.rest()  # a new pool rings, too
    yield deployed
    deployed.clean()


@pytest.fixture(scope="session")
def kube(bare_stack: Stack) -> KubeApi:
    """The API server as its administrator."""
    return bare_stack.kube()


@pytest.fixture(scope="session")
def aws(bare_stack: Stack) -> Callable[[str], Any]:
    """boto3 clients of the local AWS, by the service's name."""
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in clients:
            clients[service] = bare_stack.client(service)
        return clients[service]

    return client
