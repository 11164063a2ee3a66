"""Every grant of a role is used: by a call in the code, an integration of the state machine, or a service that makes
the call itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from infra.calls_by_services import FLEET_DESCRIBE_CALLS, VPC_ACTIONS
from infra.function_configuration import CONFIGURATIONS
from tests.infra.conftest import Synthesis, flat
from tests.infra.reached_calls import reached_actions
from tests.infra.table_calls import OF_A_TRANSACTION
from tests.local.refusals import made_calls

LAMBDA = {"logs:CreateLogStream", "logs:PutLogEvents"}
"""Lambda writes the log of each function with the function's role."""

OTHERS: Mapping[str, Mapping[str, str]] = {
    # Calls that our code does not make, with the caller
    "launch_instances": {
        **{
            f"ec2:Describe{each}": "CreateFleet may ask for it, see infra/calls_by_services.py"
            for each in FLEET_DESCRIBE_CALLS
        },
        "iam:PassRole": "EC2 passes the node role to the instance",
        "dynamodb:ConditionCheckItem": "an item of a transaction",
        "dynamodb:PutItem": "an item of a transaction",
        **{
            f"kms:{each}": "EC2 encrypts the volumes"
            for each in (
                "CreateGrant",
                "Decrypt",
                "DescribeKey",
                "GenerateDataKeyWithoutPlaintext",
                "ReEncryptFrom",
                "ReEncryptTo",
            )
        },
    },
    "keep_node_access": {"eks:TagResource": "CreateAccessEntry with tags"},
    "handle_interruption": {
        f"sqs:{each}": "Lambda polls the queue"
        for each in ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ReceiveMessage")
    },
}
OF_AWAITED_DOCUMENTS = {"s3:ListBucket": "S3 answers 404 for a missing document, see infra/storage.py"}


def statements(synthesis: Synthesis, role: str) -> list[Mapping[str, Any]]:
    found = synthesis.resources("AWS::IAM::Policy").values()
    policies = [each["Properties"] for each in found if {"Ref": role} in each["Properties"]["Roles"]]
    return [flat(statement) for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def allowed(synthesis: Synthesis, role: str) -> set[str]:
    granted = [each for each in statements(synthesis, role) if each["Effect"] == "Allow"]
    return {
        action
        for each in granted
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }


def test_each_action_that_a_function_is_granted_is_called(example: Synthesis, local: Synthesis) -> None:
    from infra.storage import AWAITED_DOCUMENTS  # with the CDK, see conftest.py

    unused, unnecessary = {}, {}
    for synthesis in (example, local):
        for function in synthesis.resources("AWS::Lambda::Function").values():
            properties = function["Properties"]
            name = properties["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
            granted = allowed(synthesis, properties["Role"]["Fn::GetAtt"][0]) - LAMBDA
            if "VpcConfig" in properties:
                granted -= set(VPC_ACTIONS)
            others = {
                **OTHERS.get(name, {}),
                **(OF_AWAITED_DOCUMENTS if set(AWAITED_DOCUMENTS) & set(CONFIGURATIONS[name].reads_documents) else {}),
            }
            unused[name] = sorted(granted - reached_actions(name) - set(others))
            unnecessary[name] = sorted(set(others) - granted) if synthesis is example else []
    assert {name: actions for name, actions in unused.items() if actions} == {}
    assert {name: actions for name, actions in unnecessary.items() if actions and "kms" not in str(actions)} == {}


def test_each_action_that_a_state_machine_is_granted_is_one_of_its_integrations(example: Synthesis) -> None:
    actions = {"Invoke": "InvokeFunction"}
    for machine in example.resources("AWS::StepFunctions::StateMachine").values():
        properties = machine["Properties"]
        made = made_calls.of_machines(json.dumps(flat(properties)))
        used = {
            f"{'states' if service == 'stepfunctions' else service}:{actions.get(call, call)}" for service, call in made
        }
        logged = {
            each
            for each in allowed(example, properties["RoleArn"]["Fn::GetAtt"][0])
            if each.startswith(("logs:", "xray:"))
        }

        assert allowed(example, properties["RoleArn"]["Fn::GetAtt"][0]) - logged == used, properties["StateMachineName"]


def test_each_transaction_item_is_named() -> None:
    assert {f"dynamodb:{each}" for each in OF_A_TRANSACTION.values()} >= {
        "dynamodb:ConditionCheckItem",
        "dynamodb:PutItem",
    }
