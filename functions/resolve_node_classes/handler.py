"""Resolve node classes: read from EC2 what each class of a pool selects: subnets, security groups, images, instance
profile.

`joiner.launching.resolve` decides what the answers mean. A class with a missing part is refused with a remedy, which
the next function writes to the class's status. The other classes are used.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from functions.resolve_node_classes.class_lookups import ClassLookups
from functions.resolve_node_classes.due_validations import KnownClass, put_due_validations
from joiner.adapters import documents, environment, sweep_documents
from joiner.adapters.documents import KeptSnapshot
from joiner.adapters.ec2_client import Ec2, Parameters
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, NoAnswer
from joiner.adapters.instance_profiles import InstanceProfiles
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each, call_each_in_time
from joiner.adapters.payload import ClusterFacts, Task
from joiner.adapters.shared_calls import AnswerMemory, SharedCalls
from joiner.adapters.store import Store
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.launching.node_class_queries import build_queries
from joiner.launching.node_class_resolution import refuse_after_defect, refuse_after_lookup, resolve_node_class
from joiner.launching.user_launch_templates import (
    explain_absence,
    find_content_problems,
    refuse_template,
)
from joiner.lifecycle.immediate_terminations import hold_class_back
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.pools import LaunchTemplateVersion, NodeClass, NodeClassProblem, ResolvedNodeClass, complete_class
from joiner.pools.resolved_node_class import digest_free_addresses

logger = Logger()
SHOWN: Final = 200
"""Characters of a defect that the condition of a class has; the log has all."""

MEMORY: Final = AnswerMemory()
"""Lives as long as the sandbox: a scale-up within a minute of another does not ask EC2 and SSM the same again."""

environment.prepare_clients("dynamodb", "ec2", "s3", "ssm")


class NodeClassResolver:
    """All classes of one snapshot; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        *,
        ec2: Ec2,
        parameters: Parameters,
        profiles: InstanceProfiles,
        ceilings: NodeClassPolicy,
        overhead_price: float = 0.0,
        time_left: TimeLeft = UNBOUNDED,
        validates: bool = True,
        memory: AnswerMemory | None = None,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._ec2 = ec2
        self._parameters = parameters
        self._profiles = profiles
        self._ceilings = ceilings
        self._overhead_price = overhead_price
        self._time_left = time_left
        self._validates = validates
        self._memory = memory or AnswerMemory()

    def answer(
        self, task: Task, snapshot: str, now: datetime, lease_until: int, *, every: bool = False
    ) -> dict[str, Any]:
        """Return ``{"classes", "ready", "refused", "validation"}``; the last is the key of the launches to try.

        With ``every``, classes that no pool names are resolved, too, as far as time and EC2 allow: they must not keep
        the others from an answer. Raises LeaseLost if it is called under the lease and another execution holds it now.
        """
        if task.lease_number:
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        ceilings = self._ceilings.with_own(task.cluster.subnets, task.cluster.security_group)
        world = KeptSnapshot.read(self._store, snapshot).world
        named = {pool.class_ref for pool in with_claim_pools(world, task.lease_number).pools}
        present = [each for each in world.classes if not each.deleting]
        wanted = [each for each in present if each.ref in named]
        others = [each for each in present if every and each.ref not in named]
        at = int(now.timestamp())
        waits, verdicts = self._ledger.class_holds(at)
        verdicts = verdicts if self._validates else {}
        # After a refused launch, and to detect drift, what was seen before may be what is wrong
        with SharedCalls(self._memory, now, asks_anew=every or task.round > 1) as calls:
            lookups = ClassLookups(
                self._ec2, self._parameters, self._profiles, calls, image_owners=ceilings.image_owners
            )

            def resolve(node_class: NodeClass) -> ResolvedNodeClass:
                return hold_class_back(self._resolve(node_class, task.cluster, ceilings, lookups, now), waits)

            found = [*_resolve_each(wanted, resolve), *self._resolve_others(others, resolve)]
        declared = {each.key: each for each in present}
        known = [
            KnownClass(declared[each.key], each, tuple(pool for pool in world.pools if pool.class_ref == each.ref))
            for each in found
        ]
        resolved = [each.held(verdicts, at) for each in known]
        _log_problems(resolved)
        ready = sum(each.ready for each in resolved)
        key = documents.put_node_classes(self._store, task, resolved)
        due = ""
        if every:
            self._note_addresses(resolved[: len(wanted)])
            if self._validates:
                due = put_due_validations(self._store, task, known, verdicts, at, time_left=self._time_left)
        return {"classes": key, "ready": ready, "refused": len(resolved) - ready, "validation": due}

    def _note_addresses(self, resolved: Sequence[ResolvedNodeClass]) -> None:
        """Store which zones have free addresses, if that changed: nodes may be replaced there now. Without the document
        the cluster is surveyed as rarely as before, so an error is no reason to stop."""
        digest = digest_free_addresses(resolved)
        try:
            if digest != sweep_documents.get_free_addresses(self._store):
                sweep_documents.put_free_addresses(self._store, digest)
        except (BotoCoreError, ClientError) as reason:
            logger.warning("the free addresses of subnets were not stored", reason=str(reason))

    def _resolve_others(
        self, others: Sequence[NodeClass], resolve: Callable[[NodeClass], ResolvedNodeClass]
    ) -> list[ResolvedNodeClass]:
        """Return the classes that AWS answered about in time; the next detection of drift resolves the others."""
        answers, late = call_each_in_time(others, resolve, Ec2Error, self._time_left)
        for each, answer in answers:
            if isinstance(answer, Ec2Error):
                logger.warning("a class that no pool names was not resolved", nodeclass=each.key, reason=str(answer))
        for each in late:
            logger.warning("a class that no pool names was not resolved", nodeclass=each.key, reason="no time was left")
        return [answer for _, answer in answers if isinstance(answer, ResolvedNodeClass)]

    def _resolve(
        self,
        node_class: NodeClass,
        cluster: ClusterFacts,
        ceilings: NodeClassPolicy,
        lookups: ClassLookups,
        now: datetime,
    ) -> ResolvedNodeClass:
        """Resolve one class. A refusal by AWS is a problem of this class only, and so is what cannot be read; if AWS
        does not answer, the whole function fails and is retried.
        """
        try:
            template, problems = self._template(node_class, ceilings)
            if any(problem.severity == "error" for problem in problems):
                return ResolvedNodeClass(
                    node_class.name, node_class.kind, generation=node_class.generation, problems=tuple(problems)
                )
            complete = complete_class(node_class, template)
            asked = build_queries(complete, cluster.version, cluster=cluster.name, image_owners=ceilings.image_owners)
            resolved = resolve_node_class(
                complete,
                lookups.look_up(complete, asked, now),
                ceilings,
                cluster=cluster.name,
                kubernetes_version=cluster.version,
                overhead_price=self._overhead_price,
            )
            return replace(resolved, launch_template=template).with_problems(problems)
        except (NoAnswer, Ec2Throttled):
            raise
        except Ec2Error as refusal:
            return refuse_after_lookup(node_class, str(refusal))
        except (BotoCoreError, ClientError):
            raise
        except Exception as defect:  # whatever it is, the pools of other classes must get their nodes
            logger.exception("a class could not be resolved", nodeclass=node_class.key)
            return refuse_after_defect(node_class, f"{type(defect).__name__}: {defect}"[:SHOWN])

    def _template(
        self, node_class: NodeClass, ceilings: NodeClassPolicy
    ) -> tuple[LaunchTemplateVersion | None, list[NodeClassProblem]]:
        """Return the latest version of the launch template that the class names, and its problems; None without one."""
        if not node_class.launch_template:
            return None, []
        if refused := refuse_template(node_class, ceilings):
            return None, refused
        described = self._ec2.user_template(node_class.launch_template)
        if described is None:
            return None, explain_absence(node_class)
        if refused := refuse_template(node_class, ceilings, described):
            return None, refused
        version = self._ec2.template_version(described)
        if version is None:
            return None, explain_absence(node_class, described)
        return version, find_content_problems(node_class, version)


def _log_problems(resolved: Iterable[ResolvedNodeClass]) -> None:
    for each in resolved:
        for problem in each.problems:
            logger.warning(problem.message, nodeclass=each.key, condition=problem.condition, reason=problem.reason)


def _resolve_each(
    wanted: Sequence[NodeClass], resolve: Callable[[NodeClass], ResolvedNodeClass]
) -> list[ResolvedNodeClass]:
    """Return all of these classes, resolved at the same time. Raises Ec2Error if AWS does not answer about one."""
    answers = [answer for _, answer in call_each(wanted, resolve, Ec2Error)]
    if failed := next((answer for answer in answers if isinstance(answer, Ec2Error)), None):
        raise failed
    return [answer for answer in answers if isinstance(answer, ResolvedNodeClass)]


@returns_at_warm_up
@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    ceilings = NodeClassPolicy(
        node_roles=environment.list_setting("JOINER_NODE_ROLES"),
        instance_profile=environment.setting("JOINER_INSTANCE_PROFILE"),
        image_owners=environment.list_setting("JOINER_IMAGE_OWNERS"),
        account=environment.setting("JOINER_ACCOUNT"),
        role_profiles=environment.list_setting("JOINER_ROLE_PROFILES"),
        windows_roles=environment.list_setting("JOINER_WINDOWS_ROLES"),
    ).with_limits(environment.json_setting("JOINER_NODE_CLASSES"))
    resolver = NodeClassResolver(
        environment.ledger(),
        environment.store(),
        ec2=Ec2(environment.client("ec2")),
        parameters=Parameters(environment.client("ssm")),
        profiles=InstanceProfiles(lambda: environment.client("iam")),
        ceilings=ceilings,
        overhead_price=float(environment.setting("JOINER_NODE_OVERHEAD_PRICE")),
        time_left=environment.time_left(context),
        validates=environment.setting("JOINER_VALIDATE_LAUNCHES") == "true",
        memory=MEMORY,
    )
    now = environment.now()
    answer = resolver.answer(
        task, event["snapshot"], now, environment.lease_end(context, now), every=bool(event.get("every"))
    )
    logger.info("resolved node classes", **answer)
    return answer
