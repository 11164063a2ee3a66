"""CloudFormation's operations as the service runs them: in the background, in dependency order, loudly.

A resource's failure names it and rolls the stack back; an update touches only what changed once everything is resolved, replaces what
cannot be changed in place, and deletes what was replaced or removed only when all else has worked.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError

from joiner_local.aws.custom_resources import CustomResourceFailed
from joiner_local.aws.intrinsics import Scope, resolve_parameters
from joiner_local.aws.resource_types import Clients, Declared, Existing, Made, PartlyMade, Registry, ResourceType
from joiner_local.aws.stacks import Output, Stack, Wish, deletion_order
from joiner_local.aws.templates import InvalidTemplate

log = logging.getLogger(__name__)

# A request for an operation is answered when it is done, at the latest after this: the CDK CLI looks again only every few seconds.
ANSWER_WITHIN = 20.0
GONE = re.compile(r"NotFound|NoSuch|NonExistent|DoesNotExist")


class OperationRefused(Exception):
    """A stack operation that cannot start: the stack does not exist, is busy, or nothing would change."""


class ResourceFailed(Exception):
    """One resource could not be made or changed."""

    def __init__(self, logical_id: str, reason: str) -> None:
        super().__init__(reason)
        self.logical_id = logical_id


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to one resource, to be undone in a rollback: made from nothing, replaced, or updated in place."""

    logical_id: str
    kind: str  # created, replaced, updated
    before: Existing | None = None


@dataclass(slots=True)
class Operation:
    """One run over one stack: what it did so far, and what it will delete in the end."""

    engine: "StackEngine"
    stack: Stack
    journal: list[Change] = field(default_factory=list)
    garbage: list[Existing] = field(default_factory=list)

    def apply(self, wish: Wish) -> None:
        """Make, change and set aside resources until they are as wished; raises `ResourceFailed` or `InvalidTemplate`."""
        template, made = wish.template, dict[str, Made]()
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

    def _realise(self, name: str, wish: Wish, scope: Scope) -> Existing:
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
                self.stack.resources[name] = Existing(existing.made, declared)  # its policies may have changed
                return self.stack.resources[name]
            return self._update(existing, declared)
        except Exception as error:
            reason = reason_of(error)
            log.warning("%s of %s (%s): %s", doing, name, resource["Type"], reason, exc_info=not isinstance(error, _EXPECTED))
            now = self.stack.resources.get(name)
            self.stack.tell(now, logical_id=name, type_=resource["Type"], status=f"{doing}_FAILED", reason=reason)
            raise ResourceFailed(name, reason) from error

    def _declared(self, name: str, wish: Wish, scope: Scope) -> Declared:
        resource = wish.template.resources[name]
        return Declared(
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

    def _create(self, declared: Declared, doing: str) -> Existing:
        type_ = self.engine.type_of(declared)
        before = self.stack.resources.get(declared.logical_id)

        def adopt(made: Made) -> Existing:
            self.journal.append(Change(declared.logical_id, "created" if before is None else "replaced", before))
            self.stack.resources[declared.logical_id] = existing = Existing(made, declared)
            return existing

        why = "Requested update requires the creation of a new physical resource" if before is not None else None
        self._tell(declared, f"{doing}_IN_PROGRESS", before, why)
        try:
            existing = adopt(type_.create(self.engine.clients, declared))
        except PartlyMade as partly:
            adopt(partly.made)
            raise
        type_.configure(self.engine.clients, existing)
        self._tell(declared, f"{doing}_COMPLETE", existing)
        return existing

    def _update(self, existing: Existing, declared: Declared) -> Existing:
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
        self._tell(declared, "UPDATE_IN_PROGRESS", existing)
        self.journal.append(Change(declared.logical_id, "updated", existing))
        # if it fails half-way, the rollback must know what was attempted
        self.stack.resources[declared.logical_id] = Existing(existing.made, declared)
        updated = self._change_in_place(existing, declared)
        self._tell(declared, "UPDATE_COMPLETE", updated)
        return updated

    def _change_in_place(self, existing: Existing, declared: Declared) -> Existing:
        type_ = self.engine.type_of(declared)
        made = existing.made if type_.update is None else type_.update(self.engine.clients, existing, declared)
        updated = self.stack.resources[declared.logical_id] = Existing(made, declared)
        if made.physical_id != existing.physical_id:  # a custom resource replaced itself
            self.garbage.append(existing)
        type_.configure(self.engine.clients, updated)
        return updated

    def undo(self) -> None:
        """Put back what the journal tells; what was made new becomes the only garbage. Raises `ResourceFailed`."""
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

    def _change_back(self, now: Existing, before: Existing) -> None:
        self._tell(before.declared, "UPDATE_IN_PROGRESS", now)
        try:
            updated = self._change_in_place(now, before.declared)
        except Exception as error:
            self._tell(before.declared, "UPDATE_FAILED", now, reason_of(error))
            raise ResourceFailed(now.declared.logical_id, reason_of(error)) from error
        self._tell(before.declared, "UPDATE_COMPLETE", updated)

    def delete(self, resources: list[Existing], *, retained: frozenset[str] = frozenset(), on_create: bool = False) -> dict[str, str]:
        """Delete resources, dependants first; returns why by logical id for those that could not be, and leaves what those need."""
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
                self._tell(declared, "DELETE_SKIPPED", resource)
            elif (reason := self._delete_one(resource)) is not None:
                failed[name] = reason
                kept.update(declared.dependencies)
                continue
            if self.stack.resources.get(name) is resource:
                del self.stack.resources[name]
        return failed

    def _delete_one(self, resource: Existing) -> str | None:
        self._tell(resource.declared, "DELETE_IN_PROGRESS", resource)
        try:
            self.engine.type_of(resource.declared).delete(self.engine.clients, resource)
        except Exception as error:
            if not (isinstance(error, ClientError) and GONE.search(error.response["Error"]["Code"])):
                reason = reason_of(error)
                log.warning("deleting %s: %s", resource.declared.logical_id, reason, exc_info=not isinstance(error, _EXPECTED))
                self._tell(resource.declared, "DELETE_FAILED", resource, reason)
                return reason
        self._tell(resource.declared, "DELETE_COMPLETE", resource)
        return None

    def _tell(self, declared: Declared, status: str, resource: Existing | None, reason: str | None = None) -> None:
        self.stack.tell(resource, logical_id=declared.logical_id, type_=declared.type, status=status, reason=reason)


@dataclass(slots=True)
class StackEngine:
    """All stacks of the local account, and the operations on them."""

    clients: Clients
    registry: Registry
    rewrite: Callable[[str], str]
    stacks: dict[str, Stack] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name_or_id: str) -> Stack:
        """By name a stack that lives, by id also one that was deleted."""
        for stack in reversed(self.stacks.values()):
            if name_or_id == stack.stack_id or (name_or_id == stack.name and stack.status != "DELETE_COMPLETE"):
                return stack
        raise OperationRefused(f"Stack with id {name_or_id} does not exist")

    def living(self, name: str) -> Stack | None:
        return next((stack for stack in self.stacks.values() if stack.name == name and stack.status != "DELETE_COMPLETE"), None)

    def exports(self, but: Stack | None = None) -> dict[str, tuple[Stack, str]]:
        living = [stack for stack in self.stacks.values() if stack is not but and stack.status != "DELETE_COMPLETE"]
        return {output.export_name: (stack, output.value) for stack in living for output in stack.outputs if output.export_name}

    def add(self, name: str, status: str) -> Stack:
        with self._lock:
            stack = Stack.named(name, status)
            self.stacks[stack.stack_id] = stack
            return stack

    def create(self, stack: Stack, wish: Wish, *, on_failure: str = "ROLLBACK") -> None:
        """Make all resources of a new stack. `on_failure`: ROLLBACK, DELETE or DO_NOTHING."""
        wish.template.check(self.registry)
        resolve_parameters(wish.template, wish.given, self.read_parameter)

        def work() -> None:
            operation = Operation(self, stack)
            try:
                operation.apply(wish)
            except (ResourceFailed, InvalidTemplate) as error:
                self._give_up_creating(operation, error, on_failure)
            else:
                stack.become("CREATE_COMPLETE")

        stack.wish = wish
        stack.become("CREATE_IN_PROGRESS", "User Initiated")
        self._run(stack, work)

    def _give_up_creating(self, operation: Operation, error: Exception, on_failure: str) -> None:
        stack, why = operation.stack, failure_text(error, "create")
        if on_failure == "DO_NOTHING":
            return stack.become("CREATE_FAILED", why)
        doing = "DELETE" if on_failure == "DELETE" else "ROLLBACK"
        stack.become(f"{doing}_IN_PROGRESS", f"{why} {doing.capitalize()} requested by user.")
        failed = operation.delete(list(stack.resources.values()), on_create=True)
        if failed:
            return stack.become(f"{doing}_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. ")
        return stack.become(f"{doing}_COMPLETE", why)

    def update(self, stack: Stack, wish: Wish, *, disable_rollback: bool = False) -> None:
        self._refuse_if_busy(stack, "updated")
        if stack.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"):
            raise OperationRefused(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        wish.template.check(self.registry)
        resolve_parameters(wish.template, wish.given, self.read_parameter)
        before = stack.wish
        if before is not None and before.identity == wish.identity and stack.status != "UPDATE_FAILED":
            raise OperationRefused("No updates are to be performed.")

        def work() -> None:
            operation = Operation(self, stack)
            outputs, parameters = stack.outputs, stack.parameters
            try:
                operation.apply(wish)
            except (ResourceFailed, InvalidTemplate) as error:
                if disable_rollback:
                    return stack.become("UPDATE_FAILED", failure_text(error, "update"))
                stack.outputs, stack.parameters = outputs, parameters
                return self._roll_back_update(operation, error)
            stack.wish = wish
            return self._clean_up(operation, "UPDATE_COMPLETE", None)

        stack.become("UPDATE_IN_PROGRESS", "User Initiated")
        self._run(stack, work)

    def _roll_back_update(self, operation: Operation, error: Exception) -> None:
        stack, why = operation.stack, failure_text(error, "update")
        stack.become("UPDATE_ROLLBACK_IN_PROGRESS", why)
        # removed resources were only set aside
        for resource in operation.garbage:
            stack.resources.setdefault(resource.declared.logical_id, resource)
        try:
            operation.undo()
        except ResourceFailed as failed:
            return stack.become("UPDATE_ROLLBACK_FAILED", failure_text(failed, "update"))
        return self._clean_up(operation, "UPDATE_ROLLBACK_COMPLETE", why)

    def _clean_up(self, operation: Operation, status: str, why: str | None) -> None:
        operation.stack.become(f"{status}_CLEANUP_IN_PROGRESS")
        operation.delete(operation.garbage)  # what cannot be deleted is left behind, as AWS does, with its event
        operation.stack.become(status, why)

    def delete(self, stack: Stack, *, retained: frozenset[str] = frozenset()) -> None:
        if stack.status == "DELETE_COMPLETE":
            return
        self._refuse_if_busy(stack, "deleted")
        if stack.protected:
            raise OperationRefused(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")

        def work() -> None:
            failed = Operation(self, stack).delete(list(stack.resources.values()), retained=retained)
            if failed:
                stack.become("DELETE_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. ")
            else:
                stack.become("DELETE_COMPLETE")
                stack.deleted = stack.events[-1].at

        stack.become("DELETE_IN_PROGRESS", "User Initiated")
        self._run(stack, work)

    def _refuse_if_busy(self, stack: Stack, what: str) -> None:
        if stack.busy:
            raise OperationRefused(f"Stack:{stack.stack_id} is in {stack.status} state and can not be {what}.")

    def _run(self, stack: Stack, work: Callable[[], None]) -> None:
        stack.idle.clear()

        def run() -> None:
            try:
                work()
            except Exception as error:
                log.exception("stack %s", stack.name)
                stack.become(stack.status.replace("_IN_PROGRESS", "_FAILED"), f"the local AWS broke: {type(error).__name__}: {error}")
            finally:
                stack.updated = stack.events[-1].at
                stack.idle.set()

        threading.Thread(target=run, daemon=True, name=f"stack-{stack.name}").start()
        stack.idle.wait(ANSWER_WITHIN)

    def type_of(self, declared: Declared) -> ResourceType:
        found = self.registry.of(declared.type)
        assert found is not None, "the template was checked"
        return found

    def scope(self, stack: Stack, wish: Wish, parameters: Mapping[str, Any], made: Mapping[str, Made]) -> Scope:
        return Scope(
            template=wish.template,
            stack_name=stack.name,
            stack_id=stack.stack_id,
            parameters=parameters,
            resources=made,
            exports={name: value for name, (_, value) in self.exports(but=stack).items()},
            read_parameter=self.read_parameter,
            rewrite=self.rewrite,
        )

    def outputs(self, wish: Wish, scope: Scope, stack: Stack) -> tuple[Output, ...]:
        taken = self.exports(but=stack)
        made = []
        for key, declared in wish.template.section("Outputs").items():
            if not scope.wants(declared):
                continue
            export = scope.resolve(declared["Export"]["Name"]) if "Export" in declared else None
            if export in taken:
                raise InvalidTemplate(f"Export with name {export} is already exported by stack {taken[export][0].name}.")
            made.append(Output(key, str(scope.resolve(declared["Value"])), declared.get("Description"), export))
        return tuple(made)

    def read_parameter(self, name: str) -> str:
        try:
            value: str = self.clients["ssm"].get_parameter(Name=name)["Parameter"]["Value"]
        except ClientError as error:
            raise InvalidTemplate(f"Unable to fetch parameters [{name}] from parameter store for this account.") from error
        return value


# What a template or a service may do wrong; anything else is a fault of ours, and its traceback goes to the log.
_EXPECTED = (ClientError, ParamValidationError, InvalidTemplate, PartlyMade, CustomResourceFailed)


def reason_of(error: BaseException) -> str:
    """What a resource's event says: the service's own words, and for a fault of ours its kind."""
    if isinstance(error, ClientError):
        answer = error.response
        return f"{answer['Error'].get('Message')} (Service: {error.operation_name}, {answer['Error'].get('Code')})"
    return str(error) if isinstance(error, _EXPECTED) else f"{type(error).__name__}: {error}"


def failure_text(error: Exception, verb: str) -> str:
    return f"The following resource(s) failed to {verb}: [{error.logical_id}]." if isinstance(error, ResourceFailed) else str(error)
