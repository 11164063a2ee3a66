"""CloudFormation's intrinsic functions, parameters, conditions and rules: from expressions of a template to values.

What cannot be resolved fails, with its name; nothing stays unresolved silently.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner_local.aws.cloudformation.resource_types import CreatedResource
from joiner_local.aws.cloudformation.stack_templates import (
    SUBSTITUTION,
    InvalidTemplate,
    StackTemplate,
    attribute_reference,
)
from joiner_local.aws.local_aws import ACCOUNT, REGION

NO_VALUE = object()
DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:([^:}]+):([^}]+)\}\}")
ZONES = "abcdef"  # of moto's us-east-1


@dataclass(slots=True)
class TemplateScope:
    """The values of names while a stack is created: parameters, mappings, conditions, created resources, exports of
    other stacks.

    `read_parameter` reads SSM; `rewrite` maps every resulting string (HTTP APIs have another address here than on AWS).
    """

    template: StackTemplate
    stack_name: str
    stack_id: str
    parameters: Mapping[str, Any]
    resources: Mapping[str, CreatedResource]
    exports: Mapping[str, str]
    read_parameter: Callable[[str], str]
    rewrite: Callable[[str], str]
    _conditions: dict[str, bool] = field(default_factory=dict)

    def condition(self, name: str) -> bool:
        if name not in self._conditions:
            conditions = self.template.section("Conditions")
            if name not in conditions:
                raise InvalidTemplate(f"Template format error: unresolved condition dependency {name}")
            self._conditions[name] = self.truth(conditions[name])
        return self._conditions[name]

    def truth(self, node: Any) -> bool:  # noqa: PLR0911 - one answer a function
        """Evaluate a condition, or an assertion of a rule."""
        match node:
            case bool():
                return node
            case {"Condition": name}:
                return self.condition(name)
            case {"Fn::Equals": [left, right]}:
                return _text(self.resolve(left)) == _text(self.resolve(right))
            case {"Fn::Not": [other]}:
                return not self.truth(other)
            case {"Fn::And": list(others)}:
                return all(self.truth(other) for other in others)
            case {"Fn::Or": list(others)}:
                return any(self.truth(other) for other in others)
            case {"Fn::Contains": [values, value]}:
                return self.resolve(value) in self.resolve(values)
            case _:
                raise InvalidTemplate(
                    f"Template format error: the local AWS does not know the condition {json.dumps(node)}"
                )

    def check_rules(self) -> None:
        for name, rule in self.template.section("Rules").items():
            if "RuleCondition" in rule and not self.truth(rule["RuleCondition"]):
                continue
            for assertion in rule["Assertions"]:
                if not self.truth(assertion["Assert"]):
                    raise InvalidTemplate(
                        f"Template error: rule {name}: {assertion.get('AssertDescription', 'an assertion failed')}"
                    )

    def wants(self, declared: Mapping[str, Any]) -> bool:
        """Return whether the condition of a resource or an output is true."""
        return "Condition" not in declared or self.condition(declared["Condition"])

    def resolve(self, node: Any) -> Any:
        """Return the value of a part of the template, without `NO_VALUE` members."""
        if isinstance(node, str):
            return self._dynamic(node)
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            [(key, argument)] = node.items()
            if key == "Ref":
                return self._ref(argument)
            if key.startswith("Fn::"):
                return self._function(key, argument)
        resolved = ((key, self.resolve(value)) for key, value in node.items())
        return {key: value for key, value in resolved if value is not NO_VALUE}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::StackId": self.stack_id,
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::Partition": "aws",
            "AWS::NotificationARNs": [],
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self._made(name).physical_id

    def _made(self, name: str) -> CreatedResource:
        if name not in self.resources:
            raise InvalidTemplate(f"Template error: resource {name} is referred to, but its condition leaves it out")
        return self.resources[name]

    def _function(self, name: str, argument: Any) -> Any:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise InvalidTemplate(f"Template format error: the local AWS does not know {name}")
        value = function(self, argument)
        return self.rewrite(value) if isinstance(value, str) else value

    def get_att(self, argument: Any) -> Any:
        name, attribute = attribute_reference(argument)
        made = self._made(name)
        if attribute not in made.attributes:
            type_ = self.template.resources[name]["Type"]
            if type_.startswith(("Custom::", "AWS::CloudFormation::CustomResource")):
                raise InvalidTemplate(
                    f"CustomResource attribute error: Vendor response doesn't contain {attribute} attribute in "
                    f"object {name} ({type_})"
                )
            raise InvalidTemplate(
                f"Template error: resource {name} ({type_}) does not support attribute type {attribute} in Fn::GetAtt"
            )
        return made.attributes[attribute]

    def sub(self, argument: Any) -> str:
        text, given = argument if isinstance(argument, list) else (argument, {})
        values = {name: self.resolve(value) for name, value in given.items()}

        def value_of(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in values:
                return _text(values[name])
            return _text(self.get_att(name) if "." in name else self._ref(name))

        return SUBSTITUTION.sub(value_of, text)

    def import_value(self, argument: Any) -> str:
        name = self.resolve(argument)
        if name not in self.exports:
            raise InvalidTemplate(f"No export named {name} found.")
        return self.exports[name]

    def find_in_map(self, argument: Any) -> Any:
        name, *path = (self.resolve(part) for part in argument[:3])
        found: Any = self.template.section("Mappings")
        for part in (name, *path):
            if part not in found:
                raise InvalidTemplate(f"Template error: Unable to get mapping for {'::'.join(map(str, (name, *path)))}")
            found = found[part]
        return found

    def _dynamic(self, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            if match[1] != "ssm":
                raise InvalidTemplate(f"Template format error: the local AWS resolves ssm only, not {match[0]}")
            return self.read_parameter(match[2])

        return DYNAMIC_REFERENCE.sub(value_of, text) if "{{resolve:" in text else text


def _join(scope: TemplateScope, argument: Any) -> str:
    separator, parts = argument
    joined: str = separator.join(_text(part) for part in scope.resolve(parts))
    return joined


def _select(scope: TemplateScope, argument: Any) -> Any:
    index, values = scope.resolve(argument[0]), scope.resolve(argument[1])
    if not 0 <= int(index) < len(values):
        raise InvalidTemplate(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return values[int(index)]


def _if(scope: TemplateScope, argument: Any) -> Any:
    name, then, otherwise = argument
    return scope.resolve(then if scope.condition(name) else otherwise)


_FUNCTIONS: Mapping[str, Callable[[TemplateScope, Any], Any]] = {
    "Fn::GetAtt": TemplateScope.get_att,
    "Fn::Sub": TemplateScope.sub,
    "Fn::ImportValue": TemplateScope.import_value,
    "Fn::FindInMap": TemplateScope.find_in_map,
    "Fn::Join": _join,
    "Fn::Select": _select,
    "Fn::If": _if,
    "Fn::Split": lambda scope, argument: scope.resolve(argument[1]).split(argument[0]),
    "Fn::Base64": lambda scope, argument: base64.b64encode(scope.resolve(argument).encode()).decode(),
    "Fn::ToJsonString": lambda scope, argument: json.dumps(scope.resolve(argument)),
    "Fn::GetAZs": lambda _scope, _argument: [f"{REGION}{zone}" for zone in ZONES],
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve_parameters(
    template: StackTemplate, given: Mapping[str, str], read_parameter: Callable[[str], str]
) -> dict[str, Any]:
    """Return parameter values by name: given values or defaults, with SSM parameters read, lists split and numbers
    checked.
    """
    slots = template.section("Parameters")
    unknown = sorted(set(given) - set(slots))
    if unknown:
        raise InvalidTemplate(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    missing = sorted(name for name, slot in slots.items() if name not in given and "Default" not in slot)
    if missing:
        raise InvalidTemplate(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        name: _parameter(name, slot, _text(given.get(name, slot.get("Default"))), read_parameter)
        for name, slot in slots.items()
    }


def _parameter(name: str, slot: Mapping[str, Any], text: str, read_parameter: Callable[[str], str]) -> Any:
    kind = slot.get("Type", "String")
    if kind.startswith("AWS::SSM::Parameter::Value<"):
        text = read_parameter(text)
        kind = kind.removeprefix("AWS::SSM::Parameter::Value<").removesuffix(">")
    allowed = slot.get("AllowedValues")
    if allowed is not None and text not in map(_text, allowed):
        raise InvalidTemplate(f"Template error: Parameter '{name}' must be one of AllowedValues")
    if "AllowedPattern" in slot and not re.fullmatch(slot["AllowedPattern"], text):
        raise InvalidTemplate(f"Template error: Parameter '{name}' must match pattern {slot['AllowedPattern']}")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [part.strip() for part in text.split(",")]
    if kind == "Number":
        try:
            float(text)
        except ValueError as error:
            raise InvalidTemplate(f"Template error: Parameter '{name}' must be a number, not {text!r}") from error
    return text
