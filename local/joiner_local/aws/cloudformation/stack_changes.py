"""One stack operation on its resources: create, update, set aside, restore, delete.

A journal records every change, so that a rollback can undo it. Replaced or removed resources are deleted only when
everything else has succeeded.
"""

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, ParamValidationError

from joiner_local.aws.cloudformation.custom_resources import CustomResourceFailed
from joiner_local.aws.cloudformation.intrinsic_functions import TemplateScope, resolve_parameters
from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    PartlyCreated,
)
from joiner_local.aws.cloudformation.stack_templates import InvalidTemplate
from joiner_local.aws.cloudformation.stacks import CloudFormationStack, StackRequest, deletion_order

if TYPE_CHECKING:
    from joiner_local.aws.cloudformation.stack_engine import StackEngine

log = logging.getLogger(__name__)

GONE = re.compile(r"NotFound|NoSuch|NonExistent|DoesNotExist")


class ResourceFailed(Exception):
    """One resource could not be created or updated."""

    def __init__(self, logical_id: str, reason: str) -> None:
        super().__init__(reason)
        self.logical_id = logical_id


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change of one resource, for a rollback: created, replaced, or updated in place."""

    logical_id: str
    kind: str  # created, replaced, updated
    before: ExistingResource | None = None


@dataclass(slots=True)
class StackOperation:
    """One operation on one stack: its changes so far, and the resources to delete at its end."""

    engine: "StackEngine"
    stack: CloudFormationStack
    journal: list[ResourceChange] = field(default_factory=list)
    garbage: list[ExistingResource] = field(default_factory=list)

    def apply(self, wish: StackRequest) -> None:
        """Create, update and set aside resources until they match the request. Raises `ResourceFailed` or
        `InvalidTemplate`.
        """
        template, made = wish.template, dict[str, CreatedResource]()
        parameters = resolve_parameters(template, wish.given, self.engine.read_parameter)
        scope = self.engine.scope(self.stack, wish, parameters, made)
        scope.check_rules()
        for name in template.order:
            if scope.wants(template.resources[name]):
                made[name] = self._realise(name, wish, scope).made
        for name in [name for name in self.stack.resources if name not in made]:
            self.garbage.append(self.stack.resources.pop(name))
        self.stack.outputs = self.engine.outputs(wish, scope, self.stack)
        self.stack.parameters = parameters

    def _realise(self, name: str, wish: StackRequest, scope: TemplateScope) -> ExistingResource:
        resource = wish.template.resources[name]
        existing = self.stack.resources.get(name)
        doing = "CREATE" if existing is None else "UPDATE"
        try:
            declared = self._declared(name, wish, scope)
            if existing is not None and existing.declared.type != declared.type:
                raise InvalidTemplate(f"Update of resource type is not permitted (was {existing.declared.type}).")
            if existing is None:
                return self._create(declared, "CREATE")
            if existing.properties == declared.properties and existing.declared.stack_tags == declared.stack_tags:
                self.stack.resources[name] = ExistingResource(existing.made, declared)  # its policies may have changed
                return self.stack.resources[name]
            return self._update(existing, declared)
        except Exception as error:
            reason = reason_of(error)
            log.warning(
                "%s of %s (%s): %s", doing, name, resource["Type"], reason, exc_info=not isinstance(error, _EXPECTED)
            )
            now = self.stack.resources.get(name)
            self.stack.add_event(now, logical_id=name, type_=resource["Type"], status=f"{doing}_FAILED", reason=reason)
            raise ResourceFailed(name, reason) from error

    def _declared(self, name: str, wish: StackRequest, scope: TemplateScope) -> DeclaredResource:
        resource = wish.template.resources[name]
        return DeclaredResource(
            logical_id=name,
            type=resource["Type"],
            properties=scope.resolve(resource.get("Properties") or {}),
            stack_name=self.stack.name,
            stack_id=self.stack.stack_id,
            stack_tags=dict(wish.tags),
            dependencies=tuple(wish.template.dependencies(name)),
            deletion_policy=resource.get("DeletionPolicy", "Delete"),
            replace_policy=resource.get("UpdateReplacePolicy", "Delete"),
        )

    def _create(self, declared: DeclaredResource, doing: str) -> ExistingResource:
        type_ = self.engine.type_of(declared)
        before = self.stack.resources.get(declared.logical_id)

        def adopt(made: CreatedResource) -> ExistingResource:
            self.journal.append(
                ResourceChange(declared.logical_id, "created" if before is None else "replaced", before)
            )
            self.stack.resources[declared.logical_id] = existing = ExistingResource(made, declared)
            return existing

        why = "Requested update requires the creation of a new physical resource" if before is not None else None
        self._record_event(declared, f"{doing}_IN_PROGRESS", before, why)
        try:
            existing = adopt(type_.create(self.engine.clients, declared))
        except PartlyCreated as partly:
            adopt(partly.made)
            raise
        type_.configure(self.engine.clients, existing)
        self._record_event(declared, f"{doing}_COMPLETE", existing)
        return existing

    def _update(self, existing: ExistingResource, declared: DeclaredResource) -> ExistingResource:
        type_ = self.engine.type_of(declared)
        if type_.needs_replacement(existing.properties, declared.properties):
            named = declared.properties.get(type_.named_by) if type_.named_by else None
            if named is not None and named == existing.properties.get(type_.named_by):
                raise InvalidTemplate(
                    "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                    f"Rename {named} and update the stack again."
                )
            renewed = self._create(declared, "UPDATE")
            if existing.declared.replace_policy == "Delete":
                self.garbage.append(existing)
            return renewed
        self._record_event(declared, "UPDATE_IN_PROGRESS", existing)
        self.journal.append(ResourceChange(declared.logical_id, "updated", existing))
        # if it fails half-way, the rollback must know what was attempted
        self.stack.resources[declared.logical_id] = ExistingResource(existing.made, declared)
        updated = self._change_in_place(existing, declared)
        self._record_event(declared, "UPDATE_COMPLETE", updated)
        return updated

    def _change_in_place(self, existing: ExistingResource, declared: DeclaredResource) -> ExistingResource:
        type_ = self.engine.type_of(declared)
        made = existing.made if type_.update is None else type_.update(self.engine.clients, existing, declared)
        updated = self.stack.resources[declared.logical_id] = ExistingResource(made, declared)
        if made.physical_id != existing.physical_id:  # a custom resource replaced itself
            self.garbage.append(existing)
        type_.configure(self.engine.clients, updated)
        return updated

    def undo(self) -> None:
        """Restore what the journal records; only resources that this operation created remain to be deleted. Raises
        `ResourceFailed`.
        """
        self.garbage.clear()
        for change in reversed(self.journal):
            now = self.stack.resources[change.logical_id]
            if change.before is None:
                self.garbage.append(self.stack.resources.pop(change.logical_id))
            elif change.kind == "replaced":
                self.garbage.append(now)
                self.stack.resources[change.logical_id] = change.before
            else:
                self._change_back(now, change.before)

    def _change_back(self, now: ExistingResource, before: ExistingResource) -> None:
        self._record_event(before.declared, "UPDATE_IN_PROGRESS", now)
        try:
            updated = self._change_in_place(now, before.declared)
        except Exception as error:
            self._record_event(before.declared, "UPDATE_FAILED", now, reason_of(error))
            raise ResourceFailed(now.declared.logical_id, reason_of(error)) from error
        self._record_event(before.declared, "UPDATE_COMPLETE", updated)

    def delete(
        self, resources: list[ExistingResource], *, retained: frozenset[str] = frozenset(), on_create: bool = False
    ) -> dict[str, str]:
        """Delete resources, dependants first. Returns the reason by logical id for those that could not be deleted;
        keeps what those need.
        """
        failed: dict[str, str] = {}
        kept: set[str] = set()
        for resource in deletion_order(resources):
            declared = resource.declared
            name = declared.logical_id
            if name in kept:
                kept.update(declared.dependencies)
                continue
            policy = declared.deletion_policy
            if name in retained or policy == "Retain" or (policy == "RetainExceptOnCreate" and not on_create):
                self._record_event(declared, "DELETE_SKIPPED", resource)
            elif (reason := self._delete_one(resource)) is not None:
                failed[name] = reason
                kept.update(declared.dependencies)
                continue
            if self.stack.resources.get(name) is resource:
                del self.stack.resources[name]
        return failed

    def _delete_one(self, resource: ExistingResource) -> str | None:
        self._record_event(resource.declared, "DELETE_IN_PROGRESS", resource)
        try:
            self.engine.type_of(resource.declared).delete(self.engine.clients, resource)
        except Exception as error:
            if not (isinstance(error, ClientError) and GONE.search(error.response["Error"]["Code"])):
                reason = reason_of(error)
                log.warning(
                    "deleting %s: %s", resource.declared.logical_id, reason, exc_info=not isinstance(error, _EXPECTED)
                )
                self._record_event(resource.declared, "DELETE_FAILED", resource, reason)
                return reason
        self._record_event(resource.declared, "DELETE_COMPLETE", resource)
        return None

    def _record_event(
        self, declared: DeclaredResource, status: str, resource: ExistingResource | None, reason: str | None = None
    ) -> None:
        self.stack.add_event(
            resource, logical_id=declared.logical_id, type_=declared.type, status=status, reason=reason
        )


# Errors of templates and services; anything else is an error of this program, and its traceback goes to the log.
_EXPECTED = (ClientError, ParamValidationError, InvalidTemplate, PartlyCreated, CustomResourceFailed)


def reason_of(error: BaseException) -> str:
    """Return the text of a resource's event: the service's message, and for an error of this program also its class."""
    if isinstance(error, ClientError):
        answer = error.response
        return f"{answer['Error'].get('Message')} (Service: {error.operation_name}, {answer['Error'].get('Code')})"
    return str(error) if isinstance(error, _EXPECTED) else f"{type(error).__name__}: {error}"
