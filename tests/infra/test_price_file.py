"""The price file of the settings: its mistakes, and what the deployment makes of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.price_settings import PriceSettings
from infra.settings import Settings, load_settings
from infra.settings_reader import SettingsError
from tests.infra.conftest import Synthesis, Synthesise, flat

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TABLE = {"region": "us-iso-east-1", "published": "2026-07-20", "prices": {"m5.large": 0.121}}


def write(folder: Path, table: object, more: str = "") -> Path:
    text = table if isinstance(table, str) else json.dumps(table)
    (folder / "prices.json").write_text(text, encoding="utf-8")
    path = folder / "far.yaml"
    path.write_text(f"cluster: far\nregion: us-iso-east-1\nprices:\n  file: prices.json\n{more}", encoding="utf-8")
    return path


def test_the_file_is_found_beside_the_settings(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, TABLE))

    assert settings.prices == PriceSettings(str(tmp_path / "prices.json"))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("{", "this is not JSON"),
        ("[]", "it must be an object with the keys region, published, prices, and no others"),
        ({**TABLE, "currency": "EUR"}, "it must be an object with the keys region, published, prices, and no others"),
        ({**TABLE, "region": "us-iso-west-1"}, "region is 'us-iso-west-1', and the cluster is in us-iso-east-1"),
        ({**TABLE, "published": "July"}, "published is 'July': write the day of the publication, such as 2026-07-20"),
        (
            {**TABLE, "published": f"{datetime.now(UTC).date() + timedelta(days=2)}"},
            "which is in the future: write the day of the publication",
        ),
        ({**TABLE, "prices": {}}, "prices must be an object with a price in US$ an hour for each instance type"),
        ({**TABLE, "prices": [1]}, "prices must be an object with a price in US$ an hour for each instance type"),
        ({**TABLE, "prices": {"m5 large": 1}}, "m5 large is no instance type: write names such as m5.large"),
        ({**TABLE, "prices": {"m5.large": "0.1"}}, "m5.large is '0.1': write US$ an hour as a number above 0"),
        ({**TABLE, "prices": {"m5.large": 0}}, "m5.large is 0: write US$ an hour as a number above 0, up to 10000"),
        ({**TABLE, "prices": {"m5.large": True}}, "m5.large is True: write US$ an hour"),
        ({**TABLE, "prices": {"m5.large": 20000}}, "m5.large is 20000: write US$ an hour"),
        (
            {**TABLE, "prices": {f"m{number}.large": -1 for number in range(5)}},
            "m0.large is -1, m1.large is -1, m2.large is -1 and 2 more: write US$ an hour",
        ),
        ('{"region": "us-iso-east-1", "published": "2026-07-20", "prices": {"m5.large": NaN}}', "m5.large is nan"),
        (
            '{"region": "us-iso-east-1", "published": "2026-07-20", "prices": {"m5.large": 1, "m5.large": 2}}',
            "m5.large stands twice: keep one",
        ),
    ],
    ids=str,
)
def test_a_mistake_stops_the_synthesis_with_the_remedy(table: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refusal:
        load_settings(write(tmp_path, table))

    assert f"prices.file {tmp_path / 'prices.json'}: " in str(refusal.value)
    assert says in str(refusal.value)


def test_a_file_that_is_missing_binary_or_huge_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    file = tmp_path / "prices.json"

    def refusal() -> str:
        with pytest.raises(SettingsError) as refused:
            load_settings(path)
        return str(refused.value)

    file.write_bytes(b"\xff\xfe\x00")
    assert "this is not text in UTF-8" in refusal()
    file.write_text(" " * 1_000_001)
    assert "a table has at most 1000000" in refusal()
    file.unlink()
    assert "it cannot be read (No such file or directory): write the table, or correct the path" in refusal()


def test_the_refresh_may_read_this_one_object_and_no_price_list(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(TABLE))
    made = synthesise(replace(example_settings, prices=PriceSettings(str(file), maximum_age_days=90)))

    def statements(synthesis: Synthesis) -> list[Any]:
        policies = synthesis.resources("AWS::IAM::Policy")
        (own,) = [each for name, each in policies.items() if name.startswith("CatalogueRefreshCatalogue")]
        return [flat(each) for each in own["Properties"]["PolicyDocument"]["Statement"]]

    function = made.one("AWS::Lambda::Function", "CatalogueRefreshCatalogueFunction")["Properties"]
    place = json.loads(flat(function["Environment"]["Variables"]["JOINER_PRICE_FILE"]))
    reading = [each for each in statements(made) if each not in statements(example)]
    (alarm,) = [each for name, each in made.resources("AWS::CloudWatch::Alarm").items() if "PricesAreOld" in name]
    assert place["key"].endswith(".json")
    listed = [each["Resource"] for each in reading if "s3:GetObject" in each["Action"]]
    objects = [one for each in listed for one in ([each] if isinstance(each, str) else each)]
    assert [one for one in objects if one.endswith(f"/{place['key']}")], objects
    assert "pricing:GetProducts" not in json.dumps(statements(made))
    assert "pricing:GetProducts" in json.dumps(statements(example))
    assert alarm["Properties"]["MetricName"] == "PriceTableAgeDays"
    assert (alarm["Properties"]["Threshold"], alarm["Properties"]["EvaluationPeriods"]) == (90, 3)
    assert not [name for name in example.resources("AWS::CloudWatch::Alarm") if "PricesAreOld" in name]


def test_the_refresh_may_decrypt_with_the_key_of_the_bootstrap_bucket_through_s3_only(
    synthesise: Synthesise, example_settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(TABLE))

    def decrypting(key: str | None) -> list[Any]:
        made = synthesise(replace(example_settings, prices=PriceSettings(str(file), kms_key=key)))
        policies = made.resources("AWS::IAM::Policy").values()
        granted = [flat(one) for each in policies for one in each["Properties"]["PolicyDocument"]["Statement"]]
        return [each for each in granted if "kms:" in str(each["Action"])]

    assert decrypting(None) == []
    (statement,) = decrypting(KEY)
    assert (statement["Action"], statement["Resource"]) == ("kms:Decrypt", KEY)
    assert statement["Condition"] == {"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}}


@pytest.mark.parametrize("setting", ["maximumAgeDays: 30", f"kmsKey: {KEY}"])
def test_a_setting_that_needs_a_price_file_stops_the_synthesis_without_one(setting: str, tmp_path: Path) -> None:
    path = tmp_path / "far.yaml"
    path.write_text(f"cluster: far\nregion: us-iso-east-1\nprices:\n  {setting}\n")

    with pytest.raises(SettingsError) as refusal:
        load_settings(path)
    message = f"prices.{setting.partition(':')[0]} has no effect without prices.file: name the file, or leave it out"
    assert message in str(refusal.value)

    path = write(tmp_path, TABLE, more=f"  {setting}\n")
    assert load_settings(path).prices.file == str(tmp_path / "prices.json")
