"""Every instance gets the name of its claim, although EC2 may not find an instance in the first seconds after its
launch.
"""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from joiner.adapters import kube_kinds as kinds
from joiner.names import NAME_TAG, NODECLAIM
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


def names(cluster: SimulatedCluster) -> dict[str, tuple[str, str]]:
    """Return the two tags of each instance."""
    tags = {name: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for name, each in cluster.ec2.instances.items()}
    return {name: (each.get(NODECLAIM, ""), each.get(NAME_TAG, "")) for name, each in tags.items()}


def claimed(cluster: SimulatedCluster) -> dict[str, tuple[str, str]]:
    """Return the same as `names`, from the claims."""
    claims = cluster.kube.all(kinds.NODECLAIMS)
    return {each["status"]["providerID"].rpartition("/")[2]: (each["metadata"]["name"],) * 2 for each in claims}


def refuse_tags(cluster: SimulatedCluster, code: str, *instances: str) -> None:
    """Make CreateTags fail for these instances, or for all."""
    tag = cluster.ec2._tag

    def fault(operation: str, do: Any) -> Any:
        if operation == "CreateTags" and not instances:
            raise refused(operation, code)
        return do()

    def partly(asked: Any) -> Any:
        if set(asked["Resources"]) & set(instances):
            raise refused("CreateTags", code)
        return tag(asked)

    cluster.ec2.fault = fault
    cluster.ec2._tag = partly  # type: ignore[method-assign] # the fake is the test's own


@pytest.fixture
def nameless(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with three nodes whose instances EC2 did not find when they were to be tagged."""
    cluster.prepare(pending("web-1"), pending("web-2"), pending("web-3"))
    refuse_tags(cluster, "InvalidInstanceID.NotFound")
    cluster.scale_up("up-1")
    cluster.now += timedelta(minutes=1)
    assert set(names(cluster).values()) == {("", "")}
    assert len(names(cluster)) == 3
    return cluster


def test_the_next_sweep_tags_what_the_launch_could_not(nameless: SimulatedCluster) -> None:
    nameless.ec2.fault = None

    nameless.survey("s1")

    assert names(nameless) == claimed(nameless)


@pytest.mark.parametrize("swept", [False, True])
def test_the_name_that_a_class_sets_is_kept(cluster: SimulatedCluster, swept: bool) -> None:
    cluster.prepare(*(pending(f"web-{number}") for number in range(3)))
    (node_class,) = cluster.kube.all(kinds.EC2NODECLASSES)
    node_class["spec"]["tags"] = {"Name": "web"}
    if swept:
        refuse_tags(cluster, "InvalidInstanceID.NotFound")
    cluster.scale_up("up-1")
    cluster.now += timedelta(minutes=1)
    cluster.ec2.fault = None
    cluster.survey("s1")

    assert names(cluster) == {instance: (claim, "web") for instance, (claim, _) in claimed(cluster).items()}
    assert len(names(cluster)) == 3


def test_what_has_its_name_is_not_tagged_again(nameless: SimulatedCluster) -> None:
    nameless.ec2.fault = None
    nameless.survey("s1")
    before = nameless.ec2.asked.count("CreateTags")

    nameless.survey("s2")

    assert nameless.ec2.asked.count("CreateTags") == before


def test_one_instance_that_cannot_be_tagged_keeps_no_other_from_its_name(nameless: SimulatedCluster) -> None:
    nameless.ec2.fault = None
    first = min(nameless.ec2.instances)
    refuse_tags(nameless, "InvalidInstanceID.NotFound", first)

    nameless.survey("s1")

    assert {name for name, each in names(nameless).items() if each == ("", "")} == {first}


def test_a_throttle_ends_the_tagging_of_this_sweep_and_not_the_sweep(nameless: SimulatedCluster) -> None:
    refuse_tags(nameless, "RequestLimitExceeded")
    before = nameless.ec2.asked.count("CreateTags")

    nameless.survey("s1")

    assert nameless.ec2.asked.count("CreateTags") == before + 1


def test_an_answer_that_is_lost_ends_the_tagging_and_nothing_else(nameless: SimulatedCluster) -> None:
    nameless.ec2.fault = _lost

    before = nameless.ec2.asked.count("CreateTags")
    _, answer = nameless.survey("s1")

    assert nameless.ec2.asked.count("CreateTags") == before + 1
    assert answer["instances"] == 3


def test_a_paused_joiner_tags_nothing(nameless: SimulatedCluster) -> None:
    nameless.ec2.fault = None
    nameless.pause.paused = True

    nameless.survey("s1")

    assert set(names(nameless).values()) == {("", "")}


def _lost(operation: str, do: Any) -> Any:
    if operation == "CreateTags":
        raise EndpointConnectionError(endpoint_url="https://ec2")
    return do()
