"""SSM parameters, and the metadata of the CDK, which is nothing at all."""

from joiner_local.aws.resource_types import Clients, Declared, Existing, Made, ResourceType, calling

PARAMETER = ("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")


def _create(clients: Clients, declared: Declared) -> Made:
    name = declared.name("Name", limit=256)
    clients.call("ssm", "put_parameter", Name=name, Tags=declared.tag_list, **declared.pick(*PARAMETER))
    return Made(name, declared.pick("Type", "Value"))


def _update(clients: Clients, existing: Existing, declared: Declared) -> Made:
    clients.call("ssm", "put_parameter", Name=existing.physical_id, Overwrite=True, **declared.pick(*PARAMETER))
    return Made(existing.physical_id, declared.pick("Type", "Value"))


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
        create=lambda _clients, declared: Made(declared.name("")),
        delete=lambda _clients, _existing: None,
    ),
)
