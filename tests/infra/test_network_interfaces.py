"""Lambda creates network interfaces with a function's role; the function's code must not do so."""

from dataclasses import replace

from infra.function_configuration import CONFIGURATIONS, CalledApi
from infra.settings import Settings, VpcSettings
from tests.infra.conftest import Synthesise, flat

IN_A_VPC = VpcSettings(("subnet-0123456789abcdef0",), "sg-0123456789abcdef0")


def test_no_code_in_a_vpc_may_use_the_rights_by_which_lambda_makes_its_interfaces(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    made = synthesise(replace(example_settings, vpc=IN_A_VPC))
    policies = made.resources("AWS::IAM::Policy").values()
    seen = set()
    for function in made.resources("AWS::Lambda::Function").values():
        name = function["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        role = function["Properties"]["Role"]["Fn::GetAtt"][0]
        statements = [
            flat(statement)
            for policy in policies
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]
        allowed = {
            action
            for statement in statements
            for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
            if statement["Effect"] == "Allow" and statement["Resource"] == "*"
        }
        denials = [statement for statement in statements if statement["Effect"] == "Deny"]
        if CONFIGURATIONS[name].calls is not CalledApi.KUBERNETES:
            assert denials == [], name
            continue
        seen.add(name)
        assert len(denials) == 1, name
        denied = denials[0]
        assert {
            action for action in allowed if "NetworkInterface" in action or "PrivateIp" in action or "Subnets" in action
        }
        assert {action for action in allowed if action.startswith("ec2:")} <= set(denied["Action"]), name
        assert {"ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface"} <= set(denied["Action"])
        assert denied["Resource"] == "*"
        assert denied["Condition"] == {
            "ArnLike": {"lambda:SourceFunctionArn": "arn:aws:lambda:eu-west-1:${AWS::AccountId}:function:*"}
        }
    assert "evict_pods" in seen
