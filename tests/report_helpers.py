"""For the tests of the report: results to order, random results, and an independent reader of reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any
from unittest import mock
from xml.etree import ElementTree

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from xbackend.analysis.comparison import comparisons
from xbackend.analysis.history import series
from xbackend.backends.description import Description
from xbackend.backends.threads import Pool
from xbackend.drawing import graph as g
from xbackend.report import files
from xbackend.report.drawn import ratios, timelines, times
from xbackend.report.said import blocks, history
from xbackend.report.said.comparison import build
from xbackend.report.written import markdown, terminal
from xbackend.results.schema import (
    MOST_OPERATIONS,
    Machine,
    Measurement,
    Parity,
    Phases,
    Process,
    Profile,
    Results,
    SessionSettings,
    Visit,
)

# An independent reader of markdown. It shows HTML, so an escaped tag is seen.
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


NASTY = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="|\\`*_[]()<>&#!~$-+=.1a \n\r\t\x00\x1b\u202e\u2028^{}:/\"'", max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "a | b\n| --- |\n# heading",
            "[x](javascript:alert(1))",
            "![x](http://example.com/x.png)",
            "```\n</details>\n~~~",
            "\\|\\\\|",
            "&lt;b&gt; &amp; &#60;",
            "<!-- -->",
            "$x$",
            "1. one",
            "---",
            "_x_ __y__ **z**",
            "http://example.com <a@example.com>",
            "]]>",
        ]
    ),
)


def measured(backend: str, medians: list[float], devices: int = 1, **fields: Any) -> Measurement:
    """A measurement that is ok, with a process of one round for each time."""
    processes = [
        Process(order=i, started=float(i), iterations=1, visits=[Visit([t])], phases=Phases(call=t))
        for i, t in enumerate(medians)
    ]
    given: dict[str, Any] = {
        "workload": "matpow",
        "parameters": {"size": 8},
        "bindings": {},
        "status": "ok",
        "operations": 1000,
        "processes": processes,
    }
    return Measurement(backend=backend, devices=devices, **{**given, **fields})


def of(*measurements: Measurement, **fields: Any) -> Results:
    """Results of these measurements."""
    machine = Machine(
        processor="p", cores=2, memory_bytes=1 << 30, system="s", python="3", accelerators=[], fingerprint="f"
    )
    given: dict[str, Any] = {
        "name": "n",
        "created": "c",
        "xbackend": "x",
        "machine": machine,
        "settings": SessionSettings(),
    }
    return Results(**{**given, "order": [], "measurements": list(measurements), **fields})


def markdown_of(found: Results, baseline: str | None = None) -> str:
    """The document without its plots, which take longest to draw."""
    return markdown.write(_built(found, baseline))


def all_columns(found: Results, baseline: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the report's own tables, over all workloads, as in a terminal."""
    rows = terminal.all_columns(comparisons(found, baseline))
    return [*rows[0]] if rows else [], [[*row.values()] for row in rows]


def history_of(
    runs: Sequence[Results], workload: str | None = None, damaged: Sequence[tuple[str, str]] = ()
) -> dict[str, bytes]:
    """The files of a history by name."""
    return files("history", *history.build(runs, series(runs, workload), workload, damaged))


def whole_of(found: Results, baseline: str | None = None) -> str:
    """`markdown_of` with the parts that only the page has."""
    return markdown.write(_opened(_built(found, baseline)))


def _built(found: Results, baseline: str | None) -> list[blocks.AnyBlock]:
    with (
        mock.patch.object(times, "medians", return_value=b""),
        mock.patch.object(times, "sizes", return_value=b""),
        mock.patch.object(ratios, "picture", return_value=b""),
        mock.patch.object(timelines, "picture", return_value=b""),
    ):
        return build(found, baseline)[0]


def _opened(written: Sequence[blocks.AnyBlock]) -> list[blocks.AnyBlock]:
    """Blocks with those of the page only."""
    opened: list[blocks.AnyBlock] = []
    for block in written:
        if isinstance(block, blocks.OnPage):
            opened += _opened(block.blocks)
        elif isinstance(block, blocks.Folded):
            opened.append(blocks.Folded(block.title, tuple(_opened(block.blocks))))
        else:
            opened.append(block)
    return opened


def flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or [])


def shown(token: Token) -> str:
    """The visible text of inline tokens."""
    return "".join({"softbreak": "\n", "hardbreak": "\n"}.get(t.type, t.content) for t in flat(token.children or []))


def tables_of(source: str) -> list[list[list[str]]]:
    """The tables of a document by row, as parsed by the reader, with plain blanks for unbreakable ones."""
    tables: list[list[list[str]]] = []
    tokens = READER.parse(source)
    for before, token in pairwise(tokens):
        if before.type == "table_open":
            tables.append([])
        if before.type == "tr_open":
            tables[-1].append([])
        if before.type in ("td_open", "th_open"):
            tables[-1][-1].append(shown(token))
    return tables


def rows_of(source: str) -> list[list[str]]:
    """The rows of all tables in a document."""
    return [row for table in tables_of(source) for row in table]


def check_document(source: str) -> None:
    """Every line of a table has its header's cells; there is no HTML, foreign link or foreign block."""
    lines = source.split("\n")
    fenced, width = False, 0
    for line in lines:
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) - 1
        width = width or cells
        assert cells == width, line
    assert not fenced
    tokens = list(flat(READER.parse(source)))
    assert not [t for t in tokens if t.type in ("html_inline", "em_open", "hr")]
    # The only HTML is for folding. The only code is text that could be taken for a link.
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    assert all(re.fullmatch(r"<details><summary>[^<>]*</summary>|</details>", tags) for tags in html), html
    assert [tags == "</details>" for tags in html] == [False, True] * (len(html) // 2)
    assert all(re.fullmatch(r"[\w@#./:+=?&%~-]+", t.content) for t in tokens if t.type == "code_inline")
    addresses = [str(t.attrs.get("href", t.attrs.get("src", ""))) for t in tokens if t.type in ("link_open", "image")]
    assert all(re.match(r"#|https://github\.com/|[a-z0-9-]+\.svg$", a) for a in addresses), addresses


def check_svg(data: bytes) -> None:
    """Well-formed, with a title, without scripts or fetched files."""
    tree = ElementTree.fromstring(data)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert tree.find("{http://www.w3.org/2000/svg}title") is not None
    for element in tree.iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "image", "a", "metadata", "animate")
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert not name.endswith("href") or value.startswith("#")
            assert "url(" not in value.replace("url(#", "")
    assert b"<!DOCTYPE" not in data and b"@import" not in data


# A store can hold only what can be read from it. The rest is damage: tests/test_damaged_stores.py.
SECONDS = st.floats(0, 1e9) | st.floats(1e-6, 10)
ROUNDS = st.floats(1e-11, 1e9) | st.floats(1e-6, 10)
AMOUNTS = st.floats(0, 1e308) | st.floats(0, 10)
COUNTS = st.integers(0, 10**18) | st.integers(0, 8)


def graphs() -> st.SearchStrategy[g.Graph]:
    """Drawings of a few boxes with any text."""
    small = st.integers(0, 3)
    box = st.builds(
        g.Box, text=NASTY, device=st.sampled_from(["cpu:0", "cpu:1"]) | NASTY, mark=st.sampled_from(g.MARKS)
    )
    edge = st.builds(g.Edge, source=small, target=small, text=NASTY, kind=st.sampled_from([*g.KINDS, "data"]))
    forwards = edge.map(lambda e: replace(e, source=min(e.source, e.target), target=max(e.source, e.target) + 1))
    link = st.builds(g.Link, source=NASTY, target=NASTY, text=NASTY)
    return st.builds(
        g.Graph,
        title=NASTY,
        boxes=st.lists(box, min_size=5, max_size=7).map(tuple),
        edges=st.lists(forwards, max_size=6).map(tuple),
        links=st.lists(link, max_size=2).map(tuple),
    )


@st.composite
def _measurements(draw: st.DrawFn) -> Measurement:
    phases = st.builds(Phases, **dict.fromkeys(Phases.__struct_fields__, st.none() | SECONDS))
    maybe = st.none() | AMOUNTS
    cores = st.none() | st.floats(0, 1e6)
    device = st.sampled_from(["cpu:0", "cpu:1"]) | NASTY
    part = st.floats(0, 1)
    span = st.builds(
        lambda on, ends, kind, what: (on, *sorted(ends), kind, what),
        device,
        st.tuples(SECONDS, SECONDS),
        st.sampled_from(["compute", "transfer"]) | NASTY,
        NASTY,
    )
    profile = st.builds(
        lambda wall, busy, parts, count, spans: Profile(
            wall=wall,
            busy={on: each * wall for on, each in busy.items()},
            **{name: each * wall for name, each in parts.items()},
            **{"call": wall, "compute": wall - parts["exposed"] * wall, "launch": 0.0, "wait": 0.0},
            count=count,
            spans=spans,
        ),
        ROUNDS,
        st.dictionaries(device, part, max_size=3),
        st.fixed_dictionaries(dict.fromkeys(("transfers", "exposed", "together"), part)),
        st.integers(0, 5),
        st.lists(span, max_size=4),
    )
    process = st.builds(
        Process,
        order=COUNTS,
        started=st.floats(0, 1e11),
        iterations=st.integers(1, 10**18),
        visits=st.lists(st.builds(Visit, st.lists(ROUNDS, min_size=1, max_size=3), SECONDS, cores, cores), min_size=1),
        phases=phases,
        affinity=st.none() | st.lists(COUNTS, max_size=2),
        load=maybe,
        accelerator_processes=st.none() | st.lists(NASTY, max_size=2),
        profile=st.none() | profile,
        cache=st.sampled_from(["", "cold", "warm"]),
        rewriting=st.none() | SECONDS,
        rewrites=st.none() | COUNTS,
    )
    data = st.dictionaries(NASTY, NASTY | st.integers() | AMOUNTS | st.lists(NASTY, max_size=2), max_size=2)
    described = st.builds(
        Description,
        versions=st.dictionaries(NASTY, NASTY, max_size=2),
        devices=st.lists(NASTY, max_size=2),
        threads=st.dictionaries(NASTY, st.none() | st.integers(), max_size=2),
        blas=st.lists(st.builds(Pool, NASTY, version=st.none() | NASTY, threads=st.integers()), max_size=2),
        settings=st.dictionaries(NASTY, NASTY | st.booleans() | st.none(), max_size=2),
        notes=st.dictionaries(NASTY, NASTY, max_size=2),
    )
    record = st.fixed_dictionaries(
        {"node": st.just(1), "op": NASTY, "asked": st.none() | NASTY, "bound": NASTY, "executed": st.none() | NASTY}
        | {"framework_op": NASTY, "evidence": NASTY, "status": NASTY}
    )
    transfer = st.fixed_dictionaries(
        {"node": st.just(1), "source": NASTY, "target": NASTY, "bytes": COUNTS, "cause": NASTY}
        | {"framework_op": NASTY, "evidence": NASTY}
    )
    backward = st.fixed_dictionaries(
        {"gradient": st.just(1), "forward": st.none() | st.just(1), "bound": st.none() | NASTY, "count": COUNTS}
        | {"executed": st.none() | NASTY, "framework_op": NASTY, "evidence": NASTY, "status": NASTY}
    )
    placement = st.fixed_dictionaries(
        {"ops": st.lists(record, max_size=2), "transfers": st.lists(transfer, max_size=2), "drawing": NASTY},
        optional={"graph": graphs().map(asdict), "separate": NASTY, "backward": st.lists(backward, max_size=2)},
    )
    return draw(
        st.builds(
            Measurement,
            workload=NASTY,
            parameters=st.just({"size": 3}) | data,
            backend=st.sampled_from(["numpy", "b"]) | NASTY,
            devices=st.integers(0, 3),
            bindings=st.dictionaries(NASTY, st.sampled_from(["cpu:0", "cpu:1", "/job:w/task:1/gpu:0"]), max_size=2),
            unprofiled=NASTY,
            status=st.sampled_from(["ok", "ok", "failed", "missing", "wrong"]),
            reason=NASTY,
            operations=st.integers(0, MOST_OPERATIONS),
            parity=st.none() | st.builds(Parity, relative_error=AMOUNTS, tolerance=AMOUNTS, inputs=NASTY, ulps=maybe),
            environment=st.just("") | NASTY,
            versions=st.just({}) | st.dictionaries(NASTY, NASTY, max_size=2),
            processes=st.lists(process, max_size=3),
            placement=st.just({}) | placement,
            description=described,
            warnings=st.lists(NASTY, max_size=2),
        )
    )


def any_results() -> st.SearchStrategy[Results]:
    """Results with anything in any field of a store: hostile text, extreme numbers."""
    machine = st.builds(
        Machine,
        processor=NASTY,
        cores=COUNTS,
        memory_bytes=COUNTS,
        system=NASTY,
        python=NASTY,
        accelerators=st.lists(NASTY, max_size=2),
        fingerprint=NASTY,
    )
    return st.builds(
        Results,
        name=NASTY,
        created=NASTY,
        xbackend=NASTY,
        machine=machine,
        settings=st.builds(
            SessionSettings,
            warnings=st.none() | st.lists(NASTY, max_size=2),
            threads=st.none() | st.integers(),
            processes=st.none() | st.integers(),
            stopped=NASTY,
        ),
        order=st.lists(NASTY, max_size=2),
        measurements=st.lists(_measurements(), max_size=4),
        complete=st.booleans(),
        run=NASTY,
    )
