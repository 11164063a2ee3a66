"""Memory and time of each function that lists objects, at 10,000 and 50,000 pods: ``python -m bench.list_memory``.

Each function runs once in a fresh process, as Lambda starts it. An API server serves pods of 4.8 kB
(`bench.large_cluster`), and moto serves DynamoDB and S3 in this process. Memory is the peak of the process,
including all imports. Lambda gives a function CPU in proportion to its memory (1,769 MB is one core), so the time
at that share is the CPU time times 1,769 over its memory, unless the elapsed time here was longer.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.large_cluster import ClusterShape, StandIn, pod
from infra.function_configuration import CONFIGURATIONS

ONE_CORE: Final = 1769
"""The memory in MB for which Lambda gives one core."""
SHARE: Final = 0.5
"""The share of its memory that a function may use here; the rest is for Lambda's own runtime and for clusters with
longer objects."""
EXECUTION: Final = "arn:aws:states:us-east-1:123456789012:execution:joiner-scale-up-demo:up-1"
NAMES: Final = (
    "survey_cluster",
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "record_launches",
    "check_registration",
    "begin_retirement",
    "evict_pods",
    "forget_nodes",
    "rebuild_claims",
    "find_candidates",
    "propose_disruption",
    "report_candidates",
    "mark_nodes",
    "settle_disruptions",
)
"""In this order, because some functions need the documents of previous ones."""
WAVE: Final = 20
"""Nodes that are retired together."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The measurements of one function in one cluster."""

    function: str
    world: ClusterShape
    megabytes: float
    seconds: float
    cpu: float
    answer: str = ""

    @property
    def memory(self) -> int:
        return CONFIGURATIONS[self.function].memory_mb

    @property
    def ratio(self) -> float:
        """Return the used share of the function's configured memory."""
        return self.megabytes / self.memory

    @property
    def at_its_share(self) -> float:
        """Return the seconds with the CPU that Lambda gives the function."""
        return max(self.seconds, self.cpu * ONE_CORE / self.memory)

    @property
    def holds(self) -> bool:
        return self.ratio < SHARE and self.at_its_share < CONFIGURATIONS[self.function].timeout_seconds


# In the fresh process


def measure(name: str, world: ClusterShape, endpoint: str) -> Measure:
    """Run one function; this process must be a fresh one."""
    import importlib

    handler = importlib.import_module(f"functions.{name}.handler")
    began, used = time.monotonic(), time.process_time()
    answer = RUN[name](handler, world, endpoint)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    return Measure(name, world, _peak(), seconds, cpu, json.dumps(answer)[:200])


def _peak() -> float:
    """Return the peak memory in MB. It does not use getrusage, which includes the memory of the parent before this
    program was loaded."""
    said = Path("/proc/self/status").read_text(encoding="ascii")
    return int(said.partition("VmHWM:")[2].split()[0]) / 1024


def _kube(endpoint: str) -> Any:
    from joiner.adapters.kube import ClusterAccess, Kube

    return Kube(ClusterAccess(endpoint, os.environ["BENCH_CA"]))


def _task(lease: int = 1) -> Any:
    from joiner.adapters.payload import ClusterFacts, Execution, Task

    cluster = ClusterFacts("demo", "https://127.0.0.1:1", "LS0tLS1CRUdJTg==", "1.36", "10.100.0.0/16")
    return Task(Execution("up-1", EXECUTION, ""), cluster, lease, 1)


def _time_left(name: str) -> Any:
    """Return the function's timeout from now, as its remaining time."""
    from joiner.adapters.parallel import TimeLeft

    ends = time.monotonic() + CONFIGURATIONS[name].timeout_seconds
    return TimeLeft(lambda: ends - time.monotonic())


def _now() -> datetime:
    return datetime.now(UTC)


def _until() -> int:
    return int(time.time()) + 300


def _survey_cluster(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment
    from joiner.adapters.cluster_view import SURVEYED

    kube, ledger = _kube(endpoint), environment.ledger()
    view = handler.ListedCluster(kube, SURVEYED, consistent=False)
    survey = handler.ClusterSurveying(
        view,
        ledger,
        environment.empty_nodes(),
        environment.retirements(),
        environment.store(),
        disruptions=environment.disruptions(),
        answers=environment.planning_back_offs(),
        drift_looks=environment.drift_looks(),
        recommendations=environment.recommendations(),
        impairments=environment.impairments(),
        guards=handler.AutoscalerDetection(kube),
    )
    return survey.answer(_task(), _now())


def _find_pending_pods(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    view = handler.ListedCluster(kube)
    look = handler.PendingPodSearch(
        view,
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        handler.AutoscalerDetection(kube),
    )
    return look.answer(_task(), _now(), _until())


def _resolve_node_classes(handler: Any, _world: ClusterShape, _endpoint: str) -> Any:
    """Run only the part that reads the snapshot: the requests to EC2 do not depend on the cluster's size."""
    from joiner.adapters import environment

    kept = handler.KeptSnapshot.read(environment.store(), "snapshots/up-1/1.json.gz")
    return {"classes": len(kept.world.classes)}


def _plan_capacity(handler: Any, _world: ClusterShape, _endpoint: str) -> Any:
    from joiner.adapters import environment

    planner = handler.CapacityPlanning(
        environment.ledger(), environment.planning_back_offs(), environment.store(), handler.Ceilings()
    )
    answer = planner.answer(_task(), "snapshots/up-1/1.json.gz", "node-classes/up-1/1.json.gz", _now(), _until())
    return {name: answer[name] for name in ("plan", "pricePerHour")}


def _record_node_claims(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    recording = handler.ClaimRecording(
        _kube(endpoint),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        _time_left("record_node_claims"),
    )
    keys = {name: f"{folder}/up-1/1.json.gz" for name, folder in KEYS.items()}
    return recording.answer(_task(), keys, _now(), _until())


KEYS: Final = {"plan": "plans", "classes": "node-classes", "snapshot": "snapshots"}


def _record_launches(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    recording = handler.LaunchRecording(
        _kube(endpoint),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        _time_left("record_launches"),
    )
    return recording.answer(_task(), "snapshots/up-1/1.json.gz", _now(), _until())


def _check_registration(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    check = handler.RegistrationCheck(_kube(endpoint), environment.ledger(), time_left=_time_left("check_registration"))
    answer = check.answer("joining", _now())
    return {name: answer[name] for name in ("done", "waiting", "initialized", "podsPlaced")}


def _asked(world: ClusterShape) -> list[Any]:
    from joiner.lifecycle.retirement import RetirementReason, RetirementRequest

    return [
        RetirementRequest(f"default-{n:08d}", RetirementReason.DELETED, f"i-0{n:08d}")
        for n in range(min(WAVE, world.ready))
    ]


def _begin_retirement(handler: Any, world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    beginning = handler.RetirementStart(
        kube, environment.ledger(), environment.retirements(), handler.AutoscalerDetection(kube)
    )
    answer = beginning.answer(_task(0), _asked(world), _now(), _until())
    return {name: answer[name] for name in ("begun", "moving", "leftOut")}


def _wave(world: ClusterShape, stage: str) -> list[Any]:
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
        for n, each in enumerate(_asked(world))
    ]


def _evict_pods(handler: Any, world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    eviction = handler.PodEviction(_kube(endpoint), environment.retirements())
    answer = eviction.answer(_task().execution, _wave(world, "draining"), 2, _now())
    return {"evicted": answer["evicted"]}


def _forget_nodes(handler: Any, world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    forgetting = handler.NodeRemoval(_kube(endpoint), environment.ledger(), environment.retirements())
    return {"forgotten": forgetting.answer(EXECUTION, _wave(world, "terminated"), _now())["forgotten"]}


def _rebuild_claims(handler: Any, world: ClusterShape, endpoint: str) -> Any:
    asked = [{"instance": each.instance, "node": each.claim, "claim": each.claim} for each in _asked(world)]
    return handler.ClaimRebuilding(_kube(endpoint)).answer(_task(), asked, _now())


def _find_candidates(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    kube = _kube(endpoint)
    view = handler.ListedCluster(kube, handler.DISRUPTED)
    look = handler.CandidateListing(view, environment.ledger(), environment.store(), handler.AutoscalerDetection(kube))
    return look.answer(_disruption(), _now(), _until())


def _disruption() -> Any:
    """Return a task whose documents are not those of the scale-up."""
    return replace(_task(), round=2)


def _propose_disruption(handler: Any, _world: ClusterShape, _endpoint: str) -> Any:
    from joiner.adapters import environment

    planning = handler.DisruptionPlanning(
        environment.ledger(), environment.disruptions(), environment.store(), handler.Ceilings()
    )
    keys = {"snapshot": DISRUPTION_SNAPSHOT, "classes": "node-classes/up-1/1.json.gz", "proposal": "", "digest": ""}
    answer = planning.answer(_disruption(), keys, _now(), _until())
    return {name: answer[name] for name in ("proposal", "actions", "replacements", "remaining")}


DISRUPTION_SNAPSHOT: Final = "snapshots/up-1/2.json.gz"
PROPOSAL: Final = "decisions/up-1/2.json.gz"


def _report_candidates(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    report = handler.CandidateReport(_kube(endpoint), environment.store(), _time_left("report_candidates"))
    return report.answer(_disruption(), PROPOSAL, DISRUPTION_SNAPSHOT, _now())


def _mark_nodes(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    marking = handler.NodeMarking(
        _kube(endpoint),
        environment.ledger(),
        environment.disruptions(),
        environment.empty_nodes(),
        environment.store(),
        time_left=_time_left("mark_nodes"),
    )
    answer = marking.answer(_disruption(), PROPOSAL, 0, _now(), _until())
    return {"marked": len(answer["marked"]), "dropped": len(answer["dropped"])}


def _settle_disruptions(handler: Any, _world: ClusterShape, endpoint: str) -> Any:
    from joiner.adapters import environment

    settling = handler.DisruptionSettling(_kube(endpoint), environment.ledger(), environment.disruptions())
    answer = settling.answer(_disruption(), _now())
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


# In the process that serves


class Account:
    """DynamoDB and S3 of moto on its own port, with the items that the functions read: lease, wave, assignments,
    catalogue, classes."""

    def __init__(self, world: ClusterShape) -> None:
        name = f"joiner-{uuid.uuid4().hex[:8]}"  # moto has one account for all servers of a process
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request
        self._server = ThreadedMotoServer(port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "JOINER_TABLE": name,
            "JOINER_BUCKET": name,
            "JOINER_CLUSTER": "demo",
            "SWEEP_SECONDS": "60",
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        }
        self._fill(world, name)

    def _fill(self, world: ClusterShape, name: str) -> None:
        import boto3

        from bench.growth import catalogue_of
        from joiner.adapters import documents
        from joiner.adapters.ledger import Ledger
        from joiner.adapters.store import Store
        from joiner.catalogue import Catalogue
        from joiner.cluster import Pod, Requirements
        from joiner.pools import Image, ResolvedNodeClass, SecurityGroup, Subnet

        account: dict[str, Any] = {
            "endpoint_url": self.environment["AWS_ENDPOINT_URL"],
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "region_name": "us-east-1",
        }
        dynamodb, s3 = boto3.client("dynamodb", **account), boto3.client("s3", **account)
        dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("kind", "id")],
            KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
        )
        s3.create_bucket(Bucket=name)
        ledger, store = Ledger(dynamodb, name), Store(s3, name)
        item = {"kind": "LEASE", "id": "scale-up", "holder": EXECUTION}
        numbers = {"leaseNumber": 1, "leaseUntil": _until(), "rings": 0}
        dynamodb.put_item(
            TableName=name, Item={k: {"S": v} for k, v in item.items()} | {k: {"N": str(v)} for k, v in numbers.items()}
        )
        catalogue = Catalogue.from_json(catalogue_of(200))
        documents.put_catalogue(store, catalogue, _now())
        subnets = tuple(Subnet(f"subnet-{zone}", f"us-east-1{zone}", 4000) for zone in "abc")
        amd64 = Requirements.from_kube([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}])
        known = ResolvedNodeClass(
            "default",
            "EC2NodeClass",
            subnets=subnets,
            security_groups=(SecurityGroup("sg-1"),),
            images=(Image("ami-1", "amd64", amd64),),
        )
        documents.put_node_classes(store, _task(), [known])
        closed = [f"default-{n:08d}" for n in range(world.ready, world.nodes)]
        ledger.begin_wave("joining", EXECUTION, closed, int(time.time()))
        for position, claim in enumerate(closed):
            class_key = Pod.from_kube(pod(1 + position % 199, "Pending")).class_key
            ledger.assign(claim, {class_key: 10}, 1)

    def close(self) -> None:
        self._server.stop()


def elsewhere(name: str, world: ClusterShape, endpoint: str, environment: Mapping[str, str]) -> Measure:
    """Measure in a separate process; raise RuntimeError with its last lines if it fails."""
    command = [
        sys.executable,
        "-m",
        "bench.list_memory",
        "--measure",
        name,
        "--world",
        json.dumps(asdict(world)),
        "--endpoint",
        endpoint,
    ]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed at {world}: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Measure(**{**told, "world": ClusterShape(**told["world"])})


def measures(world: ClusterShape, names: Sequence[str] = NAMES) -> Iterator[Measure]:
    """Yield the measurements of each function in this cluster, in order."""
    account, api = Account(world), StandIn(world)
    try:
        for name in NAMES:
            if name in names:
                yield elsewhere(name, world, api.endpoint, {**account.environment, "BENCH_CA": api.ca})
    finally:
        api.close()
        account.close()


HEAD: Final = (
    f"{'function':22}{'pods':>8}{'pending':>9}{'nodes':>7}{'MB':>7}{'of MB':>7}{'ratio':>7}"
    f"{'s':>7}{'CPU s':>7}{'at share':>10}{'of s':>6}"
)


def line(one: Measure) -> str:
    """Return one row of the table."""
    world, timeout = one.world, CONFIGURATIONS[one.function].timeout_seconds
    sizes = f"{one.function:22}{world.pods:8,}{world.pending:9,}{world.nodes:7,}"
    memory = f"{one.megabytes:7.0f}{one.memory:7,}{one.ratio:7.2f}"
    times = f"{one.seconds:7.1f}{one.cpu:7.1f}{one.at_its_share:10.1f}{timeout:6}"
    return f"{sizes}{memory}{times}{'' if one.holds else '  too large'}"


WORLDS: Final = (
    ClusterShape(10_000, pending=2_000, ended=2_000, booting=100),
    ClusterShape(50_000, pending=10_000, ended=10_000, booting=100),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a function uses more than half of its memory, or exceeds its timeout."""
    parser = argparse.ArgumentParser(prog="python -m bench.list_memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--function",
        choices=NAMES,
        action="append",
        help="only this one (may be repeated); some need documents of others",
    )
    parser.add_argument("--pods", type=int, help="one world of so many pods instead of both")
    parser.add_argument("--pending", type=int, default=0, help="how many of them found no node")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--world", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    said = parser.parse_args(arguments)
    if said.measure:
        print(json.dumps(asdict(measure(said.measure, ClusterShape(**said.world), said.endpoint))))
        return 0
    worlds = [ClusterShape(said.pods, pending=said.pending, ended=said.pods // 5, booting=100)] if said.pods else WORLDS
    print(HEAD)
    good = True
    for world in worlds:
        for one in measures(world, said.function or NAMES):
            print(line(one), flush=True)
            good &= one.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
