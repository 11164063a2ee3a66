"""The default topology spread constraints of the settings: what is refused, and which functions get them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra.planning_settings import DEFAULT_PLANNING, DefaultSpreadSettings
from infra.settings import Settings, load_settings
from infra.settings_reader import SettingsError
from joiner.cluster import TopologySpreadConstraint
from tests.infra.conftest import Synthesis, Synthesise

HEAD = "cluster: prod\nregion: eu-west-1\nplanning:\n  defaultTopologySpreadConstraints: "
ZONE = "topologyKey: topology.kubernetes.io/zone"
HARD = "whenUnsatisfiable: DoNotSchedule"
FIRST = "planning.defaultTopologySpreadConstraints[0]"


def read(folder: Path, constraints: str) -> Settings:
    path = folder / "prod.yaml"
    path.write_text(HEAD + constraints)
    return load_settings(path)


def test_the_fields_of_the_scheduler_are_read_with_the_defaults_of_kubernetes(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f"[{{maxSkew: 1, {ZONE}, {HARD}, minDomains: 3}}, {{maxSkew: 2, {ZONE}, whenUnsatisfiable: ScheduleAnyway}}]",
    )
    hard, soft = found.planning.default_topology_spread_constraints

    zone = "topology.kubernetes.io/zone"
    assert hard == DefaultSpreadSettings(1, zone, "DoNotSchedule", min_domains=3)
    assert soft.to_kube() == {
        "maxSkew": 2,
        "topologyKey": zone,
        "whenUnsatisfiable": "ScheduleAnyway",
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Ignore",
    }
    plain = {"maxSkew": 2, "topologyKey": zone, "whenUnsatisfiable": "ScheduleAnyway"}
    assert TopologySpreadConstraint.from_kube(soft.to_kube(), labels={}) == TopologySpreadConstraint.from_kube(
        plain, labels={}
    )


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("5", "planning.defaultTopologySpreadConstraints is 5: write a list of keys and values: - key: value"),
        (f"[{{{ZONE}, {HARD}}}]", f"{FIRST}.maxSkew is missing: write a number between 1 and 150000"),
        (f"[{{maxSkew: 0, {ZONE}, {HARD}}}]", f"{FIRST}.maxSkew is 0: write a number between 1 and 150000"),
        (
            f"[{{maxSkew: 1, {ZONE}}}]",
            f"{FIRST}.whenUnsatisfiable is missing: write one of DoNotSchedule, ScheduleAnyway",
        ),
        (
            f"[{{maxSkew: 1, {ZONE}, whenUnsatisfiable: DoNotSchedul}}]",
            f"{FIRST}.whenUnsatisfiable is 'DoNotSchedul': write one of DoNotSchedule, ScheduleAnyway "
            "(did you mean DoNotSchedule?)",
        ),
        (
            f"[{{maxSkew: 1, topologyKey: 'my zone', {HARD}}}]",
            f"{FIRST}.topologyKey is 'my zone': write the key of a node label, such as topology.kubernetes.io/zone",
        ),
        (
            f"[{{maxSkew: 1, {ZONE}, {HARD}, labelSelector: {{}}}}]",
            f"{FIRST}.labelSelector is not a setting: known here: maxSkew, topologyKey,",
        ),
        (
            f"[{{maxSkew: 1, {ZONE}, {HARD}}}, {{maxSkew: 2, {ZONE}, {HARD}}}]",
            "planning.defaultTopologySpreadConstraints[1] is the second with the topologyKey "
            f"'topology.kubernetes.io/zone' and DoNotSchedule: keep {FIRST} or this one",
        ),
        (
            f"[{{maxSkew: 1, {ZONE}, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}}]",
            f"{FIRST}.minDomains is 2: leave it out, since ScheduleAnyway has none",
        ),
        (
            "[" + ", ".join(f"{{maxSkew: 1, topologyKey: label-{number}, {HARD}}}" for number in range(40)) + "]",
            "planning.defaultTopologySpreadConstraints has ",
        ),
    ],
)
def test_what_the_scheduler_would_refuse_is_a_mistake_with_its_remedy(
    tmp_path: Path, constraints: str, message: str
) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, constraints)

    (line,) = str(error.value).splitlines()
    assert line.removeprefix(f"{tmp_path / 'prod.yaml'}: ").startswith(message)


def variables(synthesis: Synthesis) -> dict[str, str]:
    """Return the constraints that each function gets, by its name."""
    found = [
        each["Properties"]["Environment"]["Variables"] for each in synthesis.resources("AWS::Lambda::Function").values()
    ]
    return {
        each["POWERTOOLS_SERVICE_NAME"]: each["JOINER_DEFAULT_SPREADS"]
        for each in found
        if "JOINER_DEFAULT_SPREADS" in each
    }


def test_the_functions_that_list_pods_for_plans_and_bindings_get_the_constraints(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    one = DefaultSpreadSettings(1, "kubernetes.io/hostname", "DoNotSchedule")
    planning = replace(DEFAULT_PLANNING, default_topology_spread_constraints=(one,))
    declared = variables(synthesise(replace(example_settings, planning=planning)))

    assert set(declared) == {"find_pending_pods", "find_candidates", "check_registration"}
    assert [json.loads(each) for each in declared.values()] == [[one.to_kube()]] * 3
    assert set(variables(example).values()) == {"[]"}
