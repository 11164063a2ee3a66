"""State machines and executions as the API describes them."""

from typing import Any

from joiner_local.aws.step_functions.machine_execution import MachineExecution
from joiner_local.aws.step_functions.state_machines import StateMachine


def describe_execution(execution: MachineExecution) -> dict[str, Any]:
    answer = {
        "executionArn": execution.identity.arn,
        "stateMachineArn": execution.identity.machine_arn,
        "name": execution.identity.name,
        "status": execution.status,
        "startDate": execution.started,
        "stopDate": execution.stopped,
        "input": execution.input_text,
        "inputDetails": {"included": True},
        "output": execution.output,
        "outputDetails": {"included": True} if execution.output is not None else None,
        "error": execution.error,
        "cause": execution.cause,
        "redriveCount": 0,
        "redriveStatus": "NOT_REDRIVABLE",
        "redriveStatusReason": "The local AWS redrives nothing",
    }
    return {key: value for key, value in answer.items() if value is not None}


def describe_machine(machine: StateMachine) -> dict[str, Any]:
    return {
        "stateMachineArn": machine.arn,
        "name": machine.name,
        "status": "ACTIVE",
        "definition": machine.definition,
        "roleArn": machine.role,
        "type": machine.type,
        "creationDate": machine.created,
        "loggingConfiguration": machine.logging,
        "tracingConfiguration": machine.tracing,
        "revisionId": machine.revision,
        "encryptionConfiguration": {"type": "AWS_OWNED_KEY"},
        "description": machine.description,
    }
