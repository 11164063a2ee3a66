"""Step Functions: state machines."""

import json

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
    lower_first,
)


def _definition(clients: ServiceClients, declared: DeclaredResource) -> str:
    properties = declared.properties
    if "DefinitionS3Location" in properties:
        place = properties["DefinitionS3Location"]
        text: str = clients["s3"].get_object(Bucket=place["Bucket"], Key=place["Key"])["Body"].read().decode()
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    else:
        text = properties["DefinitionString"]
    for name, value in (properties.get("DefinitionSubstitutions") or {}).items():
        text = text.replace(f"${{{name}}}", str(value))
    return text


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    properties = declared.properties
    name = declared.name("StateMachineName", limit=80)
    answer = clients.call(
        "stepfunctions",
        "create_state_machine",
        name=name,
        definition=_definition(clients, declared),
        roleArn=properties["RoleArn"],
        type=properties.get("StateMachineType"),
        loggingConfiguration=lower_first(properties.get("LoggingConfiguration")),
        tracingConfiguration=lower_first(properties.get("TracingConfiguration")),
        tags=lower_first(declared.tag_list),
    )
    arn = answer["stateMachineArn"]
    return CreatedResource(arn, {"Arn": arn, "Name": name})


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    properties = declared.properties
    clients.call(
        "stepfunctions",
        "update_state_machine",
        stateMachineArn=existing.physical_id,
        definition=_definition(clients, declared),
        roleArn=properties["RoleArn"],
        loggingConfiguration=lower_first(properties.get("LoggingConfiguration")),
        tracingConfiguration=lower_first(properties.get("TracingConfiguration")),
    )
    return existing.made


TYPES = (
    ResourceType(
        name="AWS::StepFunctions::StateMachine",
        honoured="Definition DefinitionS3Location.Bucket DefinitionS3Location.Key DefinitionString "
        "DefinitionSubstitutions"
        " LoggingConfiguration RoleArn StateMachineName StateMachineType Tags",
        ignored={"TracingConfiguration": "there is no X-Ray; the setting is stored"},
        attributes="Arn Name",
        immutable="StateMachineName StateMachineType",
        named_by="StateMachineName",
        create=_create,
        update=_update,
        delete=calling("stepfunctions", "delete_state_machine", "stateMachineArn"),
    ),
)
