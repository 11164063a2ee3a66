"""Stacks: created in order, updated where they differ, rolled back when they fail; types that the local AWS does not
know are errors.
"""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.cloudformation.resources.supported_types import SUPPORTED_TYPES
from tests.local.every_resource_type import every_type
from tests.local.running_aws import RunningAws, zipped
from tests.local.stack_under_test import StackUnderTest, att, parameter, queue, ref


def value(aws: RunningAws, name: str) -> str:
    return str(aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


# The service refuses it.
REFUSED = {
    "Type": "AWS::StepFunctions::StateMachine",
    "Properties": {
        "RoleArn": "arn:aws:iam::123456789012:role/nobody-made-it",
        "DefinitionString": json.dumps(
            {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
        ),
    },
}


def test_resources_are_made_after_what_they_depend_on_and_deleted_before_it(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    status = stack.create(
        {
            "Last": parameter("z", DependsOn="Middle"),
            "Middle": parameter({"Fn::Sub": "${First.QueueName}"}),
            "First": queue(),
        }
    )

    assert status == "CREATE_COMPLETE"
    made = [line for line in stack.story if line.endswith("CREATE_COMPLETE")]
    assert made == [
        "First CREATE_COMPLETE",
        "Middle CREATE_COMPLETE",
        "Last CREATE_COMPLETE",
        f"{stack.name} CREATE_COMPLETE",
    ]
    assert stack.delete() == "DELETE_COMPLETE"
    gone = [line for line in stack.story if line.endswith("DELETE_COMPLETE")]
    assert gone == [
        "Last DELETE_COMPLETE",
        "Middle DELETE_COMPLETE",
        "First DELETE_COMPLETE",
        f"{stack.name} DELETE_COMPLETE",
    ]


def test_every_type_can_be_made_changed_and_deleted(local_aws: RunningAws) -> None:
    stack, s3 = StackUnderTest(local_aws), local_aws.client("s3")
    bucket, cluster = local_aws.fresh("assets"), local_aws.fresh("cluster")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="layer.zip", Body=zipped(**{"python/found.py": ""}))
    local_aws.client("eks").create_cluster(
        name=cluster, roleArn=local_aws.role("eks.amazonaws.com"), resourcesVpcConfig={}
    )
    resources = every_type(bucket=bucket, key="layer.zip", cluster=cluster)

    assert {resource["Type"] for resource in resources.values()} == {type_.name for type_ in SUPPORTED_TYPES}
    assert stack.create(resources) == "CREATE_COMPLETE", stack.failures
    changed: dict[str, Any] = json.loads(json.dumps(resources))
    for resource in changed.values():
        if "Description" in resource["Properties"]:
            resource["Properties"]["Description"] = "changed"
    changed["Function"]["Properties"] |= {
        "Timeout": 9,
        "MemorySize": 512,
        "Code": {"ZipFile": "def handler(event, context): return 2"},
    }
    changed["Entry"]["Properties"] |= {"KubernetesGroups": ["joiner:binder"], "AccessPolicies": []}
    changed["Stage"]["Properties"]["RouteSettings"] = {}
    changed["Role"]["Properties"]["ManagedPolicyArns"] = []
    changed["Queue"]["Properties"]["VisibilityTimeout"] = 61
    assert stack.update(changed) == "UPDATE_COMPLETE", stack.failures
    assert stack.delete() == "DELETE_COMPLETE", stack.failures


def test_an_update_touches_only_what_changed_once_resolved(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    resources = {"Source": parameter("1"), "Copy": parameter(att("Source", "Value")), "Other": parameter("o")}
    stack.create(resources)

    assert stack.update(resources | {"Source": parameter("2")}) == "UPDATE_COMPLETE"
    assert [line for line in stack.story if "_COMPLETE" in line and not line.startswith(stack.name)] == [
        "Source UPDATE_COMPLETE",
        "Copy UPDATE_COMPLETE",
    ]
    assert value(local_aws, stack.physical_id("Copy")) == "2"


def test_another_tag_of_the_stack_writes_the_value_of_a_parameter_again(local_aws: RunningAws) -> None:
    stack, ssm, resources = StackUnderTest(local_aws), local_aws.client("ssm"), {"Switch": parameter("false")}
    stack.create(resources)
    name = stack.physical_id("Switch")
    ssm.put_parameter(Name=name, Value="true", Type="String", Overwrite=True)

    stack.cloudformation.update_stack(
        StackName=stack.name, UsePreviousTemplate=True, Tags=[{"Key": "team", "Value": "platform"}]
    )

    assert ssm.get_parameter(Name=name)["Parameter"]["Value"] == "false"


def test_an_update_with_nothing_new_is_refused_in_the_words_that_the_cdk_knows(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"One": parameter("1")})

    with pytest.raises(ClientError, match="No updates are to be performed"):
        stack.update({"One": parameter("1")})


def test_what_cannot_change_in_place_is_replaced_and_the_old_one_deleted_last(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"Queue": queue(QueueName=local_aws.fresh("old")), "Uses": parameter(att("Queue", "QueueName"))})
    before = stack.physical_id("Queue")
    renamed = local_aws.fresh("new")

    status = stack.update({"Queue": queue(QueueName=renamed), "Uses": parameter(att("Queue", "QueueName"))})
    assert status == "UPDATE_COMPLETE"
    assert value(local_aws, stack.physical_id("Uses")) == renamed
    assert stack.story[-4:] == [
        f"{stack.name} UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        "Queue DELETE_IN_PROGRESS",
        "Queue DELETE_COMPLETE",
        f"{stack.name} UPDATE_COMPLETE",
    ]
    assert before not in local_aws.client("sqs").list_queues().get("QueueUrls", [])


def test_a_resource_with_a_name_of_its_own_cannot_be_replaced_under_it(local_aws: RunningAws) -> None:
    stack, name = StackUnderTest(local_aws), local_aws.fresh("machine")
    role = local_aws.role("states.amazonaws.com")
    machine: dict[str, Any] = {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "StateMachineName": name,
            "RoleArn": role,
            "DefinitionString": json.dumps(
                {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
            ),
        },
    }
    stack.create({"Machine": machine})

    status = stack.update(
        {"Machine": {**machine, "Properties": {**machine["Properties"], "StateMachineType": "EXPRESS"}}}
    )
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert f"Rename {name} and update the stack again" in stack.reason("Machine")


def test_a_failing_create_names_the_resource_with_the_services_words_and_takes_everything_back(
    local_aws: RunningAws,
) -> None:
    stack = StackUnderTest(local_aws)

    assert stack.create({"Good": queue(), "Bad": {**REFUSED, "DependsOn": "Good"}}) == "ROLLBACK_COMPLETE"
    assert stack.described["StackStatusReason"] == "The following resource(s) failed to create: [Bad]."
    assert stack.of("Bad") == ["CREATE_IN_PROGRESS", "CREATE_FAILED"]
    assert "states.amazonaws.com" in stack.reason("Bad")
    assert stack.of("Good")[-1] == "DELETE_COMPLETE"
    assert stack.outputs == {}


def test_a_failing_update_puts_back_what_it_changed_made_replaced_and_removed(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    first, second = local_aws.fresh("first"), local_aws.fresh("second")
    before = {"Changed": parameter("old"), "Replaced": queue(QueueName=first), "Removed": parameter("still here")}
    stack.create(before)
    ids = {name: stack.physical_id(name) for name in before}

    last = {**REFUSED, "DependsOn": ["Changed", "Replaced", "Made"]}
    assert stack.update(
        {"Changed": parameter("new"), "Replaced": queue(QueueName=second), "Made": queue(), "Bad": last}
    ) == ("UPDATE_ROLLBACK_COMPLETE")
    assert {name: stack.physical_id(name) for name in before} == ids
    assert [value(local_aws, ids["Changed"]), value(local_aws, ids["Removed"])] == ["old", "still here"]
    assert stack.of("Made")[-1] == "DELETE_COMPLETE"
    assert [url for url in local_aws.client("sqs").list_queues()["QueueUrls"] if second in url] == []
    assert stack.update(before | {"Changed": parameter("newer")}) == "UPDATE_COMPLETE"


@pytest.mark.parametrize(
    ("resources", "complaint"),
    [
        ({"Odd": {"Type": "AWS::Made::Up"}}, "Unrecognized resource types: [AWS::Made::Up]"),
        (
            {"Wait": {"Type": "AWS::CloudFormation::WaitCondition"}},
            "Unrecognized resource types: [AWS::CloudFormation::WaitCondition]",
        ),
        ({"Queue": queue(Color="red")}, "resource Queue (AWS::SQS::Queue): the local AWS does not know property Color"),
        (
            {
                "Rule": {
                    "Type": "AWS::Events::Rule",
                    "Properties": {"Targets": [{"Id": "1", "Arn": "a", "EcsParameters": {}}]},
                }
            },
            "resource Rule (AWS::Events::Rule): the local AWS does not know property Targets.EcsParameters",
        ),
        (
            {"Queue": queue(), "Uses": parameter(att("Queue", "Nope"))},
            "resource Queue (AWS::SQS::Queue) does not support attribute type Nope in Fn::GetAtt",
        ),
        ({"Uses": parameter(ref("Nobody"))}, "Unresolved resource dependencies [Nobody] in the Resources block"),
        (
            {"A": parameter("1", DependsOn="B"), "B": parameter("2", DependsOn="A")},
            "Circular dependency between resources: [A, B]",
        ),
        ({"A": parameter("1", DeletionPolicy="Snapshot")}, "the local AWS does not know DeletionPolicy Snapshot"),
        ({"A": parameter("1", CreationPolicy={})}, "the local AWS does not know CreationPolicy"),
    ],
)
def test_what_the_local_aws_does_not_know_is_refused_before_anything_is_made(
    local_aws: RunningAws, resources: dict[str, Any], complaint: str
) -> None:
    stack = StackUnderTest(local_aws)

    with pytest.raises(ClientError) as refused:
        stack.create(resources)
    assert complaint in str(refused.value)
    with pytest.raises(ClientError, match="does not exist"):
        local_aws.client("cloudformation").describe_stacks(StackName=stack.name)


def test_an_unknown_function_in_a_value_fails_its_resource(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)

    assert stack.create({"Odd": parameter({"Fn::Cidr": ["10.0.0.0/16", 1, 8]})}) == "ROLLBACK_COMPLETE"
    assert stack.reason("Odd") == "Template format error: the local AWS does not know Fn::Cidr"


def test_functions_conditions_mappings_and_parameters_give_values(local_aws: RunningAws) -> None:
    stack, setting = StackUnderTest(local_aws), f"/{local_aws.fresh('setting')}"
    local_aws.client("ssm").put_parameter(Name=setting, Value="31", Type="String")
    written = {
        "Joined": {"Fn::Join": ["-", [ref("Name"), ref("AWS::Region"), ref("Version")]]},
        "Chosen": {"Fn::If": ["IsProd", "big", "small"]},
        "Mapped": {"Fn::FindInMap": ["Sizes", ref("Name"), "nodes"]},
        "Part": {"Fn::Select": ["1", {"Fn::Split": [",", ref("Zones")]}]},
        "Sub": {"Fn::Sub": ["${Queue.Arn} of ${Who}, not ${!Literal}", {"Who": ref("AWS::AccountId")}]},
    }
    stack.create(
        {"Queue": queue(QueueName=stack.name), **{name: parameter(text) for name, text in written.items()}},
        Parameters={
            "Name": {"Type": "String", "Default": "prod"},
            "Zones": {"Type": "String", "Default": "a,b"},
            "Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": setting},
        },
        Conditions={"IsProd": {"Fn::Not": [{"Fn::Equals": [ref("Name"), "test"]}]}},
        Mappings={"Sizes": {"prod": {"nodes": "40"}}},
        Outputs={name: {"Value": att(name, "Value")} for name in written},
    )

    assert stack.outputs == {
        "Joined": "prod-us-east-1-31",
        "Chosen": "big",
        "Mapped": "40",
        "Part": "b",
        "Sub": f"arn:aws:sqs:us-east-1:123456789012:{stack.name} of 123456789012, not ${{Literal}}",
    }


def test_a_resource_whose_condition_turns_false_is_deleted(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    resources = {"Always": parameter("1"), "Sometimes": queue() | {"Condition": "Wanted"}}
    want = {"Want": {"Type": "String", "Default": "yes"}}
    asked: dict[str, Any] = {"Parameters": want, "Conditions": {"Wanted": {"Fn::Equals": [ref("Want"), "yes"]}}}
    stack.create(resources, **asked)

    want["Want"]["Default"] = "no"
    assert stack.update(resources, **asked) == "UPDATE_COMPLETE"
    assert stack.of("Sometimes") == ["DELETE_IN_PROGRESS", "DELETE_COMPLETE"]


def test_a_rule_of_the_template_can_refuse_its_parameters(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    old = {"Fn::Contains": [["1", "2", "3"], ref("BootstrapVersion")]}
    rule = {"Assertions": [{"Assert": {"Fn::Not": [old]}, "AssertDescription": "bootstrap again"}]}
    parameters = {"BootstrapVersion": {"Type": "String", "Default": "3"}}

    assert (
        stack.create({"A": parameter("1")}, Parameters=parameters, Rules={"CheckBootstrapVersion": rule})
        == "ROLLBACK_COMPLETE"
    )
    assert "bootstrap again" in stack.described["StackStatusReason"]


def test_another_stack_imports_what_one_exports(local_aws: RunningAws) -> None:
    giver, taker, name = StackUnderTest(local_aws), StackUnderTest(local_aws), local_aws.fresh("export")
    giver.create({"A": parameter("given")}, Outputs={"A": {"Value": att("A", "Value"), "Export": {"Name": name}}})

    assert (
        taker.create({"B": parameter({"Fn::ImportValue": name})}, Outputs={"B": {"Value": att("B", "Value")}})
        == "CREATE_COMPLETE"
    )
    assert taker.outputs == {"B": "given"}


def test_templates_may_be_yaml_with_short_forms(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    text = """
Resources:
  Queue:
    Type: AWS::SQS::Queue
  Topic:
    Type: AWS::SSM::Parameter
    Properties: {Type: String, Value: !Sub "${Queue.QueueName} since 2026-11-21"}
Outputs:
  Same: {Value: !GetAtt Topic.Value}
"""
    stack.stack_id = local_aws.client("cloudformation").create_stack(StackName=stack.name, TemplateBody=text)["StackId"]

    assert stack.outputs["Same"].endswith("since 2026-11-21")


def test_retained_resources_stay_when_their_stack_goes(local_aws: RunningAws) -> None:
    stack, name = StackUnderTest(local_aws), local_aws.fresh("kept")
    stack.create({"Kept": queue(QueueName=name) | {"DeletionPolicy": "Retain"}, "Gone": queue()})

    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.of("Kept") == ["DELETE_SKIPPED"]
    assert local_aws.client("sqs").get_queue_url(QueueName=name)["QueueUrl"].endswith(name)


def test_a_bucket_with_something_in_it_keeps_its_stack_until_it_is_emptied(local_aws: RunningAws) -> None:
    stack, s3 = StackUnderTest(local_aws), local_aws.client("s3")
    stack.create({"Bucket": {"Type": "AWS::S3::Bucket"}})
    bucket = stack.physical_id("Bucket")
    s3.put_object(Bucket=bucket, Key="snapshot", Body=b"{}")

    assert stack.delete() == "DELETE_FAILED"
    assert "not empty" in stack.reason("Bucket")
    s3.delete_object(Bucket=bucket, Key="snapshot")
    assert stack.delete() == "DELETE_COMPLETE"


def test_a_resource_that_was_deleted_by_hand_is_no_obstacle(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"Parameter": parameter("1")})
    local_aws.client("ssm").delete_parameter(Name=stack.physical_id("Parameter"))

    assert stack.delete() == "DELETE_COMPLETE"


def test_a_change_set_shows_what_it_will_do_and_then_does_it(local_aws: RunningAws) -> None:
    stack, cloudformation = StackUnderTest(local_aws), local_aws.client("cloudformation")

    def propose(kind: str, name: str, resources: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"Resources": resources})
        made = cloudformation.create_change_set(
            StackName=stack.name, ChangeSetName=name, ChangeSetType=kind, TemplateBody=body
        )
        stack.stack_id = made["StackId"]
        described: dict[str, Any] = cloudformation.describe_change_set(StackName=stack.name, ChangeSetName=name)
        return described

    first = propose("CREATE", "first", {"A": parameter("1"), "B": parameter("2")})
    assert stack.status == "REVIEW_IN_PROGRESS"
    assert [change["ResourceChange"]["Action"] for change in first["Changes"]] == ["Add", "Add"]
    cloudformation.execute_change_set(StackName=stack.name, ChangeSetName="first")
    assert stack.status == "CREATE_COMPLETE"

    second = propose("UPDATE", "second", {"A": parameter("changed"), "C": parameter("3")})
    changes = {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"]["Action"]
        for change in second["Changes"]
    }
    assert changes == {"A": "Modify", "C": "Add", "B": "Remove"}
    cloudformation.execute_change_set(StackName=stack.name, ChangeSetName="second")
    assert stack.status == "UPDATE_COMPLETE"

    third = propose("UPDATE", "third", {"A": parameter("changed"), "C": parameter("3")})
    assert (third["Status"], third["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert third["StatusReason"].startswith("The submitted information didn't contain changes.")
    cloudformation.delete_change_set(StackName=stack.name, ChangeSetName="third")
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        cloudformation.describe_change_set(StackName=stack.name, ChangeSetName="third")


def test_an_operation_that_cloudformation_here_has_not_is_a_readable_error(local_aws: RunningAws) -> None:
    with pytest.raises(ClientError, match="the local AWS's CloudFormation has no DetectStackDrift"):
        local_aws.client("cloudformation").detect_stack_drift(StackName="any")
