"""`joiner explain pod` proposes a change only if a plan with it places the pod; each test applies what is proposed."""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from joiner.catalogue.assumed_spot_offerings import assume_spot_offerings
from joiner.cluster.quantities import parse_amount
from tests.unit.cli.command_runs import deployment, joiner, pod, pool, write
from tests.unit.cli.remedy_runs import is_placed, only, remedy
from tests.unit.cli.small_catalogue import small

CATEGORY, FAMILY = "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-family"
CAPACITY_TYPE, ARCH = "karpenter.sh/capacity-type", "kubernetes.io/arch"
TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}


def test_two_rules_that_keep_a_pod_out_are_both_in_the_remedy(tmp_path: Path, catalogue: Path) -> None:
    """A label that the pool does not have, and a family that it excludes."""
    m5 = only(FAMILY, "m5")
    asks = {"team": "red", FAMILY: "c6i"}
    red, c6i = only("team", "red"), only(FAMILY, "c6i")

    assert remedy(tmp_path, catalogue, pool(requirements=[m5]), pod("a", nodeSelector=asks)) == (
        f"the pod would have to drop {FAMILY} In [c6i] and drop team In [red], or NodePool/default would have to allow "
        f"{FAMILY} In [c6i] and allow team In [red]."
    )

    for half in ({"team": "red"}, {FAMILY: "c6i"}):
        assert not is_placed(tmp_path, catalogue, pool(requirements=[m5]), pod("a", nodeSelector=half))
    for other in ([red, m5], [c6i]):
        assert not is_placed(tmp_path, catalogue, pool(requirements=other), pod("a", nodeSelector=asks))
    assert is_placed(tmp_path, catalogue, pool(requirements=[m5]), pod("a"))
    assert is_placed(tmp_path, catalogue, pool(requirements=[red, c6i]), pod("a", nodeSelector=asks))


def test_a_taint_and_a_requirement_are_both_in_the_remedy(tmp_path: Path, catalogue: Path) -> None:
    tainted = pool(requirements=[only(ARCH, "amd64")], node={"taints": [TAINT]})

    assert remedy(tmp_path, catalogue, tainted, pod("a", nodeSelector={ARCH: "arm64"})) == (
        f"the pod would have to tolerate team=red:NoSchedule and drop {ARCH} In [arm64], or "
        f"NodePool/default would have to remove the taint team=red:NoSchedule and allow {ARCH} In [arm64]."
    )


def test_a_pod_that_is_too_large_beside_another_rule_also_requests_less(tmp_path: Path, catalogue: Path) -> None:
    amd = pool(requirements=[only(ARCH, "amd64")])

    assert remedy(tmp_path, catalogue, amd, pod("a", cpu="20", nodeSelector={ARCH: "arm64"})) == (
        f"the pod would have to drop {ARCH} In [arm64] and request 4.11 cpu less."
    )
    assert is_placed(tmp_path, catalogue, amd, pod("a", cpu="15890m"))


def test_no_remedy_removes_a_device_that_a_pod_requests(tmp_path: Path, catalogue: Path) -> None:
    gpu = pod("a")
    gpu["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    general = pool(requirements=[only(CATEGORY, "c", "m", "r")])

    assert remedy(tmp_path, catalogue, general, gpu) == (
        f"NodePool/default would have to allow other values of {CATEGORY} (then it gets g4dn.xlarge in us-east-1a, "
        "on-demand, $0.5382/h)."
    )
    assert is_placed(tmp_path, catalogue, pool(), gpu)


def test_where_no_change_helps_none_is_proposed(tmp_path: Path, catalogue: Path) -> None:
    gpu = pod("a")
    gpu["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "99"}

    assert remedy(tmp_path, catalogue, pool(requirements=[only(CATEGORY, "c", "m", "r")]), gpu) == (
        "no change of the pod and of this pool alone was found that places it."
    )


def test_both_sides_change_together_where_neither_suffices(tmp_path: Path, catalogue: Path) -> None:
    """The pod requires another pool's label, which no pool can have; the pool has no GPU."""
    gpu = pod("a", nodeSelector={"karpenter.sh/nodepool": "other"})
    gpu["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}

    assert remedy(tmp_path, catalogue, pool(requirements=[only(CATEGORY, "c")]), gpu) == (
        "the pod would have to drop karpenter.sh/nodepool In [other], and NodePool/default would have to allow other "
        f"values of {CATEGORY} (then it gets g4dn.xlarge in us-east-1a, on-demand, $0.5382/h)."
    )


def test_the_pod_changes_first_where_the_pool_cannot_meet_what_it_requires(tmp_path: Path, catalogue: Path) -> None:
    """No c6i has a GPU, whatever the pool allows."""
    gpu = pod("a", nodeSelector={"team": "red", FAMILY: "c6i"})
    gpu["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}

    assert remedy(tmp_path, catalogue, pool(requirements=[only(CATEGORY, "c", "m", "r")]), gpu) == (
        f"the pod would have to drop {FAMILY} In [c6i] and drop team In [red], and NodePool/default would have to "
        f"allow other values of {CATEGORY} (then it gets g4dn.xlarge in us-east-1a, on-demand, $0.5382/h)."
    )


def test_a_limit_is_raised(tmp_path: Path, catalogue: Path) -> None:
    limited = remedy(tmp_path, catalogue, pool(limits={"cpu": "1"}), pod("a"))

    assert limited == "NodePool/default would have to raise its limits."
    assert not is_placed(tmp_path, catalogue, pool(limits={"cpu": "1"}), pod("a"))
    assert is_placed(tmp_path, catalogue, pool(limits={"cpu": "2"}), pod("a"))


def test_a_rule_between_pods_is_dropped(tmp_path: Path, catalogue: Path) -> None:
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
            ]
        }
    }

    assert remedy(tmp_path, catalogue, pool(), pod("a", affinity=affinity)) == (
        "the pod would have to drop its podAffinity."
    )


# Spot
# ----------------------------------------------------------------------------------------------------------------------

NO_PRICES = "the catalogue has no spot prices (--catalogue)"


def test_a_spot_pool_without_spot_prices_is_reported_as_such_and_needs_no_other_change(
    tmp_path: Path, catalogue: Path
) -> None:
    files = write(tmp_path, pool(requirements=[only(CAPACITY_TYPE, "spot")]), pod("a"))
    answer = joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue)

    assert answer.exit_code == 2
    assert answer.out.splitlines() == [
        "default/a stays pending. It requests 0.1 cpu, 128 MiB memory.",
        "",
        f"default: it allows Spot Instances only, and {NO_PRICES}.",
        "  What would have to change: nothing; a plan with spot prices places it.",
    ]


def test_a_rule_that_keeps_a_pod_out_of_a_spot_pool_is_in_the_remedy_also_without_spot_prices(
    tmp_path: Path, catalogue: Path
) -> None:
    spot, red = pool(requirements=[only(CAPACITY_TYPE, "spot")]), pod("a", nodeSelector={"team": "red"})

    assert remedy(tmp_path, catalogue, spot, red) == (
        "the pod would have to drop team In [red], or NodePool/default would have to allow team In [red]; this assumes "
        "Spot Instances, for which the catalogue has no prices."
    )


def test_a_change_to_spot_is_proposed_with_the_note_that_prices_are_missing(tmp_path: Path, catalogue: Path) -> None:
    spot = pod("a", nodeSelector={CAPACITY_TYPE: "spot"})

    assert remedy(tmp_path, catalogue, pool(requirements=[only(CAPACITY_TYPE, "on-demand")]), spot) == (
        f"the pod would have to drop {CAPACITY_TYPE} In [spot], or NodePool/default would have to allow "
        f"{CAPACITY_TYPE} In [spot]; this assumes Spot Instances, for which the catalogue has no prices."
    )


def test_a_zone_that_differs_in_the_case_of_letters_is_suggested(tmp_path: Path, catalogue: Path) -> None:
    elsewhere = pod("a", nodeSelector={"topology.kubernetes.io/zone": "us-east-1A"})
    found = joiner("plan", "-f", write(tmp_path, pool(), elsewhere), "--catalogue", catalogue, "-o", "json").json

    assert found["pending"][0]["reasons"][0]["reason"].endswith(
        "topology.kubernetes.io/zone In [us-east-1A], and no node of this pool has that; did you mean us-east-1a?"
    )


def test_a_pod_that_requires_spot_has_the_same_reason_in_a_pool_that_allows_it(tmp_path: Path, catalogue: Path) -> None:
    spot = pod("a", nodeSelector={CAPACITY_TYPE: "spot"})
    either, demand = pool(requirements=[only(CAPACITY_TYPE, "spot", "on-demand")]), only(CAPACITY_TYPE, "on-demand")

    def reason(*pools: Mapping[str, Any]) -> Sequence[str]:
        found = joiner("plan", "-f", write(tmp_path, *pools, spot), "--catalogue", catalogue, "-o", "json").json
        return [one["reason"] for one in found["pending"][0]["reasons"]]

    assert reason(either) == [f"the pod requires a Spot Instance, and {NO_PRICES}"]
    assert NO_PRICES not in reason(pool(requirements=[demand]))[0]
    assert remedy(tmp_path, catalogue, either, spot) == "nothing; a plan with spot prices places it."


def test_another_rule_than_spot_keeps_its_remedy(tmp_path: Path, catalogue: Path) -> None:
    spot = pod("a", nodeSelector={CAPACITY_TYPE: "spot"})

    assert remedy(tmp_path, catalogue, pool(node={"taints": [TAINT]}), spot) == (
        "the pod would have to tolerate team=red:NoSchedule, or NodePool/default would have to remove the taint "
        "team=red:NoSchedule; this assumes Spot Instances, for which the catalogue has no prices."
    )


@pytest.mark.parametrize("compressed", [True, False])
def test_the_catalogue_of_a_deployed_joiner_has_spot_prices_and_is_read_as_it_is_stored(
    compressed: bool, tmp_path: Path
) -> None:
    stored = json.dumps({"schema": 1, **assume_spot_offerings(small()).to_json()}).encode()
    file = tmp_path / "latest.json.gz"
    file.write_bytes(gzip.compress(stored) if compressed else stored)
    files = write(tmp_path, pool(requirements=[only(CAPACITY_TYPE, "spot")]), pod("a"))

    answer = joiner("plan", "-f", files, "--catalogue", file, "-o", "json")

    assert answer.exit_code == 0
    assert [node["capacityType"] for node in answer.json["nodes"]] == ["spot"]
    assert "spot prices" not in answer.err


def test_a_damaged_compressed_catalogue_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "latest.json.gz"
    file.write_bytes(gzip.compress(b"{}" * 1000)[:20])

    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a")), "--catalogue", file)

    assert answer.exit_code == 1
    assert answer.err.startswith(f"joiner: {file}: ")


def test_a_pool_with_a_taint_is_no_remedy_because_a_node_of_another_pool_has_room(
    tmp_path: Path, catalogue: Path
) -> None:
    """Twenty pods need nodes in a zone that counts for the spread of `web`, which can have no node there."""
    zone = "topology.kubernetes.io/zone"
    spread = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    tolerating: dict[str, Any] = {
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "nodeSelector": {"team": "red"},
    }
    workloads = [deployment("web", 3, topologySpreadConstraints=[spread]), deployment("batch", 20, **tolerating)]
    red = pool("red", requirements=[only(zone, "us-east-1c"), only("team", "red")], node={"taints": [TAINT]})
    manifests = [pool(requirements=[only(zone, "us-east-1a")]), red, *workloads]

    assert remedy(tmp_path, catalogue, *manifests, name="web-2") == (
        "the pod would have to set nodeTaintsPolicy: Honor in its topologySpreadConstraints, or NodePool/default would "
        f"have to allow other values of {zone} (then it gets m7g.large in us-east-1b, on-demand, $0.0938/h). | "
        "the pod would have to tolerate team=red:NoSchedule, or NodePool/red would have to remove the taint "
        "team=red:NoSchedule."
    )


# What a remedy asks
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["8Gi", "9Gi", "12300Mi", "13500M", "200Gi"])
def test_a_pod_that_requests_as_much_less_memory_as_the_remedy_says_is_placed(
    memory: str, tmp_path: Path, catalogue: Path
) -> None:
    large = pool(requirements=[only("node.kubernetes.io/instance-type", "m5.large")])
    text = remedy(tmp_path, catalogue, large, pod("a", memory=memory))

    asked = text.removeprefix("the pod would have to request ").partition(" GiB memory less")[0]
    left = parse_amount(memory) - float(asked) * 2**30
    assert is_placed(tmp_path, catalogue, large, pod("a", memory=str(math.floor(left))))
    assert not is_placed(tmp_path, catalogue, large, pod("a", memory=str(math.ceil(left + 0.1 * 2**30))))


def test_a_limit_that_keeps_a_pod_out_of_a_spot_pool_is_in_the_remedy(tmp_path: Path, catalogue: Path) -> None:
    """The limit is enough for one of the two pods, each of which is alone on its node."""
    spot = [only(CAPACITY_TYPE, "spot"), only("node.kubernetes.io/instance-type", "m5.large")]
    pods = [pod("a", cpu="1500m"), pod("b", cpu="1500m")]
    priced = tmp_path / "priced.json"
    priced.write_text(json.dumps(assume_spot_offerings(small()).to_json()))

    limited = pool(requirements=spot, limits={"cpu": "2"})
    assert remedy(tmp_path, catalogue, limited, *pods, name="b") == (
        "NodePool/default would have to raise its limits; this assumes Spot Instances, for which the catalogue has no "
        "prices."
    )
    assert remedy(tmp_path, catalogue, limited, *pods, name="a") == "nothing; a plan with spot prices places it."
    assert not is_placed(tmp_path, priced, limited, *pods)
    assert is_placed(tmp_path, priced, pool(requirements=spot, limits={"cpu": "4"}), *pods)


def test_a_limit_is_no_part_of_a_remedy_after_which_a_new_plan_keeps_it(tmp_path: Path, catalogue: Path) -> None:
    """The limit is enough for one node. Both pods can share it in us-east-1a, and the plan has `b` in us-east-1b."""
    zone = "topology.kubernetes.io/zone"
    large = only("node.kubernetes.io/instance-type", "m5.large")
    pods = [pod("a", nodeSelector={zone: "us-east-1a"}), pod("b")]

    def limited(*zones: str) -> dict[str, Any]:
        return pool(requirements=[large, only(zone, *zones)], limits={"cpu": "2"})

    assert remedy(tmp_path, catalogue, limited("us-east-1b"), *pods) == (
        f"the pod would have to drop {zone} In [us-east-1a], or NodePool/default would have to allow {zone} In "
        "[us-east-1a]."
    )
    assert is_placed(tmp_path, catalogue, limited("us-east-1a", "us-east-1b"), *pods)


def test_a_limit_is_part_of_a_remedy_if_another_pod_would_stay_pending_in_its_place(
    tmp_path: Path, catalogue: Path
) -> None:
    """As above, and the pods are too large for one node."""
    zone = "topology.kubernetes.io/zone"
    large = only("node.kubernetes.io/instance-type", "m5.large")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    first = pod("a", cpu="1500m", nodeSelector={zone: "us-east-1a"}, priorityClassName="high")
    pods = [high, first, pod("b", cpu="1500m")]

    def limited(*zones: str) -> dict[str, Any]:
        return pool(requirements=[large, only(zone, *zones)], limits={"cpu": "2"})

    assert remedy(tmp_path, catalogue, limited("us-east-1b"), *pods).endswith(
        f"NodePool/default would have to allow {zone} In [us-east-1a] and raise its limits."
    )
    assert not is_placed(tmp_path, catalogue, limited("us-east-1a", "us-east-1b"), *pods)
