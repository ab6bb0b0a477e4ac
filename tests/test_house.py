"""The house rules of docs/architecture.md, read from the source itself."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import expected_failures
import pytest

import xbackend
from xbackend.backends import registry
from xbackend.backends.contract import Backend

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "xbackend"
SOURCES = sorted(p for p in PACKAGE.rglob("*.py"))
FRAMEWORKS = {package for e in registry.entries() for package in e.packages} - {"numpy"} | {
    "jaxlib",
    "mpi4py",
    "onnx",
    "pymc",
    "torch",
}
# The parts of xbackend that a worker imports, and their allowed imports beside the standard library and its framework.
WORKER_SIDE = (
    *(
        "version",
        "errors",
        "extras",
        "devices",
        "cores",
        "files",
        "generated",
        "wording",
        "habits",
        "limits",
        "program",
        "drawing",
        "api",
        "bring",
        "eager",
        "backends",
        "engines",
        "workers.bootstrap",
        "workers.serving",
        "workers.protocol",
    ),
    *(
        "workers.guard",
        "measure.loop",
        "measure.checks",
        "measure.load",
        "measure.measured",
        "measure.memory_watch",
        "measure.nvml",
        "measure.profiles",
        "workloads",
    ),
)
WORKER_PACKAGES = {"numpy", "threadpoolctl", "scipy"}
ADAPTERS = ("xbackend.backends.", "xbackend.engines.", "xbackend.bring.")
# The two modules that open a backend for the user: the public names, and the commands' entry.
DOORS = {"xbackend", "xbackend.__main__"}


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rooms() -> list[list[str]]:
    """The rooms of docs/architecture.md, ground floor first: names of modules and packages under xbackend."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    table = text[text.index("| room |") :].split("\n\n")[0]
    return [re.findall(r"`(\w+)(?:\.py|/)`", row.split("|")[1]) for row in table.splitlines()[2:]]


def is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(source: str, module: str = "", types: bool = False) -> Iterator[tuple[str, int]]:
    """The absolute names of all modules imported anywhere in the source, with their lines; with `types` also imports
    for type checkers only."""
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if is_typing(node) and not types:
            assert isinstance(node, ast.If)
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        todo += ast.iter_child_nodes(node)


def room_of(module: str, order: list[list[str]]) -> int | None:
    parts = module.split(".")
    return next((i for i, room in enumerate(order) if len(parts) > 1 and parts[1] in room), None)


def wrong_imports(source: str, module: str, order: list[list[str]]) -> list[str]:
    """Imports of rooms that do not stand above the module's own."""
    own = room_of(module, order)
    found = []
    for imported, line in imports(source, module):
        if imported.split(".")[0] != "xbackend" or module in DOORS:
            continue
        theirs = room_of(imported, order)
        if imported == "xbackend" or theirs is None:
            # `import xbackend as xb` takes public names, for the rooms that use it as a user does.
            allowed = own is not None and own > room_of_name("workers", order)
        else:
            allowed = own is not None and theirs <= own
        if not allowed:
            found.append(f"{module}:{line} imports {imported}")
    return found


def room_of_name(name: str, order: list[list[str]]) -> int:
    return next(i for i, room in enumerate(order) if name in room)


def test_the_rooms_of_the_document_are_those_of_the_package() -> None:
    listed = {name for room in rooms() for name in room}
    found = [p for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()]
    there = {p.stem for p in found}
    assert there - {"__init__", "__main__", "__pycache__"} == listed


def test_a_room_imports_only_from_those_above_it() -> None:
    order = rooms()
    assert [wrong for path in SOURCES for wrong in wrong_imports(path.read_text(), module_name(path), order)] == []


def test_an_import_from_below_would_be_found() -> None:
    order = rooms()
    planted = "from xbackend.backends.contract import Backend"
    assert wrong_imports(planted, "xbackend.program.ops", order) == [
        "xbackend.program.ops:1 imports xbackend.backends.contract.Backend"
    ]
    assert wrong_imports("def f():\n    import xbackend.cli", "xbackend.report.said.text", order)
    assert wrong_imports("import xbackend as xb", "xbackend.program.ops", order)
    assert not wrong_imports("if TYPE_CHECKING:\n    " + planted, "xbackend.program.ops", order)
    assert not wrong_imports("from xbackend.program import ops", "xbackend.backends.contract", order)


def circle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other in a circle, wherever the imports are; empty if there are none."""
    graph = {
        module: {
            found
            for name, _ in imports(source, module, types=True)
            for found in [name if name in sources else name.rpartition(".")[0]]
            if found in sources and found != module
        }
        for module, source in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_file_imports_in_a_circle() -> None:
    assert circle({module_name(path): path.read_text() for path in SOURCES}) == []


def test_a_circle_would_be_found() -> None:
    assert not circle({"x.a": "import x.b", "x.b": "import x.c", "x.c": "import json"})
    assert len(circle({"x.a": "import x.b", "x.b": "def f():\n    from x import c", "x.c": "from x.a import f"})) == 4
    assert circle({"x.a": "import x.b", "x.b": "if TYPE_CHECKING:\n    from x.a import Name"})


def worker_sources() -> list[Path]:
    def belongs(path: Path) -> bool:
        name = module_name(path).removeprefix("xbackend").lstrip(".")
        return name == "" or any(name == w or name.startswith(f"{w}.") for w in WORKER_SIDE)

    return [p for p in SOURCES if belongs(p)]


def foreign(source: str, module: str) -> set[str]:
    """Packages imported by the source that a worker's environment does not have."""
    tops = {name.split(".")[0] for name, _ in imports(source, module)}
    allowed = WORKER_PACKAGES | (FRAMEWORKS if module.startswith(ADAPTERS) else set())
    return tops - allowed - {"xbackend", "__future__"} - sys.stdlib_module_names


def test_the_workers_side_needs_nothing_but_its_framework() -> None:
    wrong = dict[str, set[str]]()
    for path in worker_sources():
        module, source = module_name(path), path.read_text()
        inside = {name for name, _ in imports(source, module) if name.startswith("xbackend.")}
        beyond = {n for n in inside if not any(n.startswith(f"xbackend.{w}") for w in WORKER_SIDE)}
        wrong[module] = foreign(source, module) | (set() if module in DOORS else beyond)
    assert {module: names for module, names in wrong.items() if names} == {}


@pytest.mark.parametrize("name", ["calls", "placements", "host_copies", "__init__", "handwritten/__init__"])
def test_what_a_worker_runs_of_the_own_benchmarks_needs_no_more(name: str) -> None:
    source = (REPOSITORY / "bench" / "overhead" / f"{name}.py").read_text()
    assert foreign(source, "xbackend.backends.overhead") <= {"overhead"}


def test_a_package_that_no_environment_has_would_be_found() -> None:
    assert foreign("import rich", "xbackend.backends.contract") == {"rich"}
    assert foreign("import tensorflow", "xbackend.program.ops") == {"tensorflow"}
    assert not foreign("import tensorflow, json, numpy", "xbackend.backends.tensorflow.adapter")


ONLY_BACKENDS = [p for p in SOURCES if not module_name(p).startswith(ADAPTERS)]


def test_no_framework_is_imported_outside_of_the_adapters() -> None:
    found = {module_name(p): {name.split(".")[0] for name, _ in imports(p.read_text())} for p in ONLY_BACKENDS}
    assert {module: tops & FRAMEWORKS for module, tops in found.items() if tops & FRAMEWORKS} == {}


def fresh(code: str, folder: Path) -> str:
    """The output of a fresh interpreter that runs the code with the package from the folder."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


IMPORTED = "import xbackend; print(*sorted({m.split('.')[0] for m in sys.modules}))"


def heavy(folder: Path) -> set[str]:
    return set(fresh(IMPORTED, folder).split()) & (FRAMEWORKS | {"numpy", "scipy", "psutil", "matplotlib", "rich"})


def test_importing_xbackend_imports_neither_numpy_nor_a_framework() -> None:
    assert heavy(REPOSITORY) == set()
    assert fresh("import xbackend; print(len(dir(xbackend)) > 100, xbackend.__version__)", REPOSITORY) == "True 0.2.0"


def test_a_planted_import_would_be_found(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(PACKAGE, tmp_path / "xbackend", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "numpy.py").write_text("")
    assert heavy(tmp_path) == set()
    source = tmp_path / "xbackend" / "__init__.py"
    source.write_text(source.read_text() + "\nimport numpy\n")
    assert heavy(tmp_path) == {"numpy"}


def test_every_public_name_is_there() -> None:
    import xbackend as xb

    for name in xb.__all__:
        assert getattr(xb, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        xb.nothing


TEXT_METHODS = ("startswith", "endswith", "removeprefix", "removesuffix", "count", "find", "index")


def comparisons(source: str, names: tuple[str, ...]) -> list[int]:
    """Lines that compare with the name of a backend, by an operator, ``in``, a method or ``match``."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_METHODS:
            parts = node.args
        texts = {c.value for part in parts for c in ast.walk(part) if isinstance(c, ast.Constant)}
        if texts & set(names):
            lines.append(parts[0].lineno)
    return lines


def test_no_backend_is_asked_for_its_name_outside_of_the_adapters() -> None:
    found = {module_name(path): comparisons(path.read_text(), registry.names()) for path in ONLY_BACKENDS}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_a_comparison_with_a_backends_name_would_be_found() -> None:
    for planted in (
        "if backend == 'tensorflow': pass", "x = name in ('pytensor-c', 'numpy')", "y = n.startswith('aesara')",
        "match n:\n    case 'numpy': pass",
    ):  # fmt: skip
        assert comparisons(planted, registry.names()), planted
    assert not comparisons("x = open('numpy')", registry.names())


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without the examples that its docstring ends with, and the empty line before them."""
    _, _, examples = (ast.get_docstring(function, clean=False) or "").partition("\n\n    >>>")
    left_out = examples.count("\n") + 1 if examples else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - left_out


def test_functions_are_short() -> None:
    every = [(path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))]
    functions = [(path, node) for path, node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {f"{module_name(path)}:{f.lineno}": length(f) for path, f in functions}
    assert {place: lines for place, lines in lengths.items() if lines > 60} == {}


def test_a_long_function_would_be_found() -> None:
    documented = '    """Text.\n\n' + "    text\n" * 56 + '\n    >>> 1\n    1\n    """\n    x = 1\n'
    for body in ("    x = 1\n" * 60, documented):
        (function,) = ast.parse("def f():\n" + body).body
        assert isinstance(function, ast.FunctionDef) and length(function) == 61


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """The names that several classes have, inner classes too, with the modules of these classes."""
    found: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_classes_have_one_name() -> None:
    assert not shared_names({module_name(path): path.read_text() for path in SOURCES})


def test_two_classes_with_one_name_would_be_found() -> None:
    inner = "def f():\n    class Walk:\n        pass"
    assert shared_names({"a": "class Walk: pass", "b": inner, "c": "class Run: pass"}) == {"Walk": ["a", "b"]}


@pytest.mark.parametrize("entry", list(registry.entries()), ids=lambda e: e.name)
def test_every_backend_of_the_registry_is_found_by_its_path(entry: registry.Entry) -> None:
    module, _, name = entry.adapter.partition(":")
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    classes = {n.name for n in tree.body if isinstance(n, ast.ClassDef)}
    assert name in classes
    assert entry.summary and entry.packages and entry.environment


def test_the_numpy_backend_of_the_registry_is_a_backend() -> None:
    assert isinstance(registry.get("numpy").load(), Backend)


def test_there_is_no_second_list_of_backends() -> None:
    """Several names of backends in one literal, outside of the registry, are a list."""
    for path in SOURCES:
        if path.name == "registry.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
                keys = node.keys if isinstance(node, ast.Dict) else node.elts
                texts = {k.value for k in keys if isinstance(k, ast.Constant)}
                assert len(texts & set(registry.names())) < 4, f"{module_name(path)}:{node.lineno}"


@pytest.mark.tier("standard")
def test_every_expected_failure_is_of_a_test_that_exists_with_a_reason_and_a_link() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/contract"]
    command += ["--tier", "exhaustive"]
    listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=120).stdout
    found = [re.fullmatch(r"\S+::(\w+)\[(.*)\]", line) for line in listing.splitlines()]
    tests = [(m[1], m[2]) for m in found if m]
    assert len(tests) > 1000
    for backend in registry.names():
        own = [(test, rest.removeprefix(backend).lstrip("-")) for test, rest in tests if rest.startswith(backend)]
        for expected in expected_failures.of(backend):
            assert expected.reason and expected.link.startswith("https://")
            assert any(expected.matches(*test) for test in own), (
                f"nothing of {backend} is expected to fail by {expected}"
            )


def test_every_file_of_expected_failures_is_of_a_backend() -> None:
    files = {p.stem for p in Path(expected_failures.__file__).parent.glob("[!_]*.py")}
    assert files <= {expected_failures.module(name) for name in registry.names()}
    assert expected_failures.of("numpy") == () != expected_failures.of("pytensor-jax")


def test_the_package_uses_no_builtin_that_is_a_name_of_its_own() -> None:
    """A used public name becomes a global: ``any`` would be the function of arrays."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert not used & set(xbackend.__all__) & set(dir(builtins))
