"""The CDK app: `npx cdk deploy -c cluster=NAME` deploys Joiner for the cluster of `clusters/NAME.yaml`."""

import sys
from pathlib import Path

import aws_cdk as cdk

from infra.bundling import BundlingError
from infra.cluster_stack import ClusterStack
from infra.settings import SettingsError, load

CLUSTERS = Path(__file__).parent / "clusters"


def main() -> None:
    """One stack, for the cluster that the context names."""
    app = cdk.App()
    cluster = app.node.try_get_context("cluster")
    if not cluster:
        known = ", ".join(sorted(path.stem for path in CLUSTERS.glob("*.yaml")))
        raise SettingsError(f"which cluster? Say -c cluster=NAME; there are: {known}")
    ClusterStack(app, load(CLUSTERS / f"{cluster}.yaml"))
    app.synth()


if __name__ == "__main__":
    try:
        main()
    except (SettingsError, BundlingError) as refusal:
        sys.exit(f"joiner: {refusal}")
