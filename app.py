"""The CDK app: `node_modules/.bin/cdk deploy -c cluster=NAME` deploys Joiner for the cluster of
`clusters/NAME.yaml`."""

import json
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra.asset_bundles import BundlingError
from infra.cluster_stack import ClusterStack
from infra.environment_sizes import check_environment_sizes
from infra.settings import load_settings
from infra.settings_reader import SettingsError, settings_error

ROOT = Path(__file__).parent
CLUSTERS = ROOT / "clusters"


def main() -> None:
    """Synthesise the stack of the cluster that the context names. Raises SettingsError and BundlingError."""
    app = cdk.App(context=flags())
    cluster = app.node.try_get_context("cluster")
    if not cluster:
        known = ", ".join(sorted(path.stem for path in CLUSTERS.glob("*.yaml")))
        raise SettingsError(f"no cluster is named: pass -c cluster=NAME; known clusters: {known}")
    synthesise(app, CLUSTERS / f"{cluster}.yaml")


def synthesise(app: cdk.App, settings: Path) -> None:
    """Synthesise the stack of the cluster with these settings. Raises SettingsError, also for settings that are too
    long for the environment of a function, and BundlingError."""
    try:
        stack = ClusterStack(app, load_settings(settings))
        template = Path(app.synth().directory) / f"{stack.stack_name}.template.json"
        if mistakes := check_environment_sizes(json.loads(template.read_text(encoding="utf-8")), stack.stack_name):
            raise settings_error(settings, mistakes)
    except SettingsError as refusal:  # the CDK command line runs in this folder
        raise SettingsError(str(refusal).replace(f"{ROOT}/", "")) from refusal


def flags() -> dict[str, Any]:
    """Return the CDK's feature flags. The CDK command line passes them from cdk.json; without it, the app reads them
    here."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return context


if __name__ == "__main__":
    try:
        main()
    except (SettingsError, BundlingError) as refusal:
        sys.exit(f"joiner: {refusal}")
