"""Which clusters Joiner's nodes can join, and how the control plane of a cluster reaches the doorbell.

Sources: EKS user guide, "Control plane egress routing" and "Set cluster authentication mode".
"""

from collections.abc import Mapping
from typing import Final

EGRESS: Final[Mapping[str, str]] = {
    "AWS_MANAGED": "AWS_MANAGED: the control plane reaches the doorbell without any setting of yours",
    "CUSTOMER_ROUTED": (
        "CUSTOMER_ROUTED: webhook calls leave through the cluster's VPC: give the cluster's subnets a route to "
        "the internet (NAT gateway) "
        "or to the doorbell's address, or no ring arrives, and pods wait for the sweep's minute "
        "(docs/control-plane-egress.md)"
    ),
    "CUSTOMER_ISOLATED": (
        "CUSTOMER_ISOLATED: the control plane reaches nothing outside its VPC, and so no doorbell: pods wait "
        "for the sweep's minute "
        "(docs/control-plane-egress.md)"
    ),
}
"""What `resourcesVpcConfig.controlPlaneEgressMode` means for the doorbell."""


def describe_egress(mode: str) -> str:
    """Return what the egress mode of the control plane means for the doorbell.

    >>> describe_egress("AWS_MANAGED")
    'AWS_MANAGED: the control plane reaches the doorbell without any setting of yours'
    """
    return EGRESS.get(mode, f"{mode}: this mode is not known: see that the control plane reaches the doorbell")


def find_mode_conflict(cluster: str, mode: str, setting: str) -> str:
    """Return why roles that are written for `setting` have no effect in a cluster with this authentication mode.

    `mode` and `setting` are authentication modes: API, API_AND_CONFIG_MAP or CONFIG_MAP. The result contains the
    remedy; it is empty if the cluster reads the roles where they are written.

    >>> find_mode_conflict("prod", "API_AND_CONFIG_MAP", "API")
    ''
    """
    if mode == "CONFIG_MAP" and setting != mode:
        return (
            f"{cluster}: its authentication mode is CONFIG_MAP, and the settings' authenticationMode is "
            f"{setting}: write authenticationMode: CONFIG_MAP (docs/settings.md, Clusters with aws-auth), or "
            "change the cluster: "
            f"aws eks update-cluster-config --name {cluster} "
            "--access-config authenticationMode=API_AND_CONFIG_MAP"
        )
    if mode == "API" and setting == "CONFIG_MAP":
        return f"{cluster}: its authentication mode is API, which does not read aws-auth: write authenticationMode: API"
    return ""
