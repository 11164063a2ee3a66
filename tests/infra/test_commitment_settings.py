"""Commitments of the settings in the deployment: a variable of `refresh_catalogue`, and nothing without them."""

import json
from dataclasses import replace

from infra.commitment_settings import CommitmentSettings, ReservedInstanceSettings, SavingsPlanSettings
from infra.settings import Settings
from joiner.catalogue.reserved_instances_and_savings_plans import (
    ReservedInstances,
    SavingsPlan,
    commitments_of_settings,
)
from tests.infra.conftest import Synthesis, Synthesise

DECLARED = CommitmentSettings(
    (ReservedInstanceSettings("m5.large", 2), ReservedInstanceSettings("c5.xlarge", 1, "eu-west-1a")),
    (SavingsPlanSettings(3.5, 28.0, "m5"), SavingsPlanSettings(1.0, 25.0)),
)


def variables(synthesis: Synthesis) -> dict[str, str]:
    function = synthesis.one("AWS::Lambda::Function", "CatalogueRefreshCatalogueFunction")
    found: dict[str, str] = function["Properties"]["Environment"]["Variables"]
    return found


def test_the_function_reads_what_the_settings_declare() -> None:
    assert commitments_of_settings(json.loads(DECLARED.to_json())) == (
        (ReservedInstances("m5.large", 2), ReservedInstances("c5.xlarge", 1, "eu-west-1a")),
        (SavingsPlan("settings-1", 3.5, 0.28, "m5"), SavingsPlan("settings-2", 1.0, 0.25)),
    )


def test_the_refresh_of_the_catalogue_gets_the_commitments(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    declared = synthesise(replace(example_settings, commitments=DECLARED))

    assert variables(declared)["JOINER_COMMITMENTS"] == DECLARED.to_json()
    assert "JOINER_COMMITMENTS" not in variables(example)
