"""What the states of every machine refer to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.launch_states import LaunchStates
from infra.lease_states import LeaseStates
from infra.service_integrations import CalledFunction, ServiceIntegrations
from infra.states_language import Catch, Retry, State, jsonata


@dataclass(frozen=True, slots=True)
class MachineResources:
    """The cluster, the name of the table, and the functions that the machine invokes."""

    integrations: ServiceIntegrations
    cluster: str
    table: str
    functions: Mapping[str, CalledFunction]

    @property
    def lease(self) -> LeaseStates:
        """The states of the lease."""
        return LeaseStates(self.integrations, self.table)

    @property
    def launches(self) -> LaunchStates:
        """The states that launch and await nodes."""
        return LaunchStates(self.integrations, self.table, self.functions)

    def invoke_under_lease(
        self,
        name: str,
        payload: Mapping[str, Any],
        *,
        next: str,
        assign: Mapping[str, Any],
        catch: Sequence[Catch],
        retry: Sequence[Retry] = (),
    ) -> State:
        """Invoke a function that renews the lease first; `catch` handles `LeaseLost`, too."""
        return self.integrations.invoke(
            self.functions[name],
            {"lease": {"number": jsonata("$leaseNumber")}, **payload},
            next=next,
            assign=assign,
            retry=retry,
            catch=catch,
        )
