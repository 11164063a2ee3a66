"""States that launch instances and await their nodes; scale-ups and disruptions have them in common.

They read the variables `$leaseNumber`, `$claims` (the answer of record_node_claims), `$registration` (the last answer
of check_registration), `$gather` and `$unpublished`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.launch_limits import (
    BOOT_CHECK_SECONDS,
    CONCURRENT_INVOCATIONS,
    GATHER_SECONDS,
    GROUPS_OF_CONCURRENT_INVOCATIONS,
    GROUPS_OF_ONE_INVOCATION,
    REGISTRATION_CHECK_SECONDS,
    SETTLING_SECONDS,
)
from infra.service_integrations import CalledFunction, ItemUpdate, ServiceIntegrations
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_NAME,
    FAILURE,
    Catch,
    State,
    TaskState,
    jsonata,
    map_state,
    pass_state,
)
from joiner.item_keys import WAVE, item_key

SETTLING_EXPRESSION: Final = f"$states.result.Payload.settling > 0 ? {SETTLING_SECONDS} : 0"
"""JSONata: nodes that got their pods at the end of a check open a second later. The next check waits for that itself:
a wait inside the function costs half a state transition a second."""

BATCHES: Final = f"""(
  $all := $count($claims.groups);
  $size := $all > {GROUPS_OF_ONE_INVOCATION} ? {GROUPS_OF_CONCURRENT_INVOCATIONS} : {GROUPS_OF_ONE_INVOCATION};
  [
    $map([0..$ceil($all / $size) - 1], function($batch) {{
      {{
        "first": $batch * $size,
        "count": $min([$size, $all - $batch * $size]),
        "last": ($batch + 1) * $size >= $all
      }}
    }})
  ]
)"""
"""JSONata: the groups of each invocation of launch_instances. Only the last one tags its instances: the others would
keep later groups waiting meanwhile, and the sweep tags theirs."""

NODES_SETTLE: Final = "$registration.settling > 0 or $registration.postponed > 0"
"""JSONata: whether the next check is due without a call of the doorbell: nodes open soon, or the last check had no time
for all claims."""

AWAIT_NODES_EXPRESSION: Final = (
    f"$registration.opensIn > 0 ? $min([$registration.opensIn, {BOOT_CHECK_SECONDS}]) : "
    f"$registration.registered + $registration.joining > $registration.initialized ? {REGISTRATION_CHECK_SECONDS} : "
    f"{BOOT_CHECK_SECONDS}"
)
"""Longest wait for nodes before their registration is checked, since a ring may be lost: until a node with its pods
opens, if that is known. A node that exists rings no more: the next check tries again to register it."""

APPEND_EVENTS: Final = "$append($unpublished, $states.result.Payload.events)"
"""JSONata: the keys of documents with events, which are recorded after the lease is released; a few in a
round."""


@dataclass(frozen=True, slots=True)
class LaunchStates:
    """States for one machine; `functions` are those that it invokes."""

    integrations: ServiceIntegrations
    table: str
    functions: Mapping[str, CalledFunction]

    def launch_groups(self, *, next: str, catch: Sequence[Catch], assign: Mapping[str, Any] | None = None) -> State:
        """Launch all groups, several in one invocation. Groups that fail stop neither the others nor their record:
        their own records stay open for the next round.
        """
        failure = "These groups were not launched"
        # a Map sets no outer variable
        launch = self._launch(
            jsonata("$states.input.first"),
            jsonata("$states.input.count"),
            jsonata("$states.input.last"),
            catch=[Catch([EVERY_ERROR], failure, kept=False)],
        )
        count = jsonata("$states.context.Map.Item.Value.count")
        failed = pass_state(output={"notLaunched": count, "error": jsonata(FAILURE)})
        groups = map_state(
            BATCHES,
            selector={
                "first": jsonata("$states.context.Map.Item.Value.first"),
                "count": jsonata("$states.context.Map.Item.Value.count"),
                "last": jsonata("$states.context.Map.Item.Value.last"),
            },
            concurrency=CONCURRENT_INVOCATIONS,
            states={"Launch some groups": launch, failure: failed},
            next=next,
            catch=catch,
        )
        return {**groups, **({"Assign": assign} if assign else {})}

    def launch_one_group(self, *, next: str, catch: Sequence[Catch], assign: Mapping[str, Any]) -> State:
        """Launch the only group."""
        return self._launch(0, 1, True, next=next, catch=catch, assign=assign)

    def _launch(
        self,
        first: int | str,
        count: int | str,
        last: bool | str,
        *,
        next: str | None = None,
        catch: Sequence[Catch],
        assign: Mapping[str, Any] | None = None,
    ) -> State:
        return self.integrations.invoke(
            self.functions["launch_instances"],
            {
                "lease": {"number": jsonata("$leaseNumber")},
                "launches": jsonata("$claims.launches"),
                "first": first,
                "count": count,
                "last": last,
            },
            next=next,
            catch=catch,
            assign=assign,
        )

    def check_registration(self, *, next: str, catch: Sequence[Catch]) -> State:
        """Check the registration of the execution's nodes, and write the events of its launches."""
        return self.integrations.invoke(
            self.functions["check_registration"],
            {"wave": EXECUTION_NAME, "gather": jsonata("$gather"), "events": jsonata("$unpublished")},
            next=next,
            assign={
                "registration": jsonata("$states.result.Payload"),
                "unpublished": [],
                "gather": jsonata(SETTLING_EXPRESSION),
            },
            catch=catch,
        )

    def await_nodes(self, *, next: str, on_error: str) -> State:
        """Wait for a ring of a node, unless one came since the last check; the doorbell sends the task token back."""
        update = ItemUpdate(
            item_key(WAVE, EXECUTION_NAME),
            "SET #token = :token",
            {
                ":token": {"S": jsonata("$states.context.Task.Token")},
                ":noted": {"N": jsonata("$string($registration.rings)")},
            },
            condition="rings = :noted",
            names={"#token": "token"},
        )
        return TaskState(
            resource=self.integrations.service("aws-sdk:dynamodb:updateItem.waitForTaskToken"),
            arguments=update.arguments(self.table),
            timeout=jsonata(AWAIT_NODES_EXPRESSION),
            next=next,
            assign={"gather": GATHER_SECONDS},
            catch=[
                Catch([*CONDITION_FAILED, "States.Timeout"], next, kept=False, assign={"gather": 0}),
                Catch([EVERY_ERROR], on_error),
            ],
        ).render()
