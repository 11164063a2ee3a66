"""What a CloudFormation resource type is to the local AWS: how to make, change and delete one, and which properties it honours.

Types call the service's API like any other client (moto's own CloudFormation models drop half of what a template says), so a resource made
by a stack is exactly one made by boto3. A type lists every property that it honours, and each one that it ignores with the reason; any
other property fails the deployment before anything is made, as does an unknown type or attribute.
"""

import random
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.config import Config
from botocore.model import Shape

from joiner_local.aws_sessions import aws_session

PropertyTree = dict[str, Any]


@dataclass(slots=True)
class ServiceClients:
    """boto3 clients on the local endpoint, each made once (a new one costs tens of milliseconds)."""

    endpoint: str
    _made: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getitem__(self, service: str) -> Any:
        with self._lock:
            if service not in self._made:
                config = Config(
                    retries={"total_max_attempts": 1},
                    s3={"addressing_style": "path"},
                    inject_host_prefix=False,
                    read_timeout=930,  # a function may run 15 minutes
                )
                session: Any = aws_session()  # clients by a name known only here
                self._made[service] = session.client(service, endpoint_url=self.endpoint, config=config)
            return self._made[service]

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call an operation with a template's values: their scalars become what the operation's shape asks for; None is left out."""
        client = self[service]
        model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation])
        given = {name: value for name, value in parameters.items() if value is not None}
        shaped = coerced(given, model.input_shape) if model.input_shape is not None else given
        answer: dict[str, Any] = getattr(client, operation)(**shaped)
        return answer


def coerced(value: Any, shape: Shape) -> Any:  # noqa: PLR0911 - one answer a shape
    """A template's value as the shape wants it: templates may write numbers and booleans as strings, and strings as numbers."""
    match shape.type_name, value:
        case "structure", dict():
            members: Mapping[str, Shape] = shape.members  # type: ignore[attr-defined] # of a StructureShape
            return {key: coerced(item, members[key]) if key in members else item for key, item in value.items()}
        case "map", dict():
            return {key: coerced(item, shape.value) for key, item in value.items()}  # type: ignore[attr-defined] # of a MapShape
        case "list", list():
            return [coerced(item, shape.member) for item in value]  # type: ignore[attr-defined] # of a ListShape
        case "integer" | "long", str() | float():
            return int(value)
        case "float" | "double", str() | int():
            return float(value)
        case "boolean", str():
            return value.lower() == "true"
        case "string", bool():
            return str(value).lower()
        case "string", int() | float():
            return str(value)
        case _:
            return value


@dataclass(frozen=True, slots=True)
class DeclaredResource:
    """One resource as the template wants it, everything resolved; `dependencies` are the logical ids that must exist before it."""

    logical_id: str
    type: str
    properties: Mapping[str, Any]
    stack_name: str
    stack_id: str
    stack_tags: Mapping[str, str] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    deletion_policy: str = "Delete"
    replace_policy: str = "Delete"

    def name(self, name_property: str, *, limit: int = 64, lower: bool = False) -> str:
        """The name the template gives, or STACK-LOGICALID-RANDOM cut to the service's limit, as CloudFormation makes it."""
        given = self.properties.get(name_property)
        if given is not None:
            return str(given)
        suffix = "".join(random.choices(string.ascii_letters + string.digits, k=12))  # noqa: S311 - a name, not a secret
        room = limit - len(suffix) - 2
        stack = self.stack_name[: max(room - len(self.logical_id), room // 2)]
        name = f"{stack}-{self.logical_id[: room - len(stack)]}-{suffix}"
        return name.lower() if lower else name

    @property
    def tags(self) -> dict[str, str]:
        """The resource's own tags over the stack's."""
        own = self.properties.get("Tags") or {}
        listed = {tag["Key"]: str(tag["Value"]) for tag in own} if isinstance(own, list) else {k: str(v) for k, v in own.items()}
        return {**self.stack_tags, **listed}

    @property
    def tag_list(self) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]

    def pick(self, *names: str) -> dict[str, Any]:
        """Those of the named properties that the template gives."""
        return {name: self.properties[name] for name in names if name in self.properties}


@dataclass(frozen=True, slots=True)
class CreatedResource:
    """One resource as it exists: what `Ref` gives, what `Fn::GetAtt` gives."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExistingResource:
    """A made resource with the declaration that made it."""

    made: CreatedResource
    declared: DeclaredResource

    @property
    def physical_id(self) -> str:
        return self.made.physical_id

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.declared.properties


class PartlyCreated(Exception):
    """A creation that failed when something exists already, which the rollback has to delete; the cause is what went wrong."""

    def __init__(self, made: CreatedResource, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.made = made


Create = Callable[[ServiceClients, DeclaredResource], CreatedResource]
Configure = Callable[[ServiceClients, ExistingResource], None]
Update = Callable[[ServiceClients, ExistingResource, DeclaredResource], CreatedResource]
Delete = Callable[[ServiceClients, ExistingResource], None]


def nothing(_clients: ServiceClients, _existing: ExistingResource) -> None:
    """For a type that has nothing to configure, or to delete."""


def calling(service: str, operation: str, parameter: str) -> Delete:
    """Delete by one call that takes the physical id."""

    def delete(clients: ServiceClients, existing: ExistingResource) -> None:
        clients.call(service, operation, **{parameter: existing.physical_id})

    return delete


@dataclass(frozen=True, slots=True)
class ResourceType:
    """How to make, change and delete resources of one type.

    `configure` runs after `create`, when the resource is already the stack's: if it fails, the rollback deletes what was created. It runs
    again after an update in place. A change of an `immutable` property, or any change if there is neither `update` nor `configure`,
    replaces the resource. `honoured` lists properties, nested ones with dots (``Code.S3Bucket``); below one without, anything goes.
    """

    name: str
    honoured: str
    create: Create
    delete: Delete
    configure: Configure = nothing
    update: Update | None = None
    immutable: str = ""
    attributes: str = ""
    ignored: Mapping[str, str] = field(default_factory=dict)
    named_by: str = ""
    any_attribute: bool = False

    @property
    def tree(self) -> PropertyTree | None:
        """The honoured and ignored properties as a tree; None if any property goes."""
        return None if self.honoured == "*" else property_tree([*self.honoured.split(), *self.ignored])

    @property
    def changeable(self) -> bool:
        return self.update is not None or self.configure is not nothing

    def has_attribute(self, name: str) -> bool:
        return self.any_attribute or name in self.attributes.split()

    def needs_replacement(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        return not self.changeable or bool(changed & set(self.immutable.split()))


class ResourceTypeRegistry(dict[str, ResourceType]):
    """All types by name; everything that is `Custom::...` is one type."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        super().__init__((each.name, each) for each in types)

    def of(self, name: str) -> ResourceType | None:
        return self.get("AWS::CloudFormation::CustomResource" if name.startswith("Custom::") else name)


def property_tree(paths: Iterable[str]) -> PropertyTree:
    """
    >>> property_tree(["Code.S3Bucket", "Code.S3Key", "Role"])
    {'Code': {'S3Bucket': {}, 'S3Key': {}}, 'Role': {}}
    """
    tree: PropertyTree = {}
    for path in paths:
        node = tree
        for part in path.split("."):
            node = node.setdefault(part, {})
    return tree


def unknown_properties(value: Any, tree: PropertyTree, path: str = "") -> Iterator[str]:
    """The dotted paths in a template's value that the tree lacks; intrinsic functions are looked through or left alone.

    >>> list(unknown_properties({"Role": "r", "Code": {"Zip": "z"}}, property_tree(["Role", "Code.S3Key"])))
    ['Code.Zip']
    """
    if isinstance(value, list):
        for item in value:
            yield from unknown_properties(item, tree, path)
    if not isinstance(value, dict) or not tree:
        return
    if set(value) == {"Fn::If"}:
        yield from unknown_properties(value["Fn::If"][1:], tree, path)
        return
    if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
        return
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if key not in tree:
            yield here
        else:
            yield from unknown_properties(item, tree[key], here)


def lower_first(value: Any, *, keep: Sequence[str] = ()) -> Any:
    """Keys as APIs of the camelCase kind spell them; the values below a key of `keep` are names of the user's and stay.

    >>> lower_first({"RouteSettings": {"POST /Ring": 1}}, keep=["RouteSettings"])
    {'routeSettings': {'POST /Ring': 1}}
    """
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: item if key in keep else lower_first(item, keep=keep) for key, item in value.items()}
    return [lower_first(item, keep=keep) for item in value] if isinstance(value, list) else value
