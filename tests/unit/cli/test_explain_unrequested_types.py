"""`joiner explain pod` and the types that plans launch only for pods that ask for them: bare metal and accelerators."""

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.command_runs import joiner, pod, pool, write
from tests.unit.cli.small_catalogue import small

GPU = "g4dn.xlarge"
NOBODY_ASKS = "accelerators: neither the pod nor the pool asks for it"


def price_types(folder: Path, prices: dict[str, dict[str, float] | float]) -> Path:
    """Return a catalogue of these types at these prices, the same in all zones or by zone."""
    types = small().to_json()
    for name, price in prices.items():
        types[name]["offerings"] = [
            {**one, "pricePerHour": price[one["zone"]] if isinstance(price, dict) else price}
            for one in types[name]["offerings"]
            if not isinstance(price, dict) or one["zone"] in price
        ]
    file = folder / "types.json"
    file.write_text(json.dumps({name: types[name] for name in prices}))
    return file


def explain(folder: Path, catalogue: Path, *manifests: dict[str, Any]) -> list[str]:
    return joiner("explain", "pod", "a", "-f", write(folder, *manifests), "--catalogue", catalogue).out.splitlines()


def left_out(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("Left out")]


def test_a_pod_that_joins_a_pod_with_a_gpu_is_there_because_of_it(tmp_path: Path) -> None:
    catalogue = price_types(tmp_path, {"m5.large": 0.096, GPU: 0.526})
    with_gpu = pod("gpu", cpu="1")
    with_gpu["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}

    lines = explain(tmp_path, catalogue, pool(), with_gpu, pod("a", cpu="400m"))

    assert f"default/a goes to a new node of NodePool/default: {GPU} in " in lines[0]
    assert "Of this type because default/gpu needs it." in lines
    assert left_out(lines) == []


def test_a_pod_on_a_type_of_the_last_resort_is_told_so(tmp_path: Path) -> None:
    """A node of the only common type exceeds the limit."""
    catalogue = price_types(tmp_path, {"c6i.4xlarge": 0.68, GPU: 0.526})

    lines = explain(tmp_path, catalogue, pool(limits={"memory": "20Gi"}), pod("a", cpu="1"))

    assert f"default/a goes to a new node of NodePool/default: {GPU} in " in lines[0]
    assert f"The last resort ({NOBODY_ASKS}): no place of other types was found." in lines
    assert left_out(lines) == []


def test_a_type_is_left_out_only_if_a_whole_node_of_it_costs_no_more(tmp_path: Path) -> None:
    """The price of a node includes its volume and its running."""
    as_cheap = explain(tmp_path, price_types(tmp_path, {"m5.large": 0.096, GPU: 0.096}), pool(), pod("a", cpu="1"))
    expensive = explain(tmp_path, price_types(tmp_path, {"m5.large": 0.096, GPU: 0.1}), pool(), pod("a", cpu="1"))

    assert left_out(as_cheap) == [f"Left out: {GPU} ({NOBODY_ASKS})."]
    assert left_out(expensive) == []
    assert "Why there: 1 instance type of NodePool/default can hold it; " in "\n".join(expensive)


def test_a_type_is_left_out_only_in_zones_that_the_pod_accepts(tmp_path: Path) -> None:
    catalogue = price_types(tmp_path, {"m5.large": 0.096, GPU: {"us-east-1b": 0.05}})
    in_a = pod("a", cpu="1", nodeSelector={"topology.kubernetes.io/zone": "us-east-1a"})

    assert left_out(explain(tmp_path, catalogue, pool(), in_a)) == []
    assert left_out(explain(tmp_path, catalogue, pool(), pod("a", cpu="1"))) == [f"Left out: {GPU} ({NOBODY_ASKS})."]


def test_an_overlay_decides_about_the_price_of_a_type_that_is_left_out(tmp_path: Path) -> None:
    catalogue = price_types(tmp_path, {"m5.large": 0.096, GPU: 0.05})
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "licence"},
        "spec": {
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [GPU]}],
            "price": "2",
        },
    }

    assert left_out(explain(tmp_path, catalogue, pool(), pod("a", cpu="1"), overlay)) == []


def test_the_rule_of_a_pending_pod_is_never_that_nothing_asks_for_a_type(tmp_path: Path) -> None:
    """A plan gives a pod without another place every type, so the limit excludes them all."""
    catalogue = price_types(tmp_path, {"m5.large": 0.096, GPU: 0.526})

    lines = explain(tmp_path, catalogue, pool(limits={"cpu": "1"}), pod("a", cpu="1"))

    (row,) = [line.split(maxsplit=3) for line in lines if GPU in line and "Nearest" not in line]
    assert (row[0], row[3].startswith("all available instance types exceed limits for nodepool: limit cpu 1")) == (
        "2",
        True,
    )
    assert "asks for it" not in "\n".join(lines)
