"""A CloudFormation template as a value: parsed, checked before anything is created, with resources in the order of
creation.

The order follows from `Ref`, `Fn::GetAtt`, `Fn::Sub` and `DependsOn`; deletion uses the reverse order.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import yaml

from joiner_local.aws.cloudformation.resource_types import ResourceTypeRegistry, unknown_properties

# no Transform: there are no macros here
SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Mappings",
        "Conditions",
        "Rules",
        "Resources",
        "Outputs",
    }
)
RESOURCE_KEYS = frozenset(
    {"Type", "Properties", "DependsOn", "Condition", "Metadata", "DeletionPolicy", "UpdateReplacePolicy"}
)
DELETION_POLICIES = frozenset({"Delete", "Retain", "RetainExceptOnCreate"})  # Snapshot: no service here creates any
PSEUDO_PARAMETERS = frozenset(
    f"AWS::{name}"
    for name in ("AccountId", "Region", "StackId", "StackName", "URLSuffix", "NoValue", "Partition", "NotificationARNs")
)
SUBSTITUTION = re.compile(r"\$\{(!?)([^}]*)\}")


class InvalidTemplate(Exception):
    """The template is invalid: CloudFormation's ValidationError, before it creates anything."""


MOST: Final = {"Resources": 500, "Parameters": 200, "Outputs": 200, "Mappings": 200}
LONGEST_DESCRIPTION: Final = 1024  # bytes
"""Source: CloudFormation user guide, "Understand CloudFormation quotas"."""


@dataclass(frozen=True)
class StackTemplate:
    """A parsed template; `text` is what was sent."""

    text: str
    body: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> "StackTemplate":
        try:
            # _ShortForms is a SafeLoader
            body = json.loads(text) if text.lstrip().startswith("{") else yaml.load(text, _ShortForms)  # noqa: S506
        except (ValueError, yaml.YAMLError) as error:
            raise InvalidTemplate(f"Template format error: {error}") from error
        if not isinstance(body, dict) or not isinstance(body.get("Resources"), dict) or not body["Resources"]:
            raise InvalidTemplate("Template format error: At least one Resources member must be defined.")
        for section, most in MOST.items():
            if len(body.get(section) or ()) > most:
                output = f"Number of {section.lower()}, {len(body[section])}, is greater than maximum allowed, {most}"
                raise InvalidTemplate(f"Template format error: {output}")
        if len(str(body.get("Description") or "").encode()) > LONGEST_DESCRIPTION:
            raise InvalidTemplate(f"Template format error: 'Description' length is greater than {LONGEST_DESCRIPTION}.")
        return cls(text, body)

    def section(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get(name) or {}
        return found

    @property
    def resources(self) -> Mapping[str, Any]:
        return self.section("Resources")

    @property
    def description(self) -> str | None:
        return self.body.get("Description")

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Logical ids, dependencies first, otherwise in the order of the template."""
        done: dict[str, None] = {}

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                raise InvalidTemplate(f"Circular dependency between resources: [{', '.join(path[path.index(name) :])}]")
            if name not in done:
                for dependency in self.dependencies(name):
                    visit(dependency, (*path, name))
                done[name] = None

        for name in self.resources:
            visit(name, ())
        return tuple(done)

    def dependencies(self, name: str) -> list[str]:
        """Return the resources that a resource refers to or depends on."""
        resource = self.resources[name]
        waits = resource.get("DependsOn") or []
        wanted = [
            *([waits] if isinstance(waits, str) else waits),
            *(reference for reference, _ in references(resource.get("Properties"))),
        ]
        return list(dict.fromkeys(other for other in wanted if other in self.resources))

    def check(self, registry: ResourceTypeRegistry) -> None:
        """Raise `InvalidTemplate` for what would fail, or silently do nothing, later."""
        unknown = set(self.body) - SECTIONS
        if unknown:
            raise InvalidTemplate(f"Template format error: the local AWS has no {', '.join(sorted(unknown))} section")
        self._check_types(registry)
        for name, resource in self.resources.items():
            self._check_resource(name, resource, registry)
        for where in ("Resources", "Outputs", "Conditions"):
            self._check_references(where, registry)
        _ = self.order

    def _check_types(self, registry: ResourceTypeRegistry) -> None:
        types = {resource.get("Type", "?") for resource in self.resources.values()}
        unknown = sorted(name for name in types if registry.of(name) is None)
        if unknown:
            raise InvalidTemplate(
                f"Template format error: Unrecognized resource types: [{', '.join(unknown)}] (the local AWS does not "
                "know them)"
            )

    def _check_resource(self, name: str, resource: Mapping[str, Any], registry: ResourceTypeRegistry) -> None:
        what = f"resource {name} ({resource['Type']})"
        keys = set(resource) - RESOURCE_KEYS
        if keys:
            raise InvalidTemplate(
                f"Template format error: {what}: the local AWS does not know {', '.join(sorted(keys))}"
            )
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if resource.get(policy, "Delete") not in DELETION_POLICIES:
                raise InvalidTemplate(
                    f"Template format error: {what}: the local AWS does not know {policy} {resource[policy]}"
                )
        type_ = registry.of(resource["Type"])
        assert type_ is not None
        if type_.tree is not None:
            for path in unknown_properties(resource.get("Properties") or {}, type_.tree):
                raise InvalidTemplate(f"Template format error: {what}: the local AWS does not know property {path}")
        waits = resource.get("DependsOn") or []
        for other in [waits] if isinstance(waits, str) else waits:
            if other not in self.resources:
                raise _unresolved(other, "Resources")
        condition = resource.get("Condition")
        if condition is not None and condition not in self.section("Conditions"):
            raise InvalidTemplate(f"Template format error: {what}: unresolved condition dependency {condition}")

    def _check_references(self, where: str, registry: ResourceTypeRegistry) -> None:
        for reference, attribute in references(self.body.get(where)):
            if attribute is None:
                if not any(
                    reference in known for known in (self.resources, self.section("Parameters"), PSEUDO_PARAMETERS)
                ):
                    raise _unresolved(reference, where)
                continue
            if reference not in self.resources:
                raise InvalidTemplate(
                    f"Template error: instance of Fn::GetAtt references undefined resource {reference}"
                )
            type_ = registry.of(self.resources[reference]["Type"])
            assert type_ is not None
            if not type_.has_attribute(attribute):
                raise InvalidTemplate(
                    f"Template error: resource {reference} ({self.resources[reference]['Type']}) "
                    f"does not support attribute type {attribute} in Fn::GetAtt"
                )


def _unresolved(name: str, where: str) -> InvalidTemplate:
    return InvalidTemplate(
        f"Template format error: Unresolved resource dependencies [{name}] in the {where} block of the template"
    )


def references(node: Any) -> Iterator[tuple[str, str | None]]:
    """Return the references in a part of a template: (name, None) for `Ref`, (name, attribute) for `Fn::GetAtt`, both
    also inside `Fn::Sub`.

    >>> list(references({"Fn::Sub": "${Queue.Arn} in ${AWS::Region}, not ${!This}"}))
    [('Queue', 'Arn'), ('AWS::Region', None)]
    """
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "Ref" and isinstance(value, str):
            yield value, None
        elif key == "Fn::GetAtt":
            yield attribute_reference(value)
        elif key == "Fn::Sub":
            text, given = value if isinstance(value, list) else (value, {})
            yield from references(given)
            for literal, name in SUBSTITUTION.findall(text):
                if not literal and name not in given:
                    yield attribute_reference(name) if "." in name else (name, None)
        else:
            yield from references(value)


def attribute_reference(value: Any) -> tuple[str, str]:
    """Return the resource and the attribute of the arguments of `Fn::GetAtt`.

    >>> attribute_reference(["Topic", "TopicName"]), attribute_reference("Topic.TopicName")
    (('Topic', 'TopicName'), ('Topic', 'TopicName'))
    """
    name, attribute = value.split(".", 1) if isinstance(value, str) else (value[0], ".".join(map(str, value[1:])))
    return name, attribute


class _ShortForms(yaml.SafeLoader):
    """YAML with `!Ref`, `!GetAtt`, `!Sub`, ... and with dates left as text (`Version: 2012-10-17`)."""


def _short_form(loader: _ShortForms, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type] # the third kind there is
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_ShortForms.add_multi_constructor("!", _short_form)
_ShortForms.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def changed_resources(before: StackTemplate, after: StackTemplate) -> Iterable[tuple[str, str, str]]:
    """Return (action, logical id, type) from the templates alone, as a change set shows them."""
    for name, resource in after.resources.items():
        if name not in before.resources:
            yield "Add", name, resource["Type"]
        elif before.resources[name] != resource:
            yield "Modify", name, resource["Type"]
    for name, resource in before.resources.items():
        if name not in after.resources:
            yield "Remove", name, resource["Type"]
