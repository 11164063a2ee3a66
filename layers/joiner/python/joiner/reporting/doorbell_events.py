"""Events of a cluster that lacks a part of the doorbell: one on every pool."""

from collections.abc import Sequence

from joiner.names import DOORBELL_WEBHOOK, DOORBELL_WEBHOOKS, LISTED_PODS_NAMESPACE, LISTED_PODS_ROLE
from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def describe_missing_webhooks(missing: Sequence[str], cluster: str, interval: int) -> str:
    """Return what is missing, its effect and the remedy; `interval` is the time between sweeps in seconds.

    >>> describe_missing_webhooks(("pods.doorbell.joiner.dev",), "prod", 60)[:79]
    'ValidatingWebhookConfiguration joiner-doorbell lacks pods.doorbell.joiner.dev: '
    """
    lacks = f"lacks {', '.join(missing)}" if set(missing) < set(DOORBELL_WEBHOOKS) else "does not exist"
    return (
        f"ValidatingWebhookConfiguration {DOORBELL_WEBHOOK} {lacks}: Joiner notices changes only at its sweep, "
        f"up to {interval} s later. To install it: cdk deploy -c cluster={cluster} -c rotate=WORD with a new WORD"
    )


def describe_missing_role(cluster: str) -> str:
    """Return the effect of the missing Role of listed pods, and the remedy.

    >>> describe_missing_role("prod")[:58]
    'Role joiner:listed-pods does not exist in kube-system: eac'
    """
    return (
        f"Role {LISTED_PODS_ROLE} does not exist in {LISTED_PODS_NAMESPACE}: each pod of a burst calls the doorbell "
        f"twice. To install it: cdk deploy -c cluster={cluster} -c rotate=WORD with a new WORD"
    )


def report_missing_webhooks(pool: NodePool, message: str) -> Event:
    """Return the event of a pool whose pods wait for the sweep; there is one in ten minutes while it lasts."""
    return Event(Subject.pool(pool), "DoorbellMissing", "Survey", message, "Warning", news="DoorbellMissing")


def report_missing_role(pool: NodePool, message: str) -> Event:
    """Return the event of a pool whose pods ring more often than needed; there is one in ten minutes while it lasts."""
    return Event(
        Subject.pool(pool), "ListedPodsRoleMissing", "Survey", message, "Warning", news="ListedPodsRoleMissing"
    )
