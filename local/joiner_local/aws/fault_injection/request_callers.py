"""Who signed a request: a deployed function by the name of its folder, a state machine by its own; nobody else matters here."""

from dataclasses import dataclass, field

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws.step_functions.state_machines import StateMachines

SERVICE_NAME = "POWERTOOLS_SERVICE_NAME"  # what a function is called in its own log lines


@dataclass(slots=True)
class RequestCallers:
    """Access keys of temporary credentials, and whose they are."""

    machines: StateMachines
    _known: dict[str, str] = field(default_factory=dict)

    def name(self, access_key: str) -> str:
        """Empty for the keys of persons, and of roles that belong to neither."""
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
    """The local AWS gives a function's session the function's name."""
    from moto.awslambda.models import lambda_backends

    for function in lambda_backends[ACCOUNT][REGION].list_functions():
        if function.function_name == session:
            return str((function.environment_vars or {}).get(SERVICE_NAME, session))
    return ""
