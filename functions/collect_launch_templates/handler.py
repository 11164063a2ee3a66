"""Custom resource and hourly schedule: delete launch templates that nothing uses.

Every hour it deletes those that no open launch names and from which no instance was launched for an hour. When the
stack is deleted, it deletes all of them: launches have ended, and a running instance does not need its template.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, ResourceNotFound
from joiner.adapters.ledger import Ledger
from joiner.launching.unused_launch_templates import (
    TEMPLATE_TAG,
    UNUSED_FOR,
    StoredLaunchTemplate,
    find_unused_launch_templates,
    list_requested_templates,
)
from joiner.reporting.shortened_reasons import shortened

logger = Logger()

PHYSICAL_ID: Final = "joiner-launch-templates"
DELETED_AT_ONCE: Final = 500
"""Templates of one run; each is a call of EC2. The next run deletes the others."""


class TemplatesLeft(Exception):
    """EC2 did not delete some templates; the message names the first."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """Answer CloudFormation, or the schedule."""
    if "RequestType" in event:
        serve(event, context, act)
        return None
    from joiner.adapters import environment

    ec2 = Ec2(environment.client("ec2"))
    answer = collect_unused(ec2, environment.ledger(), os.environ["JOINER_CLUSTER"], environment.now())
    logger.info("collected launch templates", **answer)
    return answer


def act(request: Request) -> Answer:
    """Delete every template of the cluster, on Delete only."""
    cluster = request.properties["Cluster"]
    if request.kind == "Delete":
        from joiner.adapters.environment import client

        delete_all(Ec2(client("ec2")), cluster)
    return Answer(request.physical_id or PHYSICAL_ID)


def delete_all(ec2: Ec2, cluster: str) -> None:
    """Delete every template with the cluster's tags; TemplatesLeft if EC2 refuses some."""
    refused = _delete(ec2, ec2.launch_templates(cluster))
    if refused:
        name, reason = next(iter(refused.items()))
        raise TemplatesLeft(f"{len(refused)} launch templates stay, the first is {name}: {reason}")


def collect_unused(ec2: Ec2, ledger: Ledger, cluster: str, now: datetime) -> dict[str, Any]:
    """Delete what nothing uses; return ``{"templates", "deleted", "refused", "reasons"}``: counts, and EC2's texts."""
    templates = ec2.launch_templates(cluster)
    requested = {name for launch in ledger.unrecorded_launches() for name in list_requested_templates(launch.request)}
    recent = (
        each
        for each in ec2.instances_of_cluster(cluster, ended=True)
        if each.launched_at and datetime.fromisoformat(each.launched_at).astimezone(UTC) > now - UNUSED_FOR
    )
    launched_from = {each.tags.get(TEMPLATE_TAG, "") for each in recent}
    unused = find_unused_launch_templates(templates, requested=requested, launched_from=launched_from, now=now)
    due = unused[:DELETED_AT_ONCE]
    refused = _delete(ec2, due)
    for name, reason in refused.items():
        logger.warning("a launch template was not deleted", template=name, reason=reason)
    reasons = shortened(f"{name}: {reason}" for name, reason in refused.items())
    return {
        "templates": len(templates),
        "deleted": len(due) - len(refused),
        "refused": len(refused),
        "reasons": reasons,
    }


def _delete(ec2: Ec2, templates: Sequence[StoredLaunchTemplate]) -> dict[str, str]:
    """Delete templates one by one; return EC2's reason for each that stays, by name.

    After a throttle nothing more is sent: launches need the requests more.
    """
    refused: dict[str, str] = {}
    for index, template in enumerate(templates):
        try:
            ec2.delete_launch_template(template.id)
        except ResourceNotFound:
            continue  # another run deleted it
        except Ec2Throttled as reason:
            return refused | dict.fromkeys((each.name for each in templates[index:]), str(reason))
        except Ec2Error as reason:
            refused[template.name] = str(reason)
    return refused
