"""Events of a cluster that lacks a part of the doorbell: one on every pool."""

from collections.abc import Sequence

from joiner.names import DOORBELL_WEBHOOK, DOORBELL_WEBHOOKS, LISTED_PODS_NAMESPACE, LISTED_PODS_ROLE
from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject

INSTALL = "node_modules/.bin/cdk deploy -c cluster=NAME -c rotate=WORD, with the name of its settings and a new WORD"
"""The command that installs the manifests again. The settings may have another name than the cluster."""


def describe_missing_webhooks(missing: Sequence[str], interval: int) -> str:
    """Return what is missing, its effect and the remedy; `interval` is the time between sweeps in seconds.

    >>> describe_missing_webhooks(("pods.doorbell.joiner.dev",), 60)[:79]
    'ValidatingWebhookConfiguration joiner-doorbell lacks pods.doorbell.joiner.dev: '
    """
    lacks = f"lacks {', '.join(missing)}" if set(missing) < set(DOORBELL_WEBHOOKS) else "does not exist"
    return (
        f"ValidatingWebhookConfiguration {DOORBELL_WEBHOOK} {lacks}: Joiner notices changes only at its sweep, "
        f"up to {interval} s later. To install it: {INSTALL}"
    )


def describe_missing_role() -> str:
    """Return the effect of the missing Role of listed pods, and the remedy.

    >>> describe_missing_role()[:58]
    'Role joiner:listed-pods does not exist in kube-system: eac'
    """
    return (
        f"Role {LISTED_PODS_ROLE} does not exist in {LISTED_PODS_NAMESPACE}: each pod of a burst calls the doorbell "
        f"twice. To install it: {INSTALL}"
    )


def report_missing_webhooks(pool: NodePool, message: str) -> Event:
    """Return the event of a pool whose pods wait for the sweep; there is one in ten minutes while it lasts."""
    return Event(Subject.pool(pool), "DoorbellMissing", "Survey", message, "Warning", news="DoorbellMissing")


def report_missing_role(pool: NodePool, message: str) -> Event:
    """Return the event of a pool whose pods ring more often than needed; there is one in ten minutes while it lasts."""
    return Event(
        Subject.pool(pool), "ListedPodsRoleMissing", "Survey", message, "Warning", news="ListedPodsRoleMissing"
    )
