"""The environment of a deployed function: settings, clients, the clock.

Only this module reads the environment. A client is created at its first use and kept for the life of the process.
"""

import functools
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from botocore.config import Config
from botocore.session import Session, get_session

from joiner.adapters.parallel_calls import TimeLeft
from joiner.adapters.payload import ClusterFacts, Task

if TYPE_CHECKING:
    from joiner.adapters.disruptions import Disruptions
    from joiner.adapters.doorbell_rotation import DoorbellRotation
    from joiner.adapters.drift_detections import DriftDetections
    from joiner.adapters.empty_nodes import EmptyNodes
    from joiner.adapters.immediate_sweeps import ImmediateSweeps
    from joiner.adapters.interruption_records import InterruptionWarnings
    from joiner.adapters.kube import Kube
    from joiner.adapters.ledger import Ledger
    from joiner.adapters.orphan_records import Absences, Disuse, Impairments
    from joiner.adapters.pause import Pause
    from joiner.adapters.planning_back_off_items import PlanningBackOffs
    from joiner.adapters.rebalance_recommendations import Recommendations
    from joiner.adapters.retirements import Retirements
    from joiner.adapters.store import Store
    from joiner.planning import Ceilings, PlanPolicies, PlanTolerances

LEASE_MARGIN: Final = 30  # seconds

# Short timeouts: the state machine's Retry waits for longer, and no call may take longer than the lease.
_CONNECTIONS: Final = 16  # as many as threads call one service: launch_instances has 16
_CALLS = Config(
    connect_timeout=2,
    read_timeout=10,
    retries={"mode": "standard", "max_attempts": 3},
    tcp_keepalive=True,
    max_pool_connections=_CONNECTIONS,
)
# CreateFleet may take half a minute. Each try sends it once; its open record makes another try safe.
_FLEETS = Config(
    connect_timeout=2,
    read_timeout=40,
    retries={"mode": "standard", "total_max_attempts": 1},
    tcp_keepalive=True,
    max_pool_connections=_CONNECTIONS,
)
# A call without which its function is complete: it may take four seconds, so three of them fit into
# `parallel_calls.RESERVE`.
_SINGLE_TRIES = Config(
    connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 1}, tcp_keepalive=True
)


def setting(name: str) -> str:
    """Return a setting that the deployment always sets."""
    return os.environ[name]


def task(event: Mapping[str, Any]) -> Task:
    """Return the shared part of a payload; `ForeignCluster` if it is for another cluster than this function's."""
    from joiner.adapters.known_cluster import ForeignCluster

    found, own = Task.parse(event), setting("JOINER_CLUSTER")
    if found.cluster.name != own:
        raise ForeignCluster(f"the payload is for the cluster {found.cluster.name!r}; this function serves {own!r}")
    return found


def list_setting(name: str) -> tuple[str, ...]:
    """Return a comma-separated setting; empty if absent."""
    return tuple(part.strip() for part in os.environ.get(name, "").split(",") if part.strip())


def json_setting(name: str) -> Any:
    """Return a setting that the deployment writes as JSON; an empty object if absent, which allows nothing."""
    return json.loads(os.environ.get(name) or "{}")


def region() -> str:
    """Return the function's region."""
    return os.environ.get("AWS_REGION") or os.environ["AWS_DEFAULT_REGION"]


def now() -> datetime:
    """Return the current time. Handlers pass it on; other modules read no clock."""
    return datetime.now(UTC)


def lease_end(context: Any, at: datetime) -> int:
    """Return the end of the lease of a function: its own timeout and half a minute.

    A task that timed out does not stop its function: no other execution may hold the lease while the function can
    write.
    """
    return int(at.timestamp() + context.get_remaining_time_in_millis() / 1000) + LEASE_MARGIN


def time_left(context: Any) -> TimeLeft:
    """Return how long a function may start further work before its timeout."""
    return TimeLeft(lambda: context.get_remaining_time_in_millis() / 1000)


_CREATING: Final = Lock()


@functools.cache
def _session() -> Session:
    return get_session()  # boto3 would import its resources and S3 transfers too, a tenth of a cold start


@functools.cache
def client(service: str, region_name: str = "") -> Any:
    """Return the botocore client of a service, which boto3 returns, too."""
    with _CREATING:  # threads may ask for clients, and botocore's session is not made for that
        return _session().create_client(service, region_name=region_name or region(), config=_CALLS)


def prepare_clients(*services: str) -> None:
    """Create the clients of these services while Lambda initializes a sandbox; elsewhere, do nothing.

    The initialization has a whole core, whatever the memory of the function. EC2's client alone takes 0.2 s of a core,
    and 0.7 s of the first invocation of a function with 512 MB.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        for service in services:
            client(service)


@functools.cache
def fleet_client() -> Any:
    """Return the client for CreateFleet, with a long timeout and without retries."""
    return _session().create_client("ec2", region_name=region(), config=_FLEETS)


@functools.cache
def single_try_client(service: str) -> Any:
    """Return a client that tries each call once, with short timeouts, for calls that a function can do without."""
    return _session().create_client(service, region_name=region(), config=_SINGLE_TRIES)


def ceilings() -> "Ceilings":
    """Return the maximum of nodes and of their price, from the settings of the cluster."""
    from joiner.planning import Ceilings

    price = float(setting("JOINER_CEILING_PRICE_PER_HOUR"))
    return Ceilings(nodes=int(setting("JOINER_CEILING_NODES")), price_per_hour=price)


def tolerances() -> "PlanTolerances":
    """Return by how much plans may be more expensive for fewer nodes and more zones."""
    from joiner.planning import PlanTolerances

    fewer, zones = (float(setting(f"JOINER_{name}_PERCENT")) / 100 for name in ("FEWER_NODES", "ZONE_SPREAD"))
    return PlanTolerances(fewer, zones)


def policies() -> "PlanPolicies":
    """Return what plans do about the preferences of pods and about minValues."""
    from joiner.planning import PlanPolicies

    return PlanPolicies(
        preferences=setting("JOINER_PREFERENCE_POLICY") == "Respect",
        best_effort=setting("JOINER_MIN_VALUES_POLICY") == "BestEffort",
    )


def default_spreads() -> tuple[Mapping[str, Any], ...]:
    """Return the default topology spread constraints of the cluster's scheduler, from the settings of the cluster."""
    return tuple(json.loads(setting("JOINER_DEFAULT_SPREADS")))


@functools.cache
def ledger() -> "Ledger":
    """Return the ledger of this deployment."""
    from joiner.adapters.ledger import Ledger

    return Ledger(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def planning_back_offs() -> "PlanningBackOffs":
    """Return the back-offs of pods that no plan can place."""
    from joiner.adapters.planning_back_off_items import PlanningBackOffs

    return PlanningBackOffs(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def drift_detections() -> "DriftDetections":
    """Return the record of the last detection of drift."""
    from joiner.adapters.drift_detections import DriftDetections

    return DriftDetections(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def pause(*, launching: bool = False) -> "Pause":
    """Return the switch that pauses Joiner; with `launching`, the one that pauses launches."""
    from joiner.adapters.pause import Pause

    return Pause(client("ssm"), setting("JOINER_CLUSTER"), launching=launching)


@functools.cache
def retirements() -> "Retirements":
    """Return the retirements of this deployment."""
    from joiner.adapters.retirements import Retirements

    return Retirements(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def empty_nodes() -> "EmptyNodes":
    """Return the records of empty nodes."""
    from joiner.adapters.empty_nodes import EmptyNodes

    return EmptyNodes(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def disruptions() -> "Disruptions":
    """Return the disruptions of this deployment."""
    from joiner.adapters.disruptions import Disruptions

    return Disruptions(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def absences() -> "Absences":
    """Return the records of absences."""
    from joiner.adapters.orphan_records import Absences

    return Absences(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def impairments() -> "Impairments":
    """Return the records of instances that fail EC2's status checks."""
    from joiner.adapters.orphan_records import Impairments

    return Impairments(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def interruption_records() -> "InterruptionWarnings":
    """Return the records of the warnings that spot instances got."""
    from joiner.adapters.interruption_records import InterruptionWarnings

    return InterruptionWarnings(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def recommendations() -> "Recommendations":
    """Return the records of EC2's rebalance recommendations."""
    from joiner.adapters.rebalance_recommendations import Recommendations

    return Recommendations(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def disuse() -> "Disuse":
    """Return the records of node access that no instance uses."""
    from joiner.adapters.orphan_records import Disuse

    return Disuse(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def immediate_sweeps() -> "ImmediateSweeps":
    """Return the time of the next sweep that a ring starts."""
    from joiner.adapters.immediate_sweeps import ImmediateSweeps

    return ImmediateSweeps(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def doorbell_rotation() -> "DoorbellRotation":
    """Return the doorbell's secrets, as the installer replaces them."""
    from joiner.adapters.doorbell_rotation import DoorbellRotation

    return DoorbellRotation(client("dynamodb"), setting("JOINER_TABLE"))


@functools.cache
def store(*, single_try: bool = False) -> "Store":
    """Return the decision bucket of this deployment; with `single_try`, each call is tried once."""
    from joiner.adapters.store import Store

    return Store(single_try_client("s3") if single_try else client("s3"), setting("JOINER_BUCKET"))


@functools.cache
def kube(cluster: ClusterFacts) -> "Kube":
    """Return the API server of this deployment's cluster, with this function's role; a rotated CA makes a new
    connection.

    `cluster` is from the payload. Only the recorded endpoint is called, never that of the payload; `ForeignCluster`
    names the difference if they differ.
    """
    from joiner.adapters import known_cluster
    from joiner.adapters.kube import ClusterAccess, Kube
    from joiner.adapters.tokens import EksTokens

    name, loopback = setting("JOINER_CLUSTER"), os.environ.get("JOINER_LOOPBACK_ENDPOINT") == "true"
    known = known_cluster.read_known_cluster(client("dynamodb"), setting("JOINER_TABLE"))
    if known is None:
        raise known_cluster.ForeignCluster(
            f"no endpoint is recorded for the cluster {name}: deploy again, describe_cluster records it"
        )
    if why := known_cluster.refusal_reason(cluster, known, name=name, region=region(), loopback=loopback):
        raise known_cluster.ForeignCluster(why)
    tokens = EksTokens(name, region(), _credentials, time.time)
    return Kube(ClusterAccess(known.endpoint, known.ca, tokens))


def _credentials() -> Any:
    credentials = _session().get_credentials()
    if credentials is None:
        raise RuntimeError("this process has no AWS credentials to sign a token with")
    return credentials.get_frozen_credentials()
