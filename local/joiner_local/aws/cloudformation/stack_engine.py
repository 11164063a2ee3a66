"""CloudFormation's operations as the service runs them: in the background and in dependency order.

The failure of a resource names it and rolls the stack back. An update changes only what differs after everything is
resolved, replaces what cannot be updated in place, and deletes replaced or removed resources only when everything else
has succeeded.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from joiner_local.aws.cloudformation.intrinsic_functions import TemplateScope, resolve_parameters
from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ResourceType,
    ResourceTypeRegistry,
    ServiceClients,
)
from joiner_local.aws.cloudformation.stack_changes import ResourceFailed, StackOperation
from joiner_local.aws.cloudformation.stack_templates import InvalidTemplate
from joiner_local.aws.cloudformation.stacks import CloudFormationStack, StackOutput, StackRequest

log = logging.getLogger(__name__)

# Longest time in seconds before a request for an operation is answered; the CDK command line polls only every few
# seconds.
ANSWER_WITHIN = 20.0


class OperationRefused(Exception):
    """A stack operation cannot start: the stack does not exist, is busy, or nothing would change."""


@dataclass(slots=True)
class StackEngine:
    """All stacks of the local account, and the operations on them."""

    clients: ServiceClients
    registry: ResourceTypeRegistry
    rewrite: Callable[[str], str]
    stacks: dict[str, CloudFormationStack] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name_or_id: str) -> CloudFormationStack:
        """Return an existing stack by name, or any stack by id."""
        for stack in reversed(list(self.stacks.values())):  # other requests add some meanwhile
            if name_or_id == stack.stack_id or (name_or_id == stack.name and stack.status != "DELETE_COMPLETE"):
                return stack
        raise OperationRefused(f"Stack with id {name_or_id} does not exist")

    def living(self, name: str) -> CloudFormationStack | None:
        return next(
            (each for each in list(self.stacks.values()) if each.name == name and each.status != "DELETE_COMPLETE"),
            None,
        )

    def exports(self, but: CloudFormationStack | None = None) -> dict[str, tuple[CloudFormationStack, str]]:
        living = [
            stack for stack in list(self.stacks.values()) if stack is not but and stack.status != "DELETE_COMPLETE"
        ]
        return {
            output.export_name: (stack, output.value)
            for stack in living
            for output in stack.outputs
            if output.export_name
        }

    def add(self, name: str, status: str) -> CloudFormationStack:
        with self._lock:
            stack = CloudFormationStack.named(name, status)
            self.stacks[stack.stack_id] = stack
            return stack

    def create(self, stack: CloudFormationStack, wish: StackRequest, *, on_failure: str = "ROLLBACK") -> None:
        """Create all resources of a new stack. `on_failure`: ROLLBACK, DELETE or DO_NOTHING."""
        wish.template.check(self.registry)
        resolve_parameters(wish.template, wish.given, self.read_parameter)

        def work() -> None:
            operation = StackOperation(self, stack)
            try:
                operation.apply(wish)
            except (ResourceFailed, InvalidTemplate) as error:
                self._give_up_creating(operation, error, on_failure)
            else:
                stack.become("CREATE_COMPLETE")

        stack.wish = wish
        stack.become("CREATE_IN_PROGRESS", "User Initiated")
        self._run(stack, work)

    def _give_up_creating(self, operation: StackOperation, error: Exception, on_failure: str) -> None:
        stack, why = operation.stack, failure_text(error, "create")
        if on_failure == "DO_NOTHING":
            return stack.become("CREATE_FAILED", why)
        doing = "DELETE" if on_failure == "DELETE" else "ROLLBACK"
        stack.become(f"{doing}_IN_PROGRESS", f"{why} {doing.capitalize()} requested by user.")
        failed = operation.delete(list(stack.resources.values()), on_create=True)
        if failed:
            return stack.become(
                f"{doing}_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. "
            )
        return stack.become(f"{doing}_COMPLETE", why)

    def update(self, stack: CloudFormationStack, wish: StackRequest, *, disable_rollback: bool = False) -> None:
        self._refuse_if_busy(stack, "updated")
        if stack.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"):
            raise OperationRefused(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        wish.template.check(self.registry)
        resolve_parameters(wish.template, wish.given, self.read_parameter)
        before = stack.wish
        if before is not None and before.identity == wish.identity and stack.status != "UPDATE_FAILED":
            raise OperationRefused("No updates are to be performed.")

        def work() -> None:
            operation = StackOperation(self, stack)
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

    def _roll_back_update(self, operation: StackOperation, error: Exception) -> None:
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

    def _clean_up(self, operation: StackOperation, status: str, why: str | None) -> None:
        operation.stack.become(f"{status}_CLEANUP_IN_PROGRESS")
        operation.delete(operation.garbage)  # a resource that cannot be deleted is kept, with an event, as on AWS
        operation.stack.become(status, why)

    def delete(self, stack: CloudFormationStack, *, retained: frozenset[str] = frozenset()) -> None:
        if stack.status == "DELETE_COMPLETE":
            return
        self._refuse_if_busy(stack, "deleted")
        if stack.protected:
            raise OperationRefused(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")

        def work() -> None:
            failed = StackOperation(self, stack).delete(list(stack.resources.values()), retained=retained)
            if failed:
                stack.become("DELETE_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. ")
            else:
                stack.become("DELETE_COMPLETE")
                stack.deleted = stack.events[-1].at

        stack.become("DELETE_IN_PROGRESS", "User Initiated")
        self._run(stack, work)

    def _refuse_if_busy(self, stack: CloudFormationStack, what: str) -> None:
        if stack.busy:
            raise OperationRefused(f"Stack:{stack.stack_id} is in {stack.status} state and can not be {what}.")

    def _run(self, stack: CloudFormationStack, work: Callable[[], None]) -> None:
        stack.idle.clear()

        def run() -> None:
            try:
                work()
            except Exception as error:
                log.exception("stack %s", stack.name)
                stack.become(
                    stack.status.replace("_IN_PROGRESS", "_FAILED"),
                    f"the local AWS broke: {type(error).__name__}: {error}",
                )
            finally:
                stack.updated = stack.events[-1].at
                stack.idle.set()

        threading.Thread(target=run, daemon=True, name=f"stack-{stack.name}").start()
        stack.idle.wait(ANSWER_WITHIN)

    def type_of(self, declared: DeclaredResource) -> ResourceType:
        found = self.registry.of(declared.type)
        assert found is not None, "the template was checked"
        return found

    def scope(
        self,
        stack: CloudFormationStack,
        wish: StackRequest,
        parameters: Mapping[str, Any],
        made: Mapping[str, CreatedResource],
    ) -> TemplateScope:
        return TemplateScope(
            template=wish.template,
            stack_name=stack.name,
            stack_id=stack.stack_id,
            parameters=parameters,
            resources=made,
            exports={name: value for name, (_, value) in self.exports(but=stack).items()},
            read_parameter=self.read_parameter,
            rewrite=self.rewrite,
        )

    def outputs(self, wish: StackRequest, scope: TemplateScope, stack: CloudFormationStack) -> tuple[StackOutput, ...]:
        taken = self.exports(but=stack)
        made = []
        for key, declared in wish.template.section("Outputs").items():
            if not scope.wants(declared):
                continue
            export = scope.resolve(declared["Export"]["Name"]) if "Export" in declared else None
            if export in taken:
                raise InvalidTemplate(
                    f"Export with name {export} is already exported by stack {taken[export][0].name}."
                )
            made.append(StackOutput(key, str(scope.resolve(declared["Value"])), declared.get("Description"), export))
        return tuple(made)

    def read_parameter(self, name: str) -> str:
        try:
            value: str = self.clients["ssm"].get_parameter(Name=name)["Parameter"]["Value"]
        except ClientError as error:
            raise InvalidTemplate(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error
        return value


def failure_text(error: Exception, verb: str) -> str:
    return (
        f"The following resource(s) failed to {verb}: [{error.logical_id}]."
        if isinstance(error, ResourceFailed)
        else str(error)
    )
