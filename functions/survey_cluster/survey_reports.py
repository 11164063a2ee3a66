"""Reports what a survey of the cluster finds and no state machine acts upon: in events, in the log, and as reasons."""

from collections.abc import Callable, Sequence

from aws_lambda_powertools import Logger

from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.disruption_items import DisruptionRecord
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.orphan_records import Impairments
from joiner.adapters.payload import Task
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.checks.unhealthy_nodes import find_blocked_pools
from joiner.lifecycle.checks.unplanned_pods import list_pods_without_node
from joiner.lifecycle.instance_health import find_impaired_pools
from joiner.lifecycle.supported_size import beyond_supported_size
from joiner.reporting.cluster_size_events import report_cluster_too_large
from joiner.reporting.disruption_events import report_paused
from joiner.reporting.doorbell_events import (
    describe_missing_role,
    describe_missing_webhooks,
    report_missing_role,
    report_missing_webhooks,
)
from joiner.reporting.events import Event
from joiner.reporting.pause_events import report_pause, report_paused_pod
from joiner.reporting.repair_events import report_blocked_repair

logger = Logger(child=True)


class SurveyReports:
    """The reports of one survey. `interval` is the time between sweeps in seconds."""

    def __init__(
        self,
        guards: AutoscalerDetection,
        impairments: Impairments,
        listed_pods: ListedPodsRole,
        find_missing_webhooks: Callable[[], Sequence[str]],
        *,
        interval: int,
    ) -> None:
        self._guards = guards
        self._impairments = impairments
        self._listed_pods = listed_pods
        self._find_missing_webhooks = find_missing_webhooks
        self._interval = interval

    def report_cluster(self, survey: ClusterSurvey, task: Task) -> list[str]:
        """Report the size of the cluster, its webhooks, listed pods and nodes that are not repaired; return the
        reasons."""
        return [
            *self._report_size(survey, task),
            *self._report_missing_webhooks(survey, task),
            *self._clear_listed_pods(survey, task),
            *self._report_blocked_repairs(survey, task),
        ]

    def _report_size(self, survey: ClusterSurvey, task: Task) -> list[str]:
        """Report a cluster larger than the supported size: as a reason, by events on the pools, and in the log."""
        excess = beyond_supported_size(len(survey.pods), len(survey.nodes))
        if not excess:
            return []
        logger.warning(excess, pods=len(survey.pods), nodes=len(survey.nodes))
        self.publish([report_cluster_too_large(pool, excess) for pool in survey.pools], survey, task)
        return [excess]

    def _report_missing_webhooks(self, survey: ClusterSurvey, task: Task) -> list[str]:
        """Report webhooks of the doorbell that the cluster lacks: as a reason, by events on the pools, and in the
        log."""
        try:
            missing = self._find_missing_webhooks()
        except KubeError as error:  # the survey does not depend on it
            logger.warning("the webhooks of the doorbell could not be read", reason=str(error))
            return [f"the webhooks of the doorbell could not be read: {error}"]
        if not missing:
            return []
        message = describe_missing_webhooks(missing, self._interval)
        logger.warning(message)
        self.publish([report_missing_webhooks(pool, message) for pool in survey.pools], survey, task)
        return [message]

    def _clear_listed_pods(self, survey: ClusterSurvey, task: Task) -> list[str]:
        """Let the events of all pods ring again when no execution plans or waits for nodes; return what failed."""
        if survey.planning or survey.watches:
            return []
        try:
            if self._listed_pods.clear():
                logger.info("the events of all pods ring the doorbell again")
        except NotFound:
            reason = describe_missing_role()
            self.publish([report_missing_role(pool, reason) for pool in survey.pools], survey, task)
        except KubeError as error:  # pods that are not listed ring in any case
            reason = f"the listed pods of the last scale-up could not be cleared: {error}"
        else:
            return []
        logger.warning(reason)
        return [reason]

    def _report_blocked_repairs(self, survey: ClusterSurvey, task: Task) -> list[str]:
        """Report pools with too many unhealthy nodes: as a reason, by events on the pools, and in the log."""
        pools = survey.pool_of()
        instances = {claim.instance_id: claim.pool_key for claim in survey.claims if claim.instance_id}
        impaired = {each for each in self._impairments.since() if instances.get(each) in pools}
        blocked = {**find_impaired_pools(impaired, instances), **find_blocked_pools(survey)}
        for key, reason in blocked.items():
            logger.warning("nodes are not repaired", pool=key, reason=reason)
        events = [report_blocked_repair(pools[key], reason) for key, reason in blocked.items() if key in pools]
        self.publish(events, survey, task)
        return [f"{key}: {reason}" for key, reason in blocked.items()]

    def report_pause(self, survey: ClusterSurvey, task: Task) -> None:
        """Report the pause by events on the pools, and on the pending pods that no node in flight is for."""
        cluster = task.cluster.name
        pending = [pod for pod in list_pods_without_node(survey) if not pod.node_name]
        self.publish(report_pause(survey.lists, cluster), survey, task)
        self.publish([report_paused_pod(pod, cluster) for pod in pending], survey, task)

    def report_waiting_disruptions(
        self, under_way: Sequence[DisruptionRecord], survey: ClusterSurvey, task: Task
    ) -> list[str]:
        """Report nodes that a disruption has closed: as reasons, and by events on them and their claims. DISRUPT
        finishes or undoes it after the pause."""
        claims, nodes = {claim.name: claim for claim in survey.claims}, survey.node_of()
        closed = [(claims[name], one.reason) for one in under_way for name in one.claims if name in claims]
        staying = [(claim, reason) for claim, reason in closed if not claim.deleting]
        events = [each for claim, why in staying for each in report_paused(claim, nodes.get(claim.key), why)]
        self.publish(events, survey, task)
        return [
            f"{claim.key} takes no pods: its disruption ({why}) waits while Joiner is paused" for claim, why in staying
        ]

    def publish(self, events: Sequence[Event], survey: ClusterSurvey, task: Task) -> None:
        """Write events on objects of the survey; one that cannot be written is in the log."""
        for unwritten in self._guards.publish(events, at=survey.now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)
