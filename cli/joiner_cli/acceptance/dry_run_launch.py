"""Builds the launch of the dry runs, with the code of real launches and the node class's status in the cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.cluster import Requirements
from joiner.launching import Launch
from joiner.launching.fleet_request import build_fleet_request
from joiner.launching.launch_offering import LaunchOffering
from joiner.launching.launch_template_content import build_launch_template
from joiner.names import EXECUTION, LAUNCH, ON_DEMAND
from joiner.pools import Image, NodeClass, NodePool, ResolvedNodeClass, SecurityGroup, Subnet

Manifest = Mapping[str, Any]


def read_resolved_class(manifest: Manifest) -> ResolvedNodeClass:
    """Return an EC2NodeClass's status as a value."""
    status = manifest.get("status") or {}
    return ResolvedNodeClass(
        name=str(manifest["metadata"]["name"]),
        kind="EC2NodeClass",
        subnets=tuple(Subnet(each["id"], each["zone"]) for each in status.get("subnets") or ()),
        security_groups=tuple(SecurityGroup(each["id"]) for each in status.get("securityGroups") or ()),
        images=tuple(
            Image(each["id"], "", Requirements.from_kube(each["requirements"])) for each in status.get("amis") or ()
        ),
        instance_profile=str(status.get("instanceProfile") or ""),
    )


def build_dry_run_launch(
    node_class: NodeClass, pool: NodePool, resolved: ResolvedNodeClass, *, cluster: str, run: str, types: Sequence[str]
) -> Launch:
    """Return the launch of one node, which is sent as a dry run only."""
    image, subnet = resolved.images[0], resolved.subnets[0]
    template = build_launch_template(
        node_class, resolved, pool, cluster=cluster, image=image.id, user_data="#!/bin/true\n", capacity_type=ON_DEMAND
    )
    identity = f"accept-{run}"
    tags = {**template.tags, LAUNCH: identity, EXECUTION: identity}
    offers = [LaunchOffering(0.0, each, subnet.zone) for each in types]
    request = build_fleet_request(
        {template.name: offers},
        order=offers,
        subnets={subnet.zone: subnet},
        node_class=node_class,
        capacity_type=ON_DEMAND,
        count=1,
        tags=tags,
        token=identity,
    )
    return Launch(
        id=identity,
        token=identity,
        claims=(identity,),
        claim_kind="NodeClaim",
        pool=pool.name,
        capacity_type=ON_DEMAND,
        request=request,
        templates=(template,),
        images={},
        prices={},
    )
