"""How each function that lists objects is called, against the API server and the account of the benchmark.

The functions below run in a fresh process whose environment names table, bucket and endpoint. They import lazily, so
that the memory of the process is that of one function.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from bench.large_cluster import ClusterShape
from infra.function_configuration import CONFIGURATIONS

EXECUTION: Final = "arn:aws:states:us-east-1:123456789012:execution:joiner-scale-up-demo:up-1"
WAVE: Final = 20
"""Nodes that are retired together."""
KEYS: Final = {"plan": "plans", "classes": "node-classes", "snapshot": "snapshots"}
DISRUPTION_SNAPSHOT: Final = "snapshots/up-1/2.json.gz"
PROPOSAL: Final = "decisions/up-1/2.json.gz"


def _kube(endpoint: str) -> Any:
    from joiner.adapters.kube import ClusterAccess, Kube

    return Kube(ClusterAccess(endpoint, os.environ["BENCH_CA"]))


def task(lease: int = 1) -> Any:
    """Return the task of an execution with this lease."""
    from joiner.adapters.payload import ClusterFacts, Execution, Task

    cluster = ClusterFacts("demo", "https://127.0.0.1:1", "LS0tLS1CRUdJTg==", "1.36", "10.100.0.0/16")
    return Task(Execution("up-1", EXECUTION, ""), cluster, lease, 1)


def _time_left(name: str) -> Any:
    """Return the function's timeout from now, as its remaining time."""
    from joiner.adapters.parallel_calls import TimeLeft

    ends = time.monotonic() + CONFIGURATIONS[name].timeout_seconds
    return TimeLeft(lambda: ends - time.monotonic())


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


def until() -> int:
    """Return the end of a lease of five minutes, in epoch seconds."""
    return int(time.time()) + 300


def _survey_cluster(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment
    from joiner.adapters.cluster_view import SURVEYED

    kube = _kube(endpoint)
    view, guards = handler.ListedCluster(kube, SURVEYED, consistent=False), handler.AutoscalerDetection(kube)
    reports = handler.SurveyReports(guards, environment.impairments(), handler.ListedPodsRole(kube), tuple, interval=60)
    survey = handler.ClusterSurveying(view, handler.read_records(), environment.store(), guards, reports)
    return survey.answer(task(), now())


def _find_pending_pods(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    view = handler.ListedCluster(kube)
    search = handler.PendingPodSearch(
        view,
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        handler.AutoscalerDetection(kube),
        listed_pods=handler.ListedPodsRole(kube),
        times=handler.BatchTimes(longest=0),  # the batch is complete: its pods are listed and stored
    )
    answer = search.answer(task(), now(), until())
    if not answer["snapshot"]:
        raise RuntimeError("find_pending_pods stored no snapshot for the functions that follow")
    return answer


def _resolve_node_classes(handler: Any, _shape: ClusterShape, _endpoint: str) -> Any:
    """Run only the part that reads the snapshot: the requests to EC2 do not depend on the cluster's size."""
    from joiner.adapters import environment

    kept = handler.KeptSnapshot.read(environment.store(), "snapshots/up-1/1.json.gz")
    return {"classes": len(kept.world.classes)}


def _plan_capacity(handler: Any, _shape: ClusterShape, _endpoint: str) -> Any:
    from joiner.adapters import environment

    planner = handler.CapacityPlanning(
        environment.ledger(), environment.planning_back_offs(), environment.store(), handler.Ceilings()
    )
    answer = planner.answer(task(), "snapshots/up-1/1.json.gz", "node-classes/up-1/1.json.gz", now(), until())
    return {name: answer[name] for name in ("plan", "pricePerHour")}


def _record_node_claims(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    recording = handler.ClaimRecording(
        _kube(endpoint),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        _time_left("record_node_claims"),
    )
    keys = {name: f"{folder}/up-1/1.json.gz" for name, folder in KEYS.items()}
    return recording.answer(task(), keys, now(), until())


def _record_launches(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    recording = handler.LaunchRecording(
        _kube(endpoint),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        _time_left("record_launches"),
    )
    return recording.answer(task(), "snapshots/up-1/1.json.gz", now(), until())


def _check_registration(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    check = handler.RegistrationCheck(_kube(endpoint), environment.ledger(), time_left=_time_left("check_registration"))
    answer = check.answer("joining", now())
    return {name: answer[name] for name in ("done", "waiting", "initialized", "podsPlaced")}


def _asked(shape: ClusterShape) -> list[Any]:
    from joiner.lifecycle.retirement import RetirementReason, RetirementRequest

    return [
        RetirementRequest(f"default-{n:08d}", RetirementReason.DELETED, f"i-0{n:08d}")
        for n in range(min(WAVE, shape.ready))
    ]


def _begin_retirement(handler: Any, shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    beginning = handler.RetirementStart(
        kube,
        environment.ledger(),
        environment.retirements(),
        environment.disruptions(),
        handler.AutoscalerDetection(kube),
    )
    answer = beginning.answer(task(0), _asked(shape), now(), until())
    return {name: answer[name] for name in ("begun", "moving", "skipped")}


def _wave(shape: ClusterShape, stage: str) -> list[Any]:
    from joiner.lifecycle.retirement import RetirementStage, RetiringClaim

    return [
        RetiringClaim(
            claim=each.claim,
            reason=each.reason,
            kind="NodeClaim",
            instance=each.instance,
            node=f"node-{n:08d}",
            since=int(time.time()) - 60,
            launched=0,
            stage=RetirementStage(stage),
        )
        for n, each in enumerate(_asked(shape))
    ]


def _evict_pods(handler: Any, shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    eviction = handler.PodEviction(_kube(endpoint), environment.retirements())
    answer = eviction.answer(task().execution, _wave(shape, "draining"), 2, now())
    return {"evicted": answer["evicted"]}


def _forget_nodes(handler: Any, shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    forgetting = handler.NodeRemoval(_kube(endpoint), environment.ledger(), environment.retirements())
    return {"forgotten": forgetting.answer(task().execution, _wave(shape, "terminated"), now())["forgotten"]}


def _rebuild_claims(handler: Any, shape: ClusterShape, endpoint: str) -> Any:
    asked = [{"instance": each.instance, "node": each.claim, "claim": each.claim} for each in _asked(shape)]
    return handler.ClaimRebuilding(_kube(endpoint)).answer(task(), asked, now())


def _find_candidates(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    view = handler.ListedCluster(kube, handler.DISRUPTED)
    listing = handler.CandidateListing(
        view, environment.ledger(), environment.store(), handler.AutoscalerDetection(kube)
    )
    return listing.answer(_disruption(), now(), until())


def _disruption() -> Any:
    """Return a task whose documents are not those of the scale-up."""
    return replace(task(), round=2)


def _propose_disruption(handler: Any, _shape: ClusterShape, _endpoint: str) -> Any:
    from joiner.adapters import environment

    planning = handler.DisruptionPlanning(
        environment.ledger(),
        environment.disruptions(),
        environment.recommendations(),
        environment.store(),
        handler.Ceilings(),
    )
    keys = {"snapshot": DISRUPTION_SNAPSHOT, "classes": "node-classes/up-1/1.json.gz", "proposal": "", "digest": ""}
    answer = planning.answer(_disruption(), keys, now(), until())
    return {name: answer[name] for name in ("proposal", "actions", "replacements", "remaining")}


def _report_candidates(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    report = handler.CandidateReport(_kube(endpoint), environment.store(), _time_left("report_candidates"))
    return report.answer(_disruption(), PROPOSAL, DISRUPTION_SNAPSHOT, now())


def _mark_nodes(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    marking = handler.NodeMarking(
        _kube(endpoint),
        environment.ledger(),
        environment.disruptions(),
        environment.empty_nodes(),
        environment.store(),
        time_left=_time_left("mark_nodes"),
    )
    answer = marking.answer(_disruption(), PROPOSAL, 0, now(), until())
    return {"marked": len(answer["marked"]), "dropped": len(answer["dropped"])}


def _settle_disruptions(handler: Any, _shape: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    settling = handler.DisruptionSettling(
        _kube(endpoint), environment.ledger(), environment.disruptions(), environment.retirements()
    )
    answer = settling.answer(_disruption(), now())
    return {"retire": len(answer["retire"]), "waiting": answer["waiting"], "undone": len(answer["undone"])}


RUN: Final[Mapping[str, Callable[[Any, ClusterShape, str], Any]]] = {
    "survey_cluster": _survey_cluster,
    "find_pending_pods": _find_pending_pods,
    "resolve_node_classes": _resolve_node_classes,
    "plan_capacity": _plan_capacity,
    "record_node_claims": _record_node_claims,
    "record_launches": _record_launches,
    "check_registration": _check_registration,
    "begin_retirement": _begin_retirement,
    "evict_pods": _evict_pods,
    "forget_nodes": _forget_nodes,
    "rebuild_claims": _rebuild_claims,
    "find_candidates": _find_candidates,
    "propose_disruption": _propose_disruption,
    "report_candidates": _report_candidates,
    "mark_nodes": _mark_nodes,
    "settle_disruptions": _settle_disruptions,
}
"""In this order, because some functions need the documents of previous ones."""
