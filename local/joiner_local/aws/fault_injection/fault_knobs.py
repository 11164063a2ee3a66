"""The knobs of fault injection, all `POST /_local/faults/...`:

guard     {"cluster", "pki"}: start a proxy for the API server; DescribeCluster returns its address from then on
record    {"on": true}: record calls by roles from now on; {"on": false}: answer them in order, as `calls`
set       set the rules, see `fault_rules`; {} removes them. Answers `struck`: calls that the previous rules failed
struck    answers `struck` for the present rules, and keeps them
pages     {"size": 2}: divide lists into pages of that size, see `small_pages`; 0 ends it
stop      {"machine", "state", "when": "entered" | "working" | "left", "nth"}: stop the execution once; {} removes it
pace      {"factor": 0.1}: multiply waits and retry delays of state machines
twice     {"machines": ["retire-empty-a"]}: run each execution of these Express state machines twice at a time
"""

from typing import Any

from joiner_local.aws.fault_injection.api_server_proxy import ApiServerProxy
from joiner_local.aws.fault_injection.execution_stops import ExecutionStops
from joiner_local.aws.fault_injection.fault_rules import FaultRules
from joiner_local.aws.fault_injection.request_callers import RequestCallers
from joiner_local.aws.local_aws import LocalAws
from joiner_local.aws.step_functions.state_machines import StateMachines
from joiner_local.knob_requests import read_number, read_text, read_texts


def install(aws: LocalAws, machines: StateMachines) -> FaultRules:
    rules, stops = FaultRules(RequestCallers(machines)), ExecutionStops()
    machines.watchers.append(stops.watch)
    aws.add_knobs(
        {
            "faults/guard": lambda asked: guard(rules, asked),
            "faults/record": rules.record,
            "faults/set": rules.set,
            "faults/struck": rules.count,
            "faults/pages": rules.pages.set,
            "faults/stop": stops.set,
            "faults/pace": lambda asked: pace(machines, asked),
            "faults/twice": lambda asked: run_twice(machines, asked),
        }
    )
    return rules


def guard(rules: FaultRules, asked: dict[str, Any]) -> dict[str, Any]:
    """Start a proxy for a cluster, once; a second call changes nothing."""
    from joiner_local.aws.eks.eks_clusters import find_cluster

    name, pki = read_text(asked, "cluster"), read_text(asked, "pki")
    cluster = find_cluster(name)
    if name not in rules.guarded:
        proxy = ApiServerProxy(cluster.endpoint, pki, rules)
        rules.guarded[name] = cluster.endpoint = proxy.url
    return {"endpoint": cluster.endpoint}


def pace(machines: StateMachines, asked: dict[str, Any]) -> dict[str, Any]:
    """Set the factor of waits and retry delays of executions."""
    machines.pace = read_number(asked, "factor")
    return {}


def run_twice(machines: StateMachines, asked: dict[str, Any]) -> dict[str, Any]:
    """Set the Express machines whose executions run twice."""
    machines.twice = frozenset(read_texts(asked, "machines"))
    return {}
