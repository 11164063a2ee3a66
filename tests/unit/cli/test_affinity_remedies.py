"""What `joiner explain pod` proposes for required node affinity places the pod if it is applied to the manifest: an
empty term matches no node, and alternatives stay alternatives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import pod, pool
from tests.unit.cli.remedy_runs import is_placed, only, remedy

CPUS, ARCH = "karpenter.k8s.aws/instance-cpu", "kubernetes.io/arch"
TYPES = only("node.kubernetes.io/instance-type", "m5.large", "m5.xlarge")
MANY_CPUS = {"key": CPUS, "operator": "Gt", "values": ["8"]}
RACK = {"key": "example.com/rack", "operator": "Exists"}
WHOLE = "the pod would have to drop its required node affinity"


def terms(*found: list[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a pod with these alternatives."""
    required = {"nodeSelectorTerms": [{"matchExpressions": one} if one else {} for one in found]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod("a", affinity=affinity, **more)


@pytest.mark.parametrize("found", [[[MANY_CPUS], [RACK]], [[RACK]], [[]]], ids=["two", "one", "empty"])
def test_the_whole_affinity_is_dropped_if_a_term_without_its_expression_would_be_empty(
    found: list[list[Mapping[str, Any]]], tmp_path: Path, catalogue: Path
) -> None:
    assert remedy(tmp_path, catalogue, pool(requirements=[TYPES]), terms(*found)).startswith(WHOLE)
    emptied: list[list[list[Mapping[str, Any]]]] = [[[]] * len(found), [*found[:-1], []]]
    for literally in emptied:
        assert not is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), terms(*literally))
    assert is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), pod("a"))


def test_an_expression_is_dropped_if_the_rest_of_its_term_is_met(tmp_path: Path, catalogue: Path) -> None:
    amd, red = only(ARCH, "amd64"), only("team", "red")

    assert remedy(tmp_path, catalogue, pool(requirements=[TYPES]), terms([amd, red], [RACK])) == (
        "the pod would have to drop team In [red], or NodePool/default would have to allow team In [red]."
    )
    assert is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), terms([amd], [RACK]))
    assert is_placed(tmp_path, catalogue, pool(requirements=[TYPES, red]), terms([amd, red], [RACK]))


def test_a_term_whose_expressions_all_fail_is_dropped_with_the_affinity(tmp_path: Path, catalogue: Path) -> None:
    both = terms([MANY_CPUS, RACK], [only("team", "red"), MANY_CPUS])

    assert remedy(tmp_path, catalogue, pool(requirements=[TYPES]), both).startswith(WHOLE)


def test_a_selector_beside_an_affinity_is_dropped_with_it(tmp_path: Path, catalogue: Path) -> None:
    selected = terms([RACK], nodeSelector={"team": "red", ARCH: "amd64"})

    assert remedy(tmp_path, catalogue, pool(requirements=[TYPES]), selected).startswith(f"{WHOLE} and drop team In ")
    assert is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), pod("a", nodeSelector={ARCH: "amd64"}))


def test_a_node_name_is_dropped_from_a_term_with_other_expressions(tmp_path: Path, catalogue: Path) -> None:
    named = terms([only(ARCH, "amd64")])
    affinity = named["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    affinity["nodeSelectorTerms"][0]["matchFields"] = [only("metadata.name", "node-1")]

    assert remedy(tmp_path, catalogue, pool(), named) == "the pod would have to drop the node name that it requires."

    del affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert remedy(tmp_path, catalogue, pool(), named) == f"{WHOLE}."
