"""A deployment with a price file and placement scores: the first catalogue has the prices of the file."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.price_settings import PriceSettings
from infra.settings import load_settings
from joiner.adapters import documents
from joiner.adapters.store import Store
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.test_uninstall import STACK, synthesise

pytestmark = [pytest.mark.e2e, pytest.mark.long("the function, the table in S3 and the template, each by itself")]
"""A deployment and a stack of its own."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("prices"), boot_seconds=1.0, say=print) as stack:
        yield stack


def test_the_first_catalogue_has_the_on_demand_prices_of_the_file(stack: LocalStack, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"region": "us-east-1", "published": "2026-07-20", "prices": {"m5.large": 0.5}}))
    settings = load_settings(REPOSITORY / "clusters/local.yaml")
    planning = replace(settings.planning, spot_placement_scores=True)
    synthesise(replace(settings, prices=PriceSettings(str(file)), planning=planning), tmp_path / "cdk.out")

    stack.deploy(Deployment(REPOSITORY, stack.root, say=print, synthesised=tmp_path / "cdk.out"))

    resources = stack.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
    (bucket,) = [each["PhysicalResourceId"] for each in resources if each["ResourceType"] == "AWS::S3::Bucket"]
    catalogue = documents.get_catalogue(Store(stack.client("s3"), bucket))
    on_demand = {
        (name, one.price_per_hour)
        for name, each in catalogue.types.items()
        for one in each.offerings
        if one.capacity_type == "on-demand"
    }
    assert on_demand == {("m5.large", 0.5)}
