"""What of a value a JSON Schema does not allow; for the words that the schemas of this project have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

TYPES = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "array": list,
}
NOTES = {"title", "description", "default", "discriminator", "$schema", "$defs"}  # words that demand nothing
DEMANDS = {"type", "enum", "const", "properties", "required", "items", "additionalProperties", "prefixItems"}
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "pattern"}


def wrong(value: Any, schema: dict[str, Any], of: dict[str, Any], at: str = "output") -> list[str]:
    """What of a value the schema does not allow, also properties that it does not name; ``of`` is the document that it
    is a part of. An unknown word of a schema is an error."""
    if "$ref" in schema:
        return wrong(value, of["$defs"][schema["$ref"].rpartition("/")[2]], of, at)
    if "anyOf" in schema:
        tried = [wrong(value, each, of, at) for each in schema["anyOf"]]
        return min(tried, key=len)
    assert not {*schema} - NOTES - DEMANDS - BOUNDS, schema
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else [value])
    if value not in allowed:
        return [f"{at} is {value!r}", *[f"{at}: none of {allowed}"] * 99]  # another kind of the whole
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool))):
        return [f"{at} is no {kind}: {value!r:.60}"]
    beyond = [f"{at} is beyond its {word}: {value!r:.60}" for word in _beyond(value, schema)]
    if kind == "array":
        return beyond + [each for found in _items(value, schema, of, at) for each in found]
    return beyond + (_properties(value, schema, of, at) if kind == "object" else [])


def _beyond(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """The bounds that a value does not keep to."""
    if isinstance(value, int | float):
        if value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", -math.inf):
            yield "minimum"
        if value > schema.get("maximum", value):
            yield "maximum"
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield "length"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield "pattern"


def _items(value: list[Any], schema: dict[str, Any], of: dict[str, Any], at: str) -> Iterator[list[str]]:
    first = schema.get("prefixItems", [])
    for number, each in enumerate(value):
        own = first[number] if number < len(first) else schema.get("items", {})
        yield wrong(each, own, of, f"{at}[{number}]") if own is not False else [f"{at}[{number}] is one too many"]


def _properties(value: dict[str, Any], schema: dict[str, Any], of: dict[str, Any], at: str) -> list[str]:
    own, rest = schema.get("properties", {}), schema.get("additionalProperties")
    found = [f"{at} has no {name}" for name in schema.get("required", []) if name not in value]
    for name, each in value.items():
        if name in own or isinstance(rest, dict):
            found += wrong(each, own.get(name, rest), of, f"{at}.{name}")
        elif own:  # an object without named properties holds any
            found.append(f"{at}.{name} is not in the schema")
    return found
