"""The files of stored results as JSON Schema, made of the structs that read them, with the comments of their fields.

``python -m xbackend.results.formats`` prints it, and docs/stored.schema.json holds it. Files are told apart by
``format``.
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import inspect as types

from xbackend.results.kinds import KINDS
from xbackend.results.schema import Evidence

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_CHECKSUM = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "of the rest of the file"}


def schema() -> dict[str, Any]:
    """The JSON Schema of all stored files."""
    each, components = described([*KINDS, Evidence])
    for kind in KINDS:
        found = components[kind.__name__]
        for name in ("format", "version"):
            found["properties"][name] = {"const": found["properties"][name]["default"]}
        found["properties"]["checksum"] = _CHECKSUM
        found["required"] += ["format", "version", "checksum"]
    placement = components["Measurement"]["properties"]["placement"]
    placement |= {"$ref": each[-1]["$ref"]}
    del placement["type"]
    return whole({"anyOf": each[:-1]}, components)


def whole(first: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A document of a schema and of the components that it refers to."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({"$schema": _DRAFT, **first, "$defs": components}))
    return plain


def described(kinds: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schemas of types, and their components by name: structs and dataclasses. The comment behind a field is its
    description."""
    found, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    classes = {one.__name__: one for kind in types.multi_type_info(kinds) for one in _classes(kind, set())}
    for name, component in components.items():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
        said = comments(classes[name])
        for field, own in _fields(classes[name], component):
            own |= {"description": said[field]} if field in said else {}
        _portable(component)
    return list(found), components


def _fields(kind: type, component: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas of the fields by name. Fields that are stored as an array get their names as titles."""
    if "prefixItems" not in component:
        yield from component.get("properties", {}).items()
        return
    for name, own in zip(kind.__struct_fields__, component["prefixItems"], strict=True):  # type: ignore[attr-defined]
        own["title"] = name
        yield name, own


def comments(kind: type) -> dict[str, str]:
    """The comment behind each field of a class and of its bases, by the field's name."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] in (__package__.partition(".")[0], "__main__"):
            found |= dict(_own_comments(textwrap.dedent(inspect.getsource(base))))
    return found


def _own_comments(source: str) -> Iterator[tuple[str, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    said = {token.start[0]: token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT}
    (definition,) = ast.parse(source).body
    for node in getattr(definition, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in said:
            yield node.target.id, said[node.end_lineno]


def _classes(kind: Any, seen: set[type]) -> Iterator[type]:
    """The structs and dataclasses in a type, also those of their fields."""
    if isinstance(kind, types.StructType | types.DataclassType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        yield kind.cls
        parts: list[Any] = [field.type for field in kind.fields]
    else:
        named = ("item_type", "key_type", "value_type", "type")
        parts = [getattr(kind, name) for name in named if hasattr(kind, name)]
        parts += [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    for part in parts:
        yield from _classes(part, seen)


def _portable(part: Any) -> None:
    r"""The same schema for every reader and every release of msgspec.

    JSON Schema has the patterns of JavaScript, whose end of the text is ``$`` where Python writes ``\Z``. An empty
    default is left out: msgspec 0.23 leaves it out, and 0.22 does not.
    """
    if isinstance(part, dict):
        if part.get("default") in ([], {}):
            del part["default"]
        if isinstance(part.get("pattern"), str):
            part["pattern"] = part["pattern"].replace(r"\Z", "$")
        for each in part.values():
            _portable(each)
    elif isinstance(part, list):
        for each in part:
            _portable(each)


def printed(found: dict[str, Any]) -> str:
    """A schema as text, the same for the same schema."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()


if __name__ == "__main__":
    print(printed(schema()))
