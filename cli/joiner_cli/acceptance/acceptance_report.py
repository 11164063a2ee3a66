"""The report of an acceptance run, without secrets and account numbers, so that it can be attached to an issue."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from joiner_cli.acceptance.acceptance_steps import STEPS, StepResult

MASK: Final = "************"
ACCOUNT: Final = re.compile(r"(?<!\d)\d{12}(?!\d)")
TOKEN: Final = re.compile(r"k8s-aws-v1\.[\w-]+|(?<=/ring/)[\w-]{20,}")


def mask_secrets(text: str) -> str:
    """Replace account numbers, tokens and doorbell paths.

    >>> mask_secrets("arn:aws:iam::123456789012:role/node")
    'arn:aws:iam::************:role/node'
    >>> mask_secrets("https://api/ring/abcdefghijklmnopqrstuvwxyz/pods")
    'https://api/ring/.../pods'
    """
    return ACCOUNT.sub(MASK, TOKEN.sub("...", text))


def report_data(results: Sequence[StepResult], about: Mapping[str, str]) -> dict[str, Any]:
    """Return the report's data, masked."""
    found: dict[str, Any] = {
        "about": dict(about),
        "passed": all_passed(results),
        "steps": [each.to_json() for each in results],
    }
    clean: dict[str, Any] = json.loads(mask_secrets(json.dumps(found)))
    return clean


def all_passed(results: Sequence[StepResult]) -> bool:
    """Return whether every step passed."""
    return all(each.outcome == "shown" for each in results)


def render_report(results: Sequence[StepResult], about: Mapping[str, str], output: str) -> str:
    """Return the report as `table`, `json` or `yaml`."""
    data = report_data(results, about)
    if output == "json":
        return json.dumps(data, indent=2)
    if output == "yaml":
        return str(yaml.safe_dump(data, sort_keys=False, width=120)).rstrip()
    width = max(len(step.name) for step in STEPS)
    return "\n".join(render_step(each, width) for each in results)


def render_step(result: StepResult, width: int = 15) -> str:
    """Return the line of one step, and a second line with its remedy if it failed."""
    remedy = f"\n{'':{width + 9}}{result.remedy}" if result.remedy else ""
    return mask_secrets(f"{result.step:{width}} {result.outcome:7} {result.message}{remedy}")
