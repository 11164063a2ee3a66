"""What goes wrong on purpose, at the edges of the deployed functions: calls without an answer, executions that are stopped in mid-flight.

Nothing here knows Joiner, and nothing of Joiner knows this: requests are met at the local AWS's own door and at a door before the API
server. Knobs, all `POST /_local/mishaps/...`:

  guard     {"cluster", "pki"}: put a door before the cluster's API server; DescribeCluster tells it from then on
  record    {"on": true}: note calls by roles from now on; {"on": false}: answers `calls`, those noted, in their order
  set       one mishap, see `rules`; it takes the place of the last one. {} takes it away. Answers `struck`, how often the last one struck
  stop      {"machine", "state", "when": "entered" | "working" | "left", "nth"}: stop the execution there, once; {} takes it back
  pace      {"factor": 0.1}: waits and retries of state machines take that part of their time
"""

from typing import Any

from joiner_local.aws.fault_injection.api_server_proxy import ApiServerProxy
from joiner_local.aws.fault_injection.execution_stops import ExecutionStops
from joiner_local.aws.fault_injection.fault_rules import FaultRules
from joiner_local.aws.fault_injection.request_callers import RequestCallers
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.aws.step_functions.state_machines import StateMachines


def install(aws: LocalAws) -> None:
    machines = aws.part(StateMachines)
    mishaps, stops = FaultRules(RequestCallers(machines)), ExecutionStops()
    aws.parts[FaultRules] = mishaps
    machines.watchers.append(stops.watch)
    aws.knobs |= {
        "mishaps/guard": lambda asked: guard(mishaps, asked),
        "mishaps/record": mishaps.record,
        "mishaps/set": mishaps.set,
        "mishaps/stop": stops.set,
        "mishaps/pace": lambda asked: pace(machines, asked),
    }


def guard(mishaps: FaultRules, asked: dict[str, Any]) -> dict[str, Any]:
    """Once a cluster: a second time changes nothing."""
    from moto.eks.models import eks_backends

    cluster = eks_backends[ACCOUNT][REGION].clusters[asked["cluster"]]
    if asked["cluster"] not in mishaps.guarded:
        door = ApiServerProxy(cluster.endpoint, asked["pki"], mishaps)
        mishaps.guarded[asked["cluster"]] = cluster.endpoint = door.url
    return {"endpoint": cluster.endpoint}


def pace(machines: StateMachines, asked: dict[str, Any]) -> dict[str, Any]:
    """Waits and retries of executions, from now on."""
    machines.pace = float(asked["factor"])
    return {}
