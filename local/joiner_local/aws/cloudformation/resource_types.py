"""CloudFormation resource types: how to create, update and delete a resource, and which properties are supported.

Types call the service's API like any other client, because moto's own CloudFormation models drop half of a template. So
a resource of a stack equals one that boto3 created. A type lists every property that it supports, and each one that it
ignores with the reason. Any other property fails the deployment before anything is created, as does an unknown type or
attribute.
"""

import random
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from botocore.config import Config
from botocore.model import Shape

from joiner_local.aws_sessions import aws_session

PropertyTree = dict[str, Any]


@dataclass(slots=True)
class ServiceClients:
    """boto3 clients on the local endpoint, each created once (a new one takes tens of milliseconds)."""

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
                session: Any = aws_session()  # the service's name is known only at run time
                self._made[service] = session.client(service, endpoint_url=self.endpoint, config=config)
            return self._made[service]

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call an operation with values of a template. Scalars are converted to the types of the operation's shape;
        None is left out.
        """
        client = self[service]
        model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation])
        given = {name: value for name, value in parameters.items() if value is not None}
        shaped = coerced(given, model.input_shape) if model.input_shape is not None else given
        answer: dict[str, Any] = getattr(client, operation)(**shaped)
        return answer


def coerced(value: Any, shape: Shape) -> Any:  # noqa: PLR0911 - one answer a shape
    """Convert a template's value to the type of a shape: templates may write numbers and booleans as strings, and
    strings as numbers.
    """
    match shape.type_name, value:
        case "structure", dict():
            members: Mapping[str, Shape] = shape.members  # type: ignore[attr-defined] # of a StructureShape
            return {key: coerced(item, members[key]) if key in members else item for key, item in value.items()}
        case "map", dict():
            # shape is a MapShape
            return {key: coerced(item, shape.value) for key, item in value.items()}  # type: ignore[attr-defined]
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
    """One resource as the template declares it, resolved; `dependencies` are the logical ids that must exist before
    it.
    """

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
        """Return the template's name, or STACK-LOGICALID-RANDOM cut to the service's limit, as CloudFormation does."""
        given = self.properties.get(name_property)
        if given is not None:
            return str(given)
        # the suffix is a name, not a secret
        suffix = "".join(random.choices(string.ascii_letters + string.digits, k=12))  # noqa: S311
        length = limit - len(suffix) - 2
        stack = self.stack_name[: max(length - len(self.logical_id), length // 2)]
        name = f"{stack}-{self.logical_id[: length - len(stack)]}-{suffix}"
        return name.lower() if lower else name

    @property
    def tags(self) -> dict[str, str]:
        """Return the resource's own tags merged over those of the stack."""
        own = self.properties.get("Tags") or {}
        listed = (
            {tag["Key"]: str(tag["Value"]) for tag in own}
            if isinstance(own, list)
            else {k: str(v) for k, v in own.items()}
        )
        return {**self.stack_tags, **listed}

    @property
    def tag_list(self) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]

    def pick(self, *names: str) -> dict[str, Any]:
        """Return those of the named properties that the template sets."""
        return {name: self.properties[name] for name in names if name in self.properties}


@dataclass(frozen=True, slots=True)
class CreatedResource:
    """One existing resource: the values of `Ref` and of `Fn::GetAtt`."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExistingResource:
    """A created resource with the declaration that created it."""

    made: CreatedResource
    declared: DeclaredResource

    @property
    def physical_id(self) -> str:
        return self.made.physical_id

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.declared.properties


class PartlyCreated(Exception):
    """A creation failed after something was created, which the rollback has to delete. The cause is the error."""

    def __init__(self, made: CreatedResource, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.made = made


Create = Callable[[ServiceClients, DeclaredResource], CreatedResource]
Configure = Callable[[ServiceClients, ExistingResource], None]
Update = Callable[[ServiceClients, ExistingResource, DeclaredResource], CreatedResource]
Delete = Callable[[ServiceClients, ExistingResource], None]


def nothing(_clients: ServiceClients, _existing: ExistingResource) -> None:
    """Do nothing: for a type that has nothing to configure, or to delete."""


def calling(service: str, operation: str, parameter: str) -> Delete:
    """Return a deletion by one call that takes the physical id."""

    def delete(clients: ServiceClients, existing: ExistingResource) -> None:
        clients.call(service, operation, **{parameter: existing.physical_id})

    return delete


@dataclass(frozen=True, slots=True)
class ResourceType:
    """How to create, update and delete resources of one type.

    `configure` runs after `create`, when the resource belongs to the stack: if it fails, the rollback deletes the
    resource. It runs again after an update in place. A change of an `immutable` property, or any change if there is
    neither `update` nor `configure`, replaces the resource. `honoured` lists supported properties, nested ones with
    dots (``Code.S3Bucket``); below a property without nested names everything is supported.
    """

    name: str
    honoured: str
    create: Create
    _: KW_ONLY
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
        """Return the supported and ignored properties as a tree; None if every property is supported."""
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
    """All types by name; every `Custom::...` is one type."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        super().__init__((each.name, each) for each in types)

    def of(self, name: str) -> ResourceType | None:
        return self.get("AWS::CloudFormation::CustomResource" if name.startswith("Custom::") else name)


def property_tree(paths: Iterable[str]) -> PropertyTree:
    """Return properties with dots in their names as a tree.

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
    """Return the dotted paths in a template's value that the tree lacks. Intrinsic functions are searched or skipped.

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
    """Return the value with keys in camelCase, as some APIs spell them. Values below a key of `keep` have names of the
    user and stay.

    >>> lower_first({"RouteSettings": {"POST /Ring": 1}}, keep=["RouteSettings"])
    {'routeSettings': {'POST /Ring': 1}}
    """
    if isinstance(value, dict):
        return {
            key[:1].lower() + key[1:]: item if key in keep else lower_first(item, keep=keep)
            for key, item in value.items()
        }
    return [lower_first(item, keep=keep) for item in value] if isinstance(value, list) else value
