"""A JSON Schema as a page to read: a table for each of its parts, a row for each field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def page(title: str, intro: str, schema: dict[str, Any]) -> str:
    """Markdown."""
    first = schema["anyOf"]
    lines = [f"# {title}", "", intro, "", f"It is one of these: {', '.join(_type(one) for one in first)}.", ""]
    for name, part in schema["$defs"].items():
        lines += [f"## {name}", "", part.get("description", ""), "", *_table(part), ""]
    return "\n".join(lines)


def _table(part: dict[str, Any]) -> Iterator[str]:
    yield from ("| field | type | meaning |", "|---|---|---|")
    required = part.get("required", [])
    if part["type"] == "array":  # the fields in their order
        fields = {f"{place}: {one['title']}": one for place, one in enumerate(part["prefixItems"])}
        required = list(fields)[: part["minItems"]]
    else:
        fields = part["properties"]
    for name, field in fields.items():
        absent = "" if name in required or "default" not in field else f"; {json.dumps(field['default'])} if absent"
        yield f"| `{name}` | {_cell(_type(field) + absent)} | {_cell(field.get('description', ''))} |"


def _type(field: dict[str, Any]) -> str:
    """The type of a field in words, with its bounds."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    for word in ("const", "enum", "pattern"):
        if word in field:
            return f"`{json.dumps(field[word])}`" if word != "pattern" else f"text like `{field[word]}`"
    kind = field.get("type", "anything")
    if kind == "array":
        return f"list of {_type(field['items'])}" if field.get("items") else _several(field)
    if kind == "object":
        return f"object of {_type(field['additionalProperties'])}" if "additionalProperties" in field else "object"
    bounds = {"minimum": "from {:g}", "exclusiveMinimum": "above {:g}", "maximum": "to {:g}"}
    return " ".join([kind, *(text.format(field[word]) for word, text in bounds.items() if word in field)])


def _several(field: dict[str, Any]) -> str:
    return f"list ({', '.join(_type(one) for one in field['prefixItems'])})" if "prefixItems" in field else "list"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
