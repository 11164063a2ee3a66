"""Identify the caller of a request by its access key: a deployed function by its folder's name, a state machine by its
own name.
"""

from dataclasses import dataclass, field

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws.step_functions.state_machines import StateMachines

SERVICE_NAME = "POWERTOOLS_SERVICE_NAME"  # the name of a function in its own log lines


@dataclass(slots=True)
class RequestCallers:
    """Access keys of temporary credentials, and their callers."""

    machines: StateMachines
    _known: dict[str, str] = field(default_factory=dict)

    def name(self, access_key: str) -> str:
        """Return the caller's name; empty for keys of users, and of roles of neither functions nor state machines."""
        if access_key not in self._known:
            self._known[access_key] = self._find(access_key)
        return self._known[access_key]

    def _find(self, access_key: str) -> str:
        from moto.sts.models import sts_backends

        for partitions in list(sts_backends.values()):
            for sts in list(partitions.values()):
                for role in reversed(list(sts.assumed_roles)):
                    if role.access_key_id == access_key:
                        return _function(role.session_name) or self._machine(role.role_arn)
        return ""

    def _machine(self, role: str) -> str:
        return next((machine.name for machine in self.machines.all() if machine.role == role), "")


def _function(session: str) -> str:
    """Return the function of a session: the local AWS names a function's session like the function."""
    from moto.awslambda.models import lambda_backends

    for function in lambda_backends[ACCOUNT][REGION].list_functions():
        if function.function_name == session:
            return str((function.environment_vars or {}).get(SERVICE_NAME, session))
    return ""
