"""Which launch templates of Joiner nothing uses any more.

A template is named by its content, so a new image or user data makes a new one, and EC2 allows 5,000 in a region. A
template that was deleted too early does no harm: the next launch with its content creates it again.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

UNUSED_FOR: Final = timedelta(hours=1)
"""A template is kept for this time after its creation and after the last launch with it."""

TEMPLATE_TAG: Final = "aws:ec2launchtemplate:id"
"""EC2 writes this tag on each instance that it launches from a template."""


@dataclass(frozen=True, slots=True)
class StoredLaunchTemplate:
    """A launch template as DescribeLaunchTemplates shows it, without its content."""

    id: str
    name: str
    created_at: datetime


def find_unused_launch_templates(
    templates: Iterable[StoredLaunchTemplate],
    *,
    requested: Collection[str],
    launched_from: Collection[str],
    now: datetime,
) -> list[StoredLaunchTemplate]:
    """Return the templates that may be deleted, the oldest first.

    `requested` are the names in launches whose outcome is not recorded yet; `launched_from` are the ids from which
    instances were launched within `UNUSED_FOR`.
    """
    unused = (
        template
        for template in templates
        if template.created_at <= now - UNUSED_FOR
        and template.name not in requested
        and template.id not in launched_from
    )
    return sorted(unused, key=lambda template: (template.created_at, template.id))


def list_requested_templates(request: str) -> set[str]:
    """Return the names of the launch templates in a stored CreateFleet request (JSON text).

    >>> sorted(list_requested_templates('{"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": '
    ...                                 '{"LaunchTemplateName": "joiner/demo/0a1b"}}]}'))
    ['joiner/demo/0a1b']
    """
    fleet: dict[str, Any] = json.loads(request) if request else {}
    specifications = (each["LaunchTemplateSpecification"] for each in fleet.get("LaunchTemplateConfigs", ()))
    return {str(each["LaunchTemplateName"]) for each in specifications if "LaunchTemplateName" in each}
