"""The files that are stored fit docs/stored.schema.json, and damaged ones do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from json_schemas import wrong
from store_helpers import results

from xbackend.errors import DamagedStore
from xbackend.results import formats, kinds, schema
from xbackend.results.packing import unpacked

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs" / "stored.schema.json").read_text())
NAMES = {kind.__struct_defaults__[-1]: kind for kind in kinds.KINDS}
STORED = [path for folder in ("reports", "bench") for path in sorted((ROOT / folder).rglob("*.json.gz"))]


def content(path: Path) -> Any:
    return msgspec.json.decode(unpacked(path.read_bytes(), path))


def test_the_schema_is_that_of_the_document() -> None:
    assert formats.schema() == SCHEMA, "python -m xbackend.results.formats > docs/stored.schema.json"


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_what_is_stored_fits(path: Path) -> None:
    assert wrong(content(path), SCHEMA, SCHEMA, path.name) == []


def test_every_kind_of_file_is_stored() -> None:
    assert {content(path)["format"] for path in STORED} == {*NAMES}


PLANTED: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda told: told.pop("checksum"),
    lambda told: told.pop("machine"),
    lambda told: told.update(version=8),
    lambda told: told.update(format="other"),
    lambda told: told.update(complete="yes"),
    lambda told: told.update(more=1),
    lambda told: told["machine"].update(cores=-1),
    lambda told: told["measurements"][0].update(status="good"),
    lambda told: told["measurements"][0]["processes"][0].update(visits=[]),
    lambda told: told["measurements"][0]["processes"][0]["visits"][0][0].append(0.0),
    lambda told: told["measurements"][0]["processes"][0]["phases"].update(trace="1"),
    lambda told: told["measurements"][0].update(placement={"ops": [{"node": 1}]}),
)


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_damaged_does_not(plant: Callable[[dict[str, Any]], Any]) -> None:
    told = json.loads(schema.sealed(results()))
    assert wrong(told, SCHEMA, SCHEMA) == []
    plant(told)
    assert wrong(told, SCHEMA, SCHEMA) != []


@pytest.mark.parametrize("plant", [p for number, p in enumerate(PLANTED) if number not in (0, 5)])
def test_what_does_not_fit_is_not_read_either(plant: Callable[[dict[str, Any]], Any]) -> None:
    """Also where its checksum is right. A field of a later version is no damage."""
    told = json.loads(schema.sealed(results()))
    plant(told)
    with pytest.raises((DamagedStore, schema.StoreVersionError)):
        schema.decode(schema.sealed(told), "planted", schema.Results)


def test_a_field_is_said_by_its_comment() -> None:
    fields = SCHEMA["$defs"]["Measurement"]["properties"]
    assert fields["environment"]["description"].startswith("the requirement that it was made for")
    assert fields["placement"]["$ref"] == "#/$defs/Evidence"
    first, *_ = SCHEMA["$defs"]["Visit"]["prefixItems"]
    assert (first["title"], first["description"]) == ("rounds", "seconds per iteration")
