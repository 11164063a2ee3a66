"""The forms of `-o json` and `-o yaml`, the same for every command."""

import json
from collections.abc import Mapping
from typing import Any

import yaml


def render_json(value: Mapping[str, Any]) -> str:
    """Return the value as JSON with an indentation of one space."""
    return json.dumps(value, indent=1)


def render_yaml(value: Mapping[str, Any]) -> str:
    """Return the value as YAML, its keys in their order."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=200)).rstrip()
