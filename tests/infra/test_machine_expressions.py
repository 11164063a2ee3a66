"""Expressions of the state machines, evaluated: the summary of a scale-up, and the fields of the cluster."""

from collections.abc import Mapping
from typing import Any

import jsonata

from infra.scale_up_expressions import SUMMARY
from infra.service_integrations import CLUSTER_FIELDS
from tests.infra.conftest import graphs


def test_the_summary_fits_one_screen_and_omits_unknown_values() -> None:
    expression = jsonata.Jsonata(SUMMARY)
    started = {"context": {"Execution": {"StartTime": "2026-11-21T05:17:28.000Z"}}}
    variables = {
        "states": started,
        "turn": 1,
        "pods": 17,
        "plan": {"pricePerHour": 0.34, "lowerBoundPerHour": 0.3, "gap": 0.1, "pendingReasons": []},
        "registration": {
            "nodes": [{"name": "ip-10-0-0-1", "instanceType": "c7g.4xlarge"}],
            "podsPlaced": 17,
            "placedAsPlanned": 1,
        },
        "launched": 1,
        "short": 0,
        "failed": 0,
        "releasedAt": 1795238252500,
    }
    for name, value in variables.items():
        expression.assign(name, value)

    summary = expression.evaluate(None)

    assert (summary["pods"], summary["launched"], summary["rounds"], summary["pending"]) == (17, 1, 1, [])
    assert summary["nodes"] == [{"name": "ip-10-0-0-1", "instanceType": "c7g.4xlarge"}]
    assert summary["seconds"]["untilLaunched"] == 4.5
    assert summary["seconds"]["total"] > 0


def test_the_fields_of_the_cluster_are_read_from_eks() -> None:
    expression = jsonata.Jsonata(CLUSTER_FIELDS)
    cluster = {
        "Name": "prod",
        "Endpoint": "https://example",
        "Version": "1.36",
        "CertificateAuthority": {"Data": "Q0E="},
        "KubernetesNetworkConfig": {"ServiceIpv4Cidr": "10.100.0.0/16"},
    }
    expression.assign("states", {"result": {"Cluster": cluster}})

    assert expression.evaluate(None) == {
        "name": "prod",
        "endpoint": "https://example",
        "certificateAuthority": "Q0E=",
        "version": "1.36",
        "serviceCidr": "10.100.0.0/16",
    }


def test_a_scale_up_that_a_holder_of_the_lease_starts_has_a_name_of_its_own(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    """Another execution of the same second may have joined this holder, and ended: then its name starts nothing."""
    names = [
        state["Arguments"]["Name"]
        for name, machine in machines.items()
        if "sweep" not in name.lower()  # which holds no lease
        for graph in graphs(machine)
        for state in graph["States"].values()
        if "startExecution" in str(state.get("Resource", "")) and "'up-'" in str(state["Arguments"]["Name"])
    ]

    assert len(names) >= 3
    assert [each for each in names if "[f001]" not in each] == []
