"""The webhooks through which the API server calls the doorbell, as the cluster has them."""

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import NotFound
from joiner.names import DOORBELL_WEBHOOK, DOORBELL_WEBHOOKS


def find_missing_webhooks(kube: Kube) -> tuple[str, ...]:
    """Return the names of the doorbell's webhooks that the cluster lacks, all if their configuration does not exist.

    One request. Raises KubeError. A webhook with another URL than the installed one is not noticed: the secret in the
    URL is not compared.
    """
    try:
        configuration = kube.get(kinds.VALIDATING_WEBHOOKS, DOORBELL_WEBHOOK)
    except NotFound:
        return DOORBELL_WEBHOOKS
    there = {str(webhook.get("name")) for webhook in configuration.get("webhooks") or ()}
    return tuple(name for name in DOORBELL_WEBHOOKS if name not in there)
