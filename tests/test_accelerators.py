"""Facts read of NVIDIA GPUs, from recorded answers, and how results name what computed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from report_helpers import markdown_of, measured, of

from xbackend import environments
from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import comparisons
from xbackend.cli import main
from xbackend.environments import accelerators, recipes, releases, versions
from xbackend.environments.versions import VersionRecipe
from xbackend.errors import EnvironmentFailed
from xbackend.measure import gpus, machine, matrix
from xbackend.report.written import terminal
from xbackend.workers.remote import RemoteBackend, ready_environment

H200 = {
    "--query-gpu=name,driver_version": "NVIDIA H200, 580.159.04",
    "--query-gpu=memory.free": "142620 MiB",
    "--query-compute-apps=pid,process_name,used_memory": "553, /opt/cuda/bin/python, 528 MiB\n77, /bin/x, [N/A]",
}


def nvidia_smi(folder: Path, answers: dict[str, str], patch: pytest.MonkeyPatch) -> None:
    """The program in its own folder, which is the whole path."""
    cases = "\n".join(f"'{query}') printf '%s\\n' '{told}';;" for query, told in answers.items())
    program = folder / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -L ] || [ "$2" = --format=csv,noheader ] || exit 2\n'
        f'case "$1" in\n{cases}\n*) exit 2;; esac\n'
    )
    program.chmod(0o755)
    patch.setenv("PATH", str(folder))


def test_a_gpu_is_named_with_its_driver_its_memory_and_who_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(tmp_path, H200, monkeypatch)
    assert machine.accelerators() == ["NVIDIA H200 (driver 580.159.04)"]
    assert machine.accelerator_memory() == [142620 << 20]
    assert machine.accelerator_processes({553}) == ["process 77, /bin/x, [N/A]"]
    assert len(machine.accelerator_processes() or ()) == 2


def test_another_driver_is_no_other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for told in ("NVIDIA H200, 580.159.04", "NVIDIA H200, 590.1", "NVIDIA H100, 590.1"):
        nvidia_smi(tmp_path, {"--query-gpu=name,driver_version": told}, monkeypatch)
        found.append(machine.machine())
    assert found[0].fingerprint == found[1].fingerprint != found[2].fingerprint
    assert found[0].accelerators != found[1].accelerators


@pytest.mark.parametrize("told", ["No devices were found", ""])
def test_a_driver_without_a_gpu_names_none(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, dict.fromkeys(H200, told), monkeypatch)
    monkeypatch.setattr(machine, "GPUS", tmp_path / "gpus")
    assert machine.accelerators() == [] and machine.accelerator_memory() == []


def test_a_gpu_is_named_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "GPUS", tmp_path)
    (tmp_path / "0000:00:06.0").mkdir()
    (tmp_path / "0000:00:06.0" / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n")
    assert machine.accelerators() == ["NVIDIA H200"]


# --- whose wheels environments have -------------------------------------------------------------------------------


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Put a driver's library in place that runs this version of CUDA, 1000 * major + 10 * minor."""

    def put(version: int) -> None:
        library = tmp_path / f"libcuda-{version}.so"
        source = f"int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}"
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
        monkeypatch.setattr(accelerators, "LIBRARY", str(library))
        accelerators.driver.cache_clear()

    monkeypatch.delenv(accelerators.VARIABLE, raising=False)
    yield put
    accelerators.driver.cache_clear()


@pytest.mark.parametrize(
    ("version", "jax", "tensorflow"),
    [
        (13010, "jax+cuda13", "tensorflow+cuda12"),
        (14000, "jax+cuda13", "tensorflow+cuda12"),
        (12080, "jax+cuda12", "tensorflow+cuda12"),
        (11040, "jax", "tensorflow"),
    ],
)
def test_environments_are_made_for_what_the_driver_runs(
    version: int, jax: str, tensorflow: str, driver: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(version)
    assert (environments.get("jax").name, environments.get("tensorflow").name) == (jax, tensorflow)
    assert environments.get("numpy").name == "numpy" and environments.get("theano").name == "theano"
    assert environments.get("jax==0.11.2").name == "jax==0.11.2"
    assert matrix.runs(["jax"], ["jax"]) == matrix.runs(["jax"]), "the locked environment, named or not"
    monkeypatch.setenv(accelerators.VARIABLE, "none")
    assert environments.get("jax").name == "jax"
    assert environments.get("jax+cuda12").name == "jax+cuda12", "a name that is written out is that"
    monkeypatch.setenv(accelerators.VARIABLE, "cuda11")
    with pytest.raises(EnvironmentFailed, match="'cuda11' is no kind of accelerator: write cuda13, cuda12, none"):
        environments.get("jax")


@pytest.mark.parametrize(
    ("version", "named", "line"),
    [
        (13010, "jax==0.11.2", "jax[cuda13]==0.11.2"),
        (13010, "tensorflow==2.21.0", "tensorflow[and-cuda]==2.21.0"),
        (11040, "jax==0.11.2", "jax==0.11.2"),
    ],
)
def test_a_named_version_has_the_wheels_of_the_locked_one(
    version: int, named: str, line: str, driver: Callable[[int], None]
) -> None:
    driver(version)
    recipe = versions.find(named)
    locked = recipes.recipe(recipe.framework)
    assert isinstance(recipe, VersionRecipe) and line in recipe.text().splitlines()
    assert recipe.accelerator == locked.accelerator
    python = Path(recipe.directory_name(), "bin", "python")
    assert accelerators.of_interpreter(python) == locked.accelerator
    assert versions.of_stem(recipe.stem) == recipe


def test_the_index_is_asked_for_the_framework_where_a_driver_is(
    driver: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(releases, "_pip", lambda package, *_: asked.append(package) or {"0.11.2"})
    driver(13010)
    assert releases.releases("jax>=0.10") == ["jax==0.11.2"] and set(asked) == {"jax"}


def test_without_a_driver_they_are_for_cpus(monkeypatch: pytest.MonkeyPatch, driver: Callable[[int], None]) -> None:
    monkeypatch.setattr(accelerators, "LIBRARY", "libthatisnothere.so.1")
    accelerators.driver.cache_clear()
    assert accelerators.chosen() == "none"
    assert {environment.name for environment in environments.list()} >= set(recipes.RECIPES)


def test_the_locks_for_gpus_have_the_versions_of_those_for_cpus() -> None:
    facts = {"python_version": "3.13", "python_full_version": "3.13.0"}
    for recipe in recipes.every():
        own = recipes.RECIPES[recipe.framework]
        here = recipes.locked(recipe.read(recipe.lock), facts)
        assert here.items() >= recipes.locked(own.read(own.lock), facts).items(), recipe.name
        assert any(name.startswith("nvidia-") for name in here) == bool(recipe.accelerator)


@pytest.mark.needs("numpy")
def test_a_row_says_for_which_accelerator_its_wheels_are(tmp_path: Path) -> None:
    own = ready_environment("numpy").python.parents[1]
    for name, wheels in ((f"{own.name}", {}), ("numpy+cuda13-3.13-0123456789ab", {"wheels": "cuda13"})):
        (tmp_path / name).symlink_to(own)
        with RemoteBackend("numpy", python=tmp_path / name / "bin" / "python") as backend:
            assert {k: v for k, v in backend.describe().notes.items() if k == "wheels"} == wheels


def test_doctor_says_what_programs_on_gpus_lack(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver(12040)
    query = f"--query-gpu={gpus._QUERY}"
    two = [
        "0, NVIDIA A100, 40960 MiB, 40000 MiB, Exclusive_Process, Enabled",
        "1, Tesla V100, 16 MiB, 2 MiB, Default, [N/A]",
    ]
    told = {"--query-gpu=driver_version": "550.54\n550.54", query: "\n".join(two), "--query-gpu=index": "0\n1"}
    nvidia_smi(tmp_path, told, monkeypatch)
    monkeypatch.setattr(gpus, "NODES", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,7,1")
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor", "--gpu"]) == 1
    said = capsys.readouterr().out
    for words in (
        "550.54, 2 GPUs",
        "the driver runs CUDA 12.4: environments are made for cuda12; a driver that runs CUDA 13 takes newer wheels",
        "NVIDIA A100, 40000 MiB of 40960 MiB free, MIG, compute mode Exclusive_Process",
        "for GPU 0: as root: nvidia-smi -i 0 -c DEFAULT",
        "0,7,1: 7 is no GPU here, and hides those behind it",
        "for jax: xbackend env sync jax+cuda12",
        "computes on CPUs: there are no wheels of it for CUDA",
    ):
        assert words in " ".join(said.split()), words
    assert "for GPU 1" not in said and "for CUDA:" not in said  # what is only newer is no fault


MIG = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b8ea3855-276c-c9cb-b366-c6fa655957c5)"""
UNSET = "unset CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("value", "found", "remedy"),
    [
        (None, "not set: all GPUs are visible", ""),
        ("", "empty: no GPU is visible", UNSET),
        ("1,0", "1,0", ""),
        ("-1", "-1: -1 is no GPU here, so that none is visible", UNSET),
        ("2", "2: 2 is no GPU here, so that none is visible", UNSET),
        ("1, cuda0", "1, cuda0: cuda0 is no GPU here, and hides those behind it", UNSET),
        ("GPU-b8ea", "GPU-b8ea", ""),
        ("GPU-77", "GPU-77: GPU-77 is no GPU here, as nvidia-smi -L lists them, so that none is visible", UNSET),
        ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", ""),
        ("MIG-0", "MIG-0: MIG-0 is no GPU here, as nvidia-smi -L lists them, so that none is visible", UNSET),
        (
            "MIG-c6d4,MIG-cba6",
            "MIG-c6d4,MIG-cba6: a process has one instance of MIG, the first",
            "CUDA_VISIBLE_DEVICES=MIG-c6d4",
        ),
    ],
)
def test_what_is_visible_of_gpus_is_read_as_cuda_reads_it(
    value: str | None, found: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"--query-gpu=name,driver_version": "NVIDIA A100, 550.54\nNVIDIA A100, 550.54"}
    nvidia_smi(tmp_path, {"--query-gpu=index": "0\n1", "-L": MIG, **names}, monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    looked = gpus._visible()
    assert (looked.found, looked.remedy) == (found, remedy)
    said = [f"CUDA_VISIBLE_DEVICES: {found}: {remedy}"] if remedy else []
    assert gpus.hidden() == said, "a session warns of it"
    nvidia_smi(tmp_path, {}, monkeypatch)
    monkeypatch.setattr(machine, "GPUS", tmp_path)
    assert gpus.hidden() == [], "and not where there is no GPU"


def test_an_instance_of_mig_that_is_named_is_no_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {f"--query-gpu={gpus._QUERY}": "0, NVIDIA A100, 40960 MiB, 40000 MiB, Default, Enabled"}
    nvidia_smi(tmp_path, told, monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "name one instance: CUDA_VISIBLE_DEVICES=MIG-" in next(gpus._devices()).remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-c6d4f1ef")
    (looked,) = gpus._devices()
    assert looked.found.endswith("MIG") and not looked.remedy


def test_memory_that_others_have_is_a_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i}, NVIDIA A100, 40960 MiB, {free}, Default, [N/A]" for i, free in enumerate(("900 MiB", "9000 MiB"))]
    lines.append("2, NVIDIA A100, [N/A], [Insufficient Permissions], Default, [N/A]")
    nvidia_smi(tmp_path, {f"--query-gpu={gpus._QUERY}": "\n".join(lines)}, monkeypatch)
    remedies = [looked.remedy for looked in gpus._devices()]
    assert remedies == ["end the processes that nvidia-smi lists with its memory", "", ""]


@pytest.mark.parametrize(
    ("version", "asked", "said"),
    [
        (14000, "", ("the driver runs CUDA 14.0: environments are made for cuda13", "")),
        (13000, "", ("the driver runs CUDA 13.0: environments are made for cuda13", "")),
        (11040, "", ("the driver runs CUDA 11.4: environments are made for CPUs", "a driver that runs CUDA 12")),
        (
            12080,
            "cuda13",
            (
                "the driver runs CUDA 12.8, which is too old: environments are made for cuda13, as --accelerator or "
                "XBACKEND_ACCELERATOR says",
                "a driver that runs CUDA 13, or another --accelerator",
            ),
        ),
    ],
)
def test_a_driver_newer_and_older_than_the_locks(
    version: int, asked: str, said: tuple[str, str], driver: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(version)
    monkeypatch.setenv(accelerators.VARIABLE, asked)
    looked = gpus._cuda()
    assert (looked.found, looked.remedy) == said


# --- what is said of rows ------------------------------------------------------------------------------------------

GPU, CPU = {"dev0": "gpu:0", "dev1": "gpu:0"}, {"dev0": "cpu:0", "dev1": "cpu:0"}
ROWS = (
    measured("jax", [1.0, 1.001, 1.002], bindings=GPU),
    measured("numpy", [9.0, 9.001, 9.002], bindings=CPU),
    measured("pytensor-jax", [], status="failed", reason="of no device"),
)


def test_rows_on_a_gpu_and_on_cpus_say_which_they_are() -> None:
    found = of(*ROWS)
    assert "jax on gpu is the fastest: 8.99 times as fast as the next, numpy on cpu" in answer(comparisons(found))
    for text in (markdown_of(found), "\n".join(terminal.lines(found))):
        assert "jax on gpu" in text and "numpy on cpu" in text and "pytensor-jax on gpu" not in text


def test_rows_on_cpus_say_so_on_a_machine_with_a_gpu_alone() -> None:
    cpus = of(ROWS[1], measured("jax", [1.0, 1.001, 1.002], bindings=CPU))
    assert "jax is the fastest" in answer(comparisons(cpus))
    beside = replace(cpus, machine=replace(cpus.machine, accelerators=["a GPU"]))
    assert "jax on cpu is the fastest" in answer(comparisons(beside))
    two = of(measured("jax", [1.0], bindings={"dev0": "gpu:0", "dev1": "cpu:0"}), ROWS[1])
    assert comparisons(two)[0].rows[0].name == "jax on cpu and gpu, 1 device"
    assert comparisons(of(ROWS[0]))[0].rows[0].name == "jax on 1 device"
