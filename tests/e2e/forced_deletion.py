"""The deletion of objects whose finalizers nobody removes."""

from joiner_local.control_plane.kube_api import ApiError, KubeApi


def force_delete(kube: KubeApi, path: str, *, grace_seconds: int | None = None) -> None:
    """Delete an object and remove its finalizers. One that is gone before either is no error."""
    options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
    try:
        kube.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
        kube.merge(path, {"metadata": {"finalizers": None}})
    except ApiError as error:
        if error.status != 404:
            raise
