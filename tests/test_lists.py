"""The lists of backends in files are those of the registry."""

from __future__ import annotations

import tomllib

import pytest

import lists
from xbackend.backends import registry
from xbackend.bring.kinds import KINDS
from xbackend.bring.source.exports import EXPORTS


@pytest.mark.parametrize("name", lists.FILES)
def test_no_list_is_stale(name: str) -> None:
    text = (lists.ROOT / name).read_text()
    assert lists.written(text) == text, f"{name} is stale: {lists.COMMAND}"


def test_every_list_is_in_a_file_and_a_changed_one_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: (lists.ROOT / name).read_text() for name in lists.FILES}
    assert sorted(b for text in texts.values() for b in lists.blocks(text)) == sorted(lists.BLOCKS)
    entry, packaging = list(registry.REGISTRY.items())[-1], list(registry.ENVIRONMENTS.items())[-1]
    monkeypatch.delitem(registry.REGISTRY, entry[0])
    monkeypatch.delitem(registry.ENVIRONMENTS, packaging[0])
    for name, text in texts.items():
        assert lists.written(text) != text
        assert lists.written(lists.written(text)) == lists.written(text), name


def test_an_unknown_list_is_an_error_with_its_name() -> None:
    with pytest.raises(KeyError, match="nothing"):
        lists.written("# begin nothing, written by\n# end\n")


def test_each_environment_has_an_extra_and_a_backend_or_brings_a_graph_or_writes_a_file() -> None:
    project = tomllib.loads((lists.ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    used = {one.environment for one in (*registry.entries(), *EXPORTS.values())} | set(KINDS)
    assert used == set(registry.ENVIRONMENTS) == set(extras) - {"all", "bench", "commands", "docs", "events", "test"}
