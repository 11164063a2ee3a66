"""SSM parameters, and the metadata of the CDK, which creates nothing."""

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

PARAMETER = ("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("Name", limit=256)
    clients.call("ssm", "put_parameter", Name=name, Tags=declared.tag_list, **declared.pick(*PARAMETER))
    return CreatedResource(name, declared.pick("Type", "Value"))


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call("ssm", "put_parameter", Name=existing.physical_id, Overwrite=True, **declared.pick(*PARAMETER))
    return CreatedResource(existing.physical_id, declared.pick("Type", "Value"))


TYPES = (
    ResourceType(
        name="AWS::SSM::Parameter",
        honoured=" ".join((*PARAMETER, "Name", "Tags")),
        attributes="Type Value",
        immutable="Name",
        named_by="Name",
        create=_create,
        update=_update,
        delete=calling("ssm", "delete_parameter", "Name"),
    ),
    ResourceType(
        name="AWS::CDK::Metadata",
        honoured="",
        ignored={"Analytics": "for AWS's statistics only"},
        create=lambda _clients, declared: CreatedResource(declared.name("")),
        delete=lambda _clients, _existing: None,
    ),
)
