"""Sizes of the environments of functions: Lambda takes 4 KB for all variables of a function, and refuses more in the
middle of an update of the stack. So a synthesis refuses settings that are too long.

Lambda measures the variables as JSON, in which quotes within a value take two bytes. Values that only CloudFormation
knows count with the longest text that they can become. Source: AWS Lambda developer guide, "Lambda quotas"; AWS
CloudFormation user guide, "Name type" (physical names).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from infra.settings_reader import SettingsMistake

MOST_BYTES: Final = 4096
LONGEST_SUFFIX: Final = 14
"""What CloudFormation appends to the names of a stack and a resource, to make a physical name: a hyphen, letters and
digits."""
LONGEST_ARN: Final = 90
"""An ARN without the name of its resource: partition, service, region, account and kind."""
LONGEST_OTHER: Final = 256
"""Anything else that CloudFormation resolves."""
PSEUDO_PARAMETERS: Final = {"AWS::AccountId": 12, "AWS::Partition": 10, "AWS::Region": 16, "AWS::URLSuffix": 20}

BY_IDS: Final = "allow by tags instead of by ids, or fewer of them"
SETTINGS: Final = {
    "JOINER_NODE_CLASSES": ("nodeClasses", BY_IDS),
    "JOINER_IMAGE_OWNERS": ("imageOwners", "name fewer owners"),
    "JOINER_COMMITMENTS": (
        "commitments",
        "add up those of the same type and zone, and savings plans of the same family and discount",
    ),
    "JOINER_DEFAULT_SPREADS": ("planning.defaultTopologySpreadConstraints", "keep fewer constraints"),
    **dict.fromkeys(
        (
            "JOINER_NODE_ROLES",
            "JOINER_ROLE_PROFILES",
            "JOINER_WINDOWS_ROLES",
            "NODE_ACCESS_PROFILES",
            "NODE_ACCESS_ROLES",
            "NODE_ACCESS_WINDOWSROLES",
        ),
        ("nodeRoles", "name fewer roles"),
    ),
}
"""Variables that grow with a setting: the setting, and how to shorten it."""


def check_environment_sizes(template: Mapping[str, Any], stack: str) -> list[SettingsMistake]:
    """Return a mistake for each setting because of which a function of the template has too many variables: the one
    that takes most of them. `stack` is the name of the stack.
    """
    found: dict[str, SettingsMistake] = {}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            written = (resource["Properties"].get("Environment") or {}).get("Variables") or {}
            variables = {name: longest_text(value, template, stack) for name, value in written.items()}
            if _bytes(variables) > MOST_BYTES:
                mistake = _explain(variables)
                found.setdefault(mistake.field, mistake)
    return list(found.values())


def longest_text(value: Any, template: Mapping[str, Any], stack: str) -> str:
    """Return a text as long as the value of a template may become.

    >>> longest_text({"Fn::Join": ["-", ["a", {"Ref": "AWS::AccountId"}]]}, {"Resources": {}}, "joiner")
    'a-xxxxxxxxxxxx'
    """
    match value:
        case str(text):
            return text
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(longest_text(each, template, stack) for each in parts)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w:.]+)\}", lambda found: "x" * _size(found[1], template, stack), text)
        case {"Ref": str(name)}:
            return "x" * _size(name, template, stack)
        case {"Fn::GetAtt": [str(name), "Arn"]}:
            return "x" * (LONGEST_ARN + _size(name, template, stack))
        case _:
            return "x" * LONGEST_OTHER


def _size(name: str, template: Mapping[str, Any], stack: str) -> int:
    """Return the longest size of what `Ref` answers for a resource, or of a pseudo parameter."""
    resource = template["Resources"].get(name)
    if resource is None:
        return PSEUDO_PARAMETERS.get(name, LONGEST_OTHER)
    given = resource.get("Properties", {}).get(f"{resource['Type'].rpartition('::')[2]}Name")
    named = len(given) if isinstance(given, str) else len(stack) + 1 + len(name) + LONGEST_SUFFIX
    return named + (LONGEST_ARN if resource["Type"] == "AWS::StepFunctions::StateMachine" else 0)


def _explain(variables: Mapping[str, str]) -> SettingsMistake:
    taken: dict[tuple[str, str], int] = {}
    for name in variables.keys() & SETTINGS.keys():
        taken[SETTINGS[name]] = taken.get(SETTINGS[name], 0) + _bytes({name: variables[name]})
    setting, remedy = max(taken, key=lambda each: taken[each], default=("cluster", "report this as a defect"))
    function = variables.get("POWERTOOLS_SERVICE_NAME", "a function")
    message = (
        f"{setting} takes {taken.get((setting, remedy), 0)} of up to {_bytes(variables)} bytes of the environment of "
        f"{function}, and Lambda takes {MOST_BYTES}: {remedy}"
    )
    return SettingsMistake(setting, message)


def _bytes(variables: Mapping[str, str]) -> int:
    return len(json.dumps(variables, separators=(",", ":")))
