"""Custom resource: make the installer an administrator of the cluster before it runs, and revoke that afterwards.

RBAC lets a subject grant only the rights that it has, so the installer needs all rights. Between deployments it needs
none. One resource precedes the installer's resource and one follows it. They mirror each other: what the first does on
Create, the second does on Delete, because CloudFormation deletes in the reverse order. An update that fails never
reaches the second resource, so a schedule revokes access that is older than 15 minutes.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve

LONGEST_SECONDS: Final = 900
"""Three times the installer's timeout."""

BEFORE: Final = "before"
AFTER: Final = "after"

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """Answer CloudFormation; handle any other event as the schedule's."""
    if "RequestType" in event:
        serve(event, context, act)
        return None
    return {"revoked": _access().revoke_older(time.time() - LONGEST_SECONDS)}


def act(request: Request) -> Answer:
    """Grant or revoke access, depending on the resource's position and on the kind of request.

    Raises ValueError if the request names an unknown position.
    """
    place = request.properties["Place"]
    if place not in (BEFORE, AFTER):
        raise ValueError(f"Place is {place!r}: write {BEFORE} or {AFTER}")
    access, deleting = _access(), request.kind == "Delete"
    if (place == BEFORE) != deleting:
        access.grant(or_gone=deleting)
    else:
        access.revoke()
    return Answer(f"installer-access-{place}")


class InstallerAccess:
    """The installer's access policy in the cluster."""

    def __init__(self, eks: Any, cluster: str, principal: str, policy: str) -> None:
        self._eks = eks
        self._policy = policy
        self._entry = {"clusterName": cluster, "principalArn": principal}

    def grant(self, *, or_gone: bool = False) -> None:
        """Associate the policy; with `or_gone`, ignore that the cluster or the access entry is gone."""
        try:
            self._eks.associate_access_policy(**self._entry, policyArn=self._policy, accessScope={"type": "cluster"})
        except self._eks.exceptions.ResourceNotFoundException:
            if not or_gone:
                raise

    def revoke(self) -> None:
        """Disassociate the policy; a policy that is not associated is a success."""
        try:
            self._eks.disassociate_access_policy(**self._entry, policyArn=self._policy)
        except self._eks.exceptions.ResourceNotFoundException:
            return

    def revoke_older(self, limit: float) -> bool:
        """Revoke access that was last associated before `limit` (epoch seconds). Return whether there was any."""
        try:
            pages = self._eks.get_paginator("list_associated_access_policies").paginate(**self._entry)
            found = [each for page in pages for each in page["associatedAccessPolicies"]]
        except self._eks.exceptions.ResourceNotFoundException:
            return False
        ours = [each for each in found if each["policyArn"] == self._policy]
        old = [
            each
            for each in ours
            if max(each["associatedAt"], each.get("modifiedAt", each["associatedAt"])).timestamp() < limit
        ]
        if old:
            logger.warning(
                "the installer was still an administrator of the cluster: a deployment ended early; its access "
                "is revoked"
            )
            self.revoke()
        return bool(old)


def _access() -> InstallerAccess:
    from joiner.adapters.environment import client, setting

    return InstallerAccess(
        client("eks"), setting("JOINER_CLUSTER"), setting("JOINER_INSTALLER"), setting("JOINER_INSTALLER_POLICY")
    )
