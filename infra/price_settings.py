"""The setting `prices`: a file with on-demand prices, for regions and networks without the Price List API.

    {"region": "us-iso-east-1", "published": "2026-07-20", "prices": {"m5.large": 0.121, "c5.xlarge": 0.214}}

It is read and checked at the synthesis, and deployed with the stack. `refresh_catalogue` trusts it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from infra.node_class_settings import KeyArn
from infra.settings_reader import NumberRange, SettingsMistake, TextPattern

MOST_BYTES: Final = 1_000_000
"""A table of all types of a region has about 40,000."""
MOST_PRICE: Final = 10_000
"""US$ an hour. No instance type costs a tenth of it: a higher number is one for a month or a mistake."""
TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
KEYS: Final = ("region", "published", "prices")
SHOWN: Final = 3  # mistakes of one kind in a message


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """Where on-demand prices come from, if not from the Price List API."""

    file: Annotated[str | None, TextPattern(r"[^\0]+\.json", "the path of a file *.json, relative to this file")] = None
    """A price table, relative to the settings. None: the Price List API, or the packaged table of the region."""
    maximum_age_days: Annotated[int, NumberRange(1, 3650)] = 180
    """Days after the publication of the file from which on an alarm asks for a newer one. On-demand prices change
    rarely, but new instance types are not launched on demand until they have a price."""

    kms_key: Annotated[str | None, KeyArn] = None
    """The customer-managed key of the CDK's bootstrap bucket, which holds the file, if the bucket has one whose policy
    does not let every role of the account decrypt through S3. None: the bucket has no such key."""

    def path(self, settings: Path) -> Path | None:
        """Return the path of the table of a settings file; None without one."""
        return settings.parent / self.file if self.file else None


NO_PRICE_FILE: Final = PriceSettings()


def check_prices(settings: PriceSettings, path: Path | None, region: str) -> list[SettingsMistake]:
    """Return what is wrong with the price table of a region at this path, or has no effect without a table."""
    if path is None:
        given = {
            "prices.maximumAgeDays": settings.maximum_age_days != NO_PRICE_FILE.maximum_age_days,
            "prices.kmsKey": settings.kms_key is not None,
        }
        remedy = "has no effect without prices.file: name the file, or leave it out"
        return [SettingsMistake(name, f"{name} {remedy}") for name, is_given in given.items() if is_given]
    return [SettingsMistake("prices", f"prices.file {path}: {each}") for each in _find_mistakes(path, region)]


def _find_mistakes(path: Path, region: str) -> Iterator[str]:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            yield f"it has {size} bytes, and a table has at most {MOST_BYTES}: keep the prices of one region"
            return
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as missing:
        yield f"it cannot be read ({missing.strerror}): write the table, or correct the path"
        return
    except UnicodeDecodeError:
        yield "this is not text in UTF-8: write JSON"
        return
    except ValueError as broken:
        yield f"this is not JSON: {broken}"
        return
    if not isinstance(content, Mapping) or set(content) != set(KEYS):
        yield f"it must be an object with the keys {', '.join(KEYS)}, and no others"
        return
    if content["region"] != region:
        yield f"region is {content['region']!r:.40}, and the cluster is in {region}: write the prices of that region"
    yield from _find_date_mistake(content["published"])
    yield from _find_price_mistakes(content["prices"])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raises ValueError if a key stands twice, of which JSON would silently keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(each for each in names if names.count(each) > 1)} stands twice: keep one")
    return found


def _find_date_mistake(published: object) -> Iterator[str]:
    try:
        day = date.fromisoformat(str(published))
    except ValueError:
        yield f"published is {published!r:.40}: write the day of the publication, such as 2026-07-20"
        return
    if day > datetime.now(UTC).date():
        yield f"published is {day}, which is in the future: write the day of the publication"


def _find_price_mistakes(prices: object) -> Iterator[str]:
    if not isinstance(prices, Mapping) or not prices:
        yield 'prices must be an object with a price in US$ an hour for each instance type, such as {"m5.large": 0.121}'
        return
    if names := [each for each in prices if not TYPE_NAME.fullmatch(each)]:
        yield f"{_listed(names)} is no instance type: write names such as m5.large"
    wrong = [
        f"{name} is {price!r:.20}"
        for name, price in prices.items()
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price <= MOST_PRICE
    ]
    if wrong:
        yield f"{_listed(wrong)}: write US$ an hour as a number above 0, up to {MOST_PRICE}"


def _listed(each: list[str]) -> str:
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more
