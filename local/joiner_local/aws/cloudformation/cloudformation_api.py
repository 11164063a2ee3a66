"""CloudFormation's API in front of our own stack engine: the operations that the CDK command line and boto3 use.

moto parses requests and writes responses. Its own CloudFormation is not used: it creates resources lazily within
requests and in template order, ignores unknown types, and returns Python errors as HTTP 500, which the command line
retries for 50 s.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from moto.cloudformation.exceptions import CloudFormationError
from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.cloudformation.custom_resources import PATH, CustomResources
from joiner_local.aws.cloudformation.intrinsic_functions import resolve_parameters
from joiner_local.aws.cloudformation.object_urls import bucket_and_key
from joiner_local.aws.cloudformation.resource_types import ResourceTypeRegistry, ServiceClients
from joiner_local.aws.cloudformation.resources.supported_types import SUPPORTED_TYPES
from joiner_local.aws.cloudformation.stack_descriptions import (
    change_set_summary,
    event_description,
    pairs,
    parameter_slots,
    resource_description,
    stack_description,
    stack_summary,
)
from joiner_local.aws.cloudformation.stack_engine import OperationRefused, StackEngine
from joiner_local.aws.cloudformation.stack_templates import InvalidTemplate, StackTemplate, changed_resources
from joiner_local.aws.cloudformation.stacks import ChangeSet, CloudFormationStack, StackRequest
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws

LARGEST_BODY = 51_200  # bytes of a template within a request
LARGEST_TEMPLATE = 1_000_000  # bytes of a template in S3

log = logging.getLogger(__name__)

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


def install(aws: LocalAws, rewrite: Callable[[str], str]) -> None:
    """Replace moto's CloudFormation. `rewrite` maps every string that a template's functions return, to replace AWS
    addresses in it.
    """
    from moto.cloudformation import urls

    clients = ServiceClients(aws.endpoint)
    custom = CustomResources(clients)
    aws.add_path(PATH, custom)

    CloudFormationApi.engine = StackEngine(
        clients, ResourceTypeRegistry([*SUPPORTED_TYPES, custom.resource_type()]), rewrite
    )
    replace_attribute(urls, "url_paths", {"{0}/$": CloudFormationApi.dispatch})
    threading.Thread(target=_warm, args=(clients,), daemon=True, name="warm-up").start()


# The first call of a service takes 50 to 500 ms to load models and applications. These calls run before a deployment.
FIRST_CALLS = {
    "iam": "list_roles",
    "lambda": "list_functions",
    "s3": "list_buckets",
    "logs": "describe_log_groups",
    "sqs": "list_queues",
    "dynamodb": "list_tables",
    "stepfunctions": "list_state_machines",
    "events": "list_rules",
    "apigatewayv2": "get_apis",
    "scheduler": "list_schedules",
    "cloudwatch": "describe_alarms",
    "eks": "list_clusters",
    "ssm": "describe_parameters",
    "sns": "list_topics",
    "cloudformation": "list_stacks",
    "sts": "get_caller_identity",
}


def _warm(clients: ServiceClients) -> None:
    for service, operation in FIRST_CALLS.items():
        try:
            getattr(clients[service], operation)()
        except Exception:
            log.exception("%s %s", service, operation)


class CloudFormationApi(BaseResponse):  # type: ignore[misc] # moto has no types
    """One request. Each public method is an operation of the API, by its name in snake case."""

    engine: ClassVar[StackEngine]

    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    def call_action(self) -> Any:
        """Return every error as a response with a text: the command line retries an HTML page with status 500."""
        try:
            return super().call_action()
        except (OperationRefused, InvalidTemplate) as error:
            failure = CloudFormationError("ValidationError", str(error))
        except NotImplementedError:
            failure = CloudFormationError(
                "ValidationError", f"the local AWS's CloudFormation has no {self._get_action()}"
            )
        except Exception as error:
            log.exception("%s", self._get_action())
            failure = CloudFormationError("ValidationError", f"the local AWS broke: {type(error).__name__}: {error}")
        return self.serialized(ActionResult(failure))

    # -- stacks

    def create_stack(self) -> ActionResult:
        """Create a stack. CloudFormation refuses a name in use, and a template or parameters with mistakes."""
        name, wish = self._get_param("StackName"), self._wish(None)
        if self.engine.living(name) is not None:
            raise CloudFormationError("AlreadyExistsException", f"Stack [{name}] already exists")
        wish.template.check(self.engine.registry)
        stack = self.engine.add(name, "CREATE_IN_PROGRESS")
        self._note_options(stack)
        stack.protected = bool(self._get_bool_param("EnableTerminationProtection"))
        on_failure = (
            "DO_NOTHING" if self._get_bool_param("DisableRollback") else self._get_param("OnFailure") or "ROLLBACK"
        )
        try:
            self.engine.create(stack, wish, on_failure=on_failure)
        except InvalidTemplate:
            del self.engine.stacks[stack.stack_id]
            raise
        return ActionResult({"StackId": stack.stack_id})

    def update_stack(self) -> ActionResult:
        """Update a stack. An unchanged template with unchanged parameters is refused."""
        stack = self._stack()
        wish = self._wish(stack)
        self._note_options(stack)
        self.engine.update(stack, wish, disable_rollback=bool(self._get_bool_param("DisableRollback")))
        return ActionResult({"StackId": stack.stack_id})

    def delete_stack(self) -> ActionResult:
        """Delete a stack. A stack that does not exist is no error; one with termination protection is refused."""
        try:
            stack = self._stack()
        except OperationRefused:
            return EmptyResult()  # AWS: deletion of a stack that does not exist succeeds
        self.engine.delete(stack, retained=frozenset(self._get_param("RetainResources") or ()))
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        """Switch the termination protection of a stack."""
        stack = self._stack()
        stack.protected = bool(self._get_bool_param("EnableTerminationProtection"))
        return ActionResult({"StackId": stack.stack_id})

    def describe_stacks(self) -> ActionResult:
        """Return one stack, or all that are not deleted."""
        if self._get_param("StackName"):
            return ActionResult({"Stacks": [stack_description(self._stack())]})
        living = [stack for stack in list(self.engine.stacks.values()) if stack.status != "DELETE_COMPLETE"]
        return ActionResult({"Stacks": [stack_description(stack) for stack in living]})

    def list_stacks(self) -> ActionResult:
        """Return summaries of stacks, deleted ones included."""
        wanted = self._get_param("StackStatusFilter") or []
        stacks = [stack for stack in list(self.engine.stacks.values()) if not wanted or stack.status in wanted]
        return ActionResult({"StackSummaries": [stack_summary(stack) for stack in stacks]})

    def describe_stack_events(self) -> ActionResult:
        """Return the events of a stack, newest first."""
        stack = self._stack()
        return ActionResult({"StackEvents": [event_description(stack, event) for event in reversed(stack.events)]})

    def describe_stack_resources(self) -> ActionResult:
        """Return all resources of a stack, or the named one."""
        stack, name = self._stack(), self._get_param("LogicalResourceId")
        return ActionResult(
            {"StackResources": [resource_description(stack, each) for each in stack.resources if name in (None, each)]}
        )

    def describe_stack_resource(self) -> ActionResult:
        """Return one resource of a stack; one that does not exist is refused."""
        stack, name = self._stack(), self._get_param("LogicalResourceId")
        if name not in stack.resources:
            raise OperationRefused(f"Resource {name} does not exist for stack {stack.name}")
        return ActionResult({"StackResourceDetail": resource_description(stack, name)})

    def list_stack_resources(self) -> ActionResult:
        """Return summaries of the resources of a stack."""
        stack = self._stack()
        return ActionResult({"StackResourceSummaries": [resource_description(stack, name) for name in stack.resources]})

    def list_exports(self) -> ActionResult:
        """Return the exported outputs of all stacks."""
        exports = self.engine.exports()
        found = [
            {"Name": name, "Value": value, "ExportingStackId": stack.stack_id}
            for name, (stack, value) in exports.items()
        ]
        return ActionResult({"Exports": found})

    # -- templates

    def get_template(self) -> ActionResult:
        """Return the template of a stack as it was sent."""
        stack = self._stack()
        text = stack.wish.template.text if stack.wish is not None else "{}"
        return ActionResult({"TemplateBody": text, "StagesAvailable": ["Original", "Processed"]})

    def get_template_summary(self) -> ActionResult:
        """Return the parameters and resource types of a stack's template, or of one in the request."""
        stack = self._stack() if self._get_param("StackName") else None
        template = stack.wish.template if stack is not None and stack.wish is not None else self._template(None)
        parameters = parameter_slots(template)
        types = sorted({resource["Type"] for resource in template.resources.values()})
        return ActionResult({"Parameters": parameters, "ResourceTypes": types, "Description": template.description})

    def validate_template(self) -> ActionResult:
        """Check a template, and return its parameters."""
        template = self._template(None)
        template.check(self.engine.registry)
        return ActionResult({"Parameters": parameter_slots(template), "Description": template.description})

    # -- change sets

    def create_change_set(self) -> ActionResult:
        """Create a change set. Changes of type IMPORT are refused here."""
        kind, name = self._get_param("ChangeSetType") or "UPDATE", self._get_param("StackName")
        if kind == "IMPORT":
            raise OperationRefused("the local AWS imports no resources")
        stack = self.engine.living(name) if kind == "CREATE" else self._stack()
        if kind == "CREATE" and stack is not None and stack.status != "REVIEW_IN_PROGRESS":
            why = f"Stack [{name}] already exists and cannot be created again with the changeSet."
            raise CloudFormationError("AlreadyExistsException", why)
        wish = self._wish(stack)
        wish.template.check(self.engine.registry)
        if stack is None:
            stack = self.engine.add(name, "REVIEW_IN_PROGRESS")
            stack.become("REVIEW_IN_PROGRESS", "User Initiated")
        self._note_options(stack)
        change_set = self._change_set(stack, wish, kind)
        stack.change_sets[change_set.name] = change_set
        return ActionResult({"Id": change_set.id, "StackId": stack.stack_id})

    def _change_set(self, stack: CloudFormationStack, wish: StackRequest, kind: str) -> ChangeSet:
        name = self._get_param("ChangeSetName")
        resolve_parameters(wish.template, wish.given, self.engine.read_parameter)
        before = stack.wish
        if before is None:
            changes = tuple(("Add", each, resource["Type"]) for each, resource in wish.template.resources.items())
        else:
            changes = tuple(changed_resources(before.template, wish.template))
        change_set = ChangeSet(
            id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:changeSet/{name}/{uuid.uuid4()}",
            name=name,
            kind=kind,
            wish=wish,
            changes=changes,
            description=self._get_param("Description"),
        )
        if before is not None and before.identity == wish.identity:
            change_set.status, change_set.execution_status, change_set.reason = "FAILED", "UNAVAILABLE", NO_CHANGES
        return change_set

    def describe_change_set(self) -> ActionResult:
        """Return the changes of a change set, and whether it can be executed."""
        stack, change_set = self._found_change_set()
        changes = [
            {"Type": "Resource", "ResourceChange": {"Action": action, "LogicalResourceId": name, "ResourceType": type_}}
            for action, name, type_ in change_set.changes
        ]
        return ActionResult(
            {
                **change_set_summary(stack, change_set),
                "Parameters": pairs(change_set.wish.given, "ParameterKey", "ParameterValue"),
                "Tags": pairs(change_set.wish.tags),
                "Capabilities": list(stack.capabilities),
                "Changes": changes,
            }
        )

    def list_change_sets(self) -> ActionResult:
        """Return summaries of the change sets of a stack."""
        stack = self._stack()
        return ActionResult(
            {"Summaries": [change_set_summary(stack, change_set) for change_set in list(stack.change_sets.values())]}
        )

    def delete_change_set(self) -> ActionResult:
        """Delete a change set; one that does not exist is no error."""
        try:
            stack, change_set = self._found_change_set()
        except CloudFormationError:
            return EmptyResult()
        del stack.change_sets[change_set.name]
        return EmptyResult()

    def execute_change_set(self) -> ActionResult:
        """Execute a change set. One that is not available is refused."""
        stack, change_set = self._found_change_set()
        if change_set.execution_status != "AVAILABLE":
            raise CloudFormationError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of [{change_set.status}]",
            )
        if self._get_bool_param("DisableRollback"):
            stack.rollback_disabled = True
        change_set.execution_status = "EXECUTE_COMPLETE"
        stack.change_sets.clear()  # execution of one removes all change sets of the stack
        if change_set.kind == "CREATE":
            self.engine.create(
                stack, change_set.wish, on_failure="DO_NOTHING" if stack.rollback_disabled else "ROLLBACK"
            )
        else:
            self.engine.update(stack, change_set.wish, disable_rollback=stack.rollback_disabled)
        return EmptyResult()

    def _found_change_set(self) -> tuple[CloudFormationStack, ChangeSet]:
        wanted, stack_name = self._get_param("ChangeSetName"), self._get_param("StackName")
        stacks = [self._stack()] if stack_name else list(self.engine.stacks.values())
        for stack in stacks:
            for change_set in list(stack.change_sets.values()):
                if wanted in (change_set.name, change_set.id):
                    return stack, change_set
        # the command line waits for exactly this code
        raise CloudFormationError("ChangeSetNotFound", f"ChangeSet [{wanted}] does not exist")

    # -- parameters of requests

    def _stack(self) -> CloudFormationStack:
        return self.engine.find(self._get_param("StackName"))

    def _note_options(self, stack: CloudFormationStack) -> None:
        stack.role_arn = self._get_param("RoleARN") or stack.role_arn
        stack.capabilities = tuple(self._get_param("Capabilities") or ())
        stack.notification_arns = tuple(self._get_param("NotificationARNs") or ())

    def _wish(self, stack: CloudFormationStack | None) -> StackRequest:
        before = stack.wish if stack is not None else None
        template = self._template(before)
        tags = self._get_param("Tags")
        given = {}
        for parameter in self._get_param("Parameters") or []:
            key = parameter["ParameterKey"]
            if parameter.get("UsePreviousValue"):
                # the given value, not the value that an SSM parameter was resolved to; without one, the default
                if before is not None and key in before.given:
                    given[key] = before.given[key]
            else:
                given[key] = parameter.get("ParameterValue", "")
        wanted = (
            {tag["Key"]: tag["Value"] for tag in tags}
            if tags is not None
            else dict(before.tags)
            if before is not None
            else {}
        )
        return StackRequest(template, given, wanted)

    def _template(self, before: StackRequest | None) -> StackTemplate:
        if self._get_bool_param("UsePreviousTemplate") and before is not None:
            return before.template
        body, url = self._get_param("TemplateBody"), self._get_param("TemplateURL")
        if bool(body) == bool(url):
            raise OperationRefused("Either Template URL or Template Body must be specified.")
        if len((body or "").encode()) > LARGEST_BODY:
            raise OperationRefused(
                "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
                f"Member must have length less than or equal to {LARGEST_BODY}"
            )
        return StackTemplate.parse(body or self._fetched(url))

    def _fetched(self, url: str) -> str:
        bucket, key = bucket_and_key(url)
        s3 = self.engine.clients["s3"]
        try:
            text: str = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
        except s3.exceptions.ClientError as error:
            raise OperationRefused(f"S3 error: {error} ({url})") from error
        if len(text.encode()) > LARGEST_TEMPLATE:
            raise OperationRefused(f"Template may not exceed {LARGEST_TEMPLATE} bytes in size.")
        return text
