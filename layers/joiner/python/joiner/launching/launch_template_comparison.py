"""Compare the launch template that EC2 reports with the content that a launch needs.

EC2 does not return a template byte for byte. It reports fields that were not set (`MetadataOptions.State`), omits empty
fields, returns tags and groups in any order, and may name an instance profile by ARN. These differences are ignored.
Every other difference counts, also an additional field: it could be a foreign key pair or network interface. Source:
EC2 API reference, RequestLaunchTemplateData and ResponseLaunchTemplateData.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

Path = tuple[str, ...]

REPORTED: Final[Mapping[Path, frozenset[Any]]] = {
    ("MetadataOptions", "State"): frozenset({"pending", "applied"}),
    ("NetworkInterfaces", "DeleteOnTermination"): frozenset({True}),
    ("NetworkInterfaces", "InterfaceType"): frozenset({"interface"}),
}
"""Values that EC2 may report for fields that were not set. False, zero and empty values are also allowed."""

KEYS: Final = {
    "BlockDeviceMappings": ("DeviceName",),
    "TagSpecifications": ("ResourceType",),
    "Tags": ("Key",),
    "NetworkInterfaces": ("NetworkCardIndex", "DeviceIndex"),
}
"""Lists whose entries are identified by some of their fields."""


def compare_launch_templates(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of the fields in which ``found`` (from EC2) differs from ``wanted``, sorted.

    The result is empty if the template may be used.

    >>> compare_launch_templates({"SecurityGroupIds": ["sg-1", "sg-2"]}, {"SecurityGroupIds": ["sg-2", "sg-1"]})
    ()
    >>> compare_launch_templates({"ImageId": "ami-1"}, {"ImageId": "ami-2", "KeyName": "key-1"})
    ('ImageId', 'KeyName')
    """
    return tuple(sorted(set(_differences(_plain(wanted), _plain(found), ()))))


def _differences(wanted: Any, found: Any, path: Path) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            each
            for key in wanted.keys() | found.keys()
            for each in _differences(wanted.get(key), found.get(key), path if key.startswith("=") else (*path, key))
        ]
    if not wanted and wanted == (found or wanted):
        return []
    if wanted is None and (not found or (_is_value(found) and found in REPORTED.get(path, ()))):
        return []
    return [] if wanted == found else [".".join(path)]


def _is_value(found: Any) -> bool:
    return isinstance(found, str | int | float | bool)


def _plain(raw: Any, key: str = "") -> Any:
    """Return one form for content that EC2 may write in several forms.

    Entries of lists in ``KEYS`` become fields whose name begins with ``=``.
    """
    if isinstance(raw, Mapping):
        if key == "IamInstanceProfile":
            return {"Name": raw.get("Name") or str(raw.get("Arn", "")).rpartition("/")[2]}
        return {str(name): _plain(value, str(name)) for name, value in raw.items()}
    if isinstance(raw, Sequence) and not isinstance(raw, str | bytes):
        if key in KEYS:
            return {"=" + "/".join(str(each.get(name, 0)) for name in KEYS[key]): _plain(each) for each in raw}
        return sorted((_plain(each) for each in raw), key=lambda each: json.dumps(each, sort_keys=True, default=str))
    if key == "UserData":
        return _decoded(str(raw))
    return raw


def _decoded(text: str) -> str | bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return text
