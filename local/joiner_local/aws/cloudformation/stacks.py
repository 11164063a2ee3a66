"""CloudFormation's state: stacks, their resources, events, outputs and change sets."""

import datetime as dt
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from joiner_local.aws.cloudformation.resource_types import ExistingResource
from joiner_local.aws.cloudformation.stack_templates import StackTemplate
from joiner_local.aws.local_aws import ACCOUNT, REGION

MILLISECOND = dt.timedelta(milliseconds=1)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One event of a stack; the stack itself is a resource of type AWS::CloudFormation::Stack."""

    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None = None
    properties: Mapping[str, Any] | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    at: dt.datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class StackOutput:
    key: str
    value: str
    description: str | None = None
    export_name: str | None = None


@dataclass(frozen=True, slots=True)
class StackRequest:
    """The wanted result of a stack operation."""

    template: StackTemplate
    given: Mapping[str, str]
    tags: Mapping[str, str]

    @property
    def identity(self) -> tuple[str, dict[str, str], dict[str, str]]:
        return self.template.text, dict(self.given), dict(self.tags)


@dataclass(slots=True)
class ChangeSet:
    id: str
    name: str
    kind: str  # CREATE or UPDATE
    wish: StackRequest
    changes: tuple[tuple[str, str, str], ...]
    status: str = "CREATE_COMPLETE"
    reason: str | None = None
    execution_status: str = "AVAILABLE"
    description: str | None = None
    created: dt.datetime = field(default_factory=_now)


@dataclass(slots=True)
class CloudFormationStack:
    """One stack. `resources` are the existing ones by logical id; only the operation's thread changes them."""

    stack_id: str
    name: str
    status: str
    _: KW_ONLY
    wish: StackRequest | None = None
    reason: str | None = None
    resources: dict[str, ExistingResource] = field(default_factory=dict)
    events: list[StackEvent] = field(default_factory=list)
    outputs: tuple[StackOutput, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    role_arn: str | None = None
    notification_arns: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    protected: bool = False
    rollback_disabled: bool = False
    created: dt.datetime = field(default_factory=_now)
    updated: dt.datetime | None = None
    deleted: dt.datetime | None = None
    idle: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def named(cls, name: str, status: str) -> "CloudFormationStack":
        return cls(
            stack_id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/{uuid.uuid4()}", name=name, status=status
        )

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def become(self, status: str, reason: str | None = None) -> None:
        self.status, self.reason = status, reason
        self._add(StackEvent(self.name, self.stack_id, "AWS::CloudFormation::Stack", status, reason))

    def add_event(
        self,
        resource: "ExistingResource | None",
        *,
        logical_id: str,
        type_: str,
        status: str,
        reason: str | None = None,
    ) -> None:
        """Add an event of a resource."""
        physical_id = resource.physical_id if resource is not None else ""
        properties = resource.properties if resource is not None else None
        self._add(StackEvent(logical_id, physical_id, type_, status, reason, properties))

    def _add(self, event: StackEvent) -> None:
        """Add an event, a millisecond after the last one: the CDK command line sorts by time."""
        if self.events and event.at < self.events[-1].at + MILLISECOND:
            event = replace(event, at=self.events[-1].at + MILLISECOND)
        self.events.append(event)

    def last_event_of(self, logical_id: str) -> StackEvent | None:
        return next((event for event in reversed(self.events) if event.logical_id == logical_id), None)


def deletion_order(resources: Iterable[ExistingResource]) -> list[ExistingResource]:
    """Return resources with dependants before their dependencies."""
    by_name: dict[str, list[ExistingResource]] = {}
    for resource in resources:
        by_name.setdefault(resource.declared.logical_id, []).append(resource)
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        done[name] = None
        for resource in by_name[name]:
            for dependency in resource.declared.dependencies:
                if dependency in by_name:
                    visit(dependency)
        # after its dependencies, because the order is reversed
        done[name] = done.pop(name)

    for name in by_name:
        visit(name)
    return [resource for name in reversed(done) for resource in by_name[name]]
