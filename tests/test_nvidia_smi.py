"""What is read of nvidia-smi's answers, whatever it answers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xbackend.measure import gpus, machine

# What stands in the place of what it does not tell, from the oldest drivers to the newest.
UNTOLD = (
    *("[N/A]", "N/A", "[Not Supported]", "[Insufficient Permissions]", "[Unknown Error]", "[GPU requires reset]"),
    *("[GPU is lost]", "[Not Found]", "ERR!", ""),
)
NAMES = ("NVIDIA H200", "Tesla K80", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID V100, 8Q")
SENTENCES = ("No devices were found", "No running processes found", "NVIDIA-SMI has failed", "Unable to determine")
untold = st.sampled_from(UNTOLD)
mib = st.integers(0, 10**7).map(lambda count: f"{count} MiB") | untold
anything = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=40)


def answers(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    for room in (machine, gpus):
        monkeypatch.setattr(room, "nvidia_smi", lambda _: [line.strip() for line in lines if line.strip()])


every = settings(suppress_health_check=[*HealthCheck], max_examples=200)


@every
@given(st.lists(mib | st.sampled_from(SENTENCES) | anything))
def test_free_memory_is_what_is_told_in_mebibytes(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    answers(monkeypatch, lines)
    told = [line.strip().removesuffix(" MiB") for line in lines]
    assert machine.accelerator_memory() == [int(count) << 20 for count in told if count.isdecimal()]


@every
@given(
    st.lists(st.tuples(st.integers(1, 2**22), st.sampled_from(("python", "/bin/a b,c", *UNTOLD)), mib), max_size=6),
    st.sets(st.integers(1, 2**22)),
    st.lists(untold.map(lambda word: f"{word}, {word}, {word}") | st.sampled_from(SENTENCES), max_size=3),
)
def test_others_are_the_processes_that_have_a_number(
    monkeypatch: pytest.MonkeyPatch, there: list[tuple[int, str, str]], own: set[int], rest: list[str]
) -> None:
    lines = [f"{pid}, {name}, {used}" for pid, name, used in there]
    answers(monkeypatch, [*lines, *rest])
    expected = [f"process {line.strip()}" for line, (pid, *_) in zip(lines, there, strict=True) if pid not in own]
    assert machine.accelerator_processes(own) == list(dict.fromkeys(expected))


def test_a_container_that_lists_no_process_has_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, [])
    assert machine.accelerator_processes({1}) == []


@every
@given(
    st.lists(
        st.tuples(
            st.integers(0, 15).map(str) | untold,
            st.sampled_from(NAMES),
            *(mib, mib),
            st.sampled_from(("Default", "Prohibited", "Exclusive_Process", "[N/A]")),
            st.sampled_from(("Enabled", "Disabled", "[N/A]", "[Not Supported]")),
        )
    ),
    st.lists(anything, max_size=2),
)
def test_each_line_of_a_gpu_is_one_thing_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, told: list[tuple[str, ...]], rest: list[str]
) -> None:
    lines = [*(", ".join(parts) for parts in told), *rest]
    answers(monkeypatch, lines)
    found = list(gpus._devices())
    assert len(found) == len([line for line in lines if line.strip()])
    for looked, parts in zip(found, told, strict=False):
        assert parts[1].split(",")[0] in looked.found
        if "," not in parts[1]:
            assert (f"compute mode {parts[4]}" in looked.found) == (parts[4] in ("Prohibited", "Exclusive_Process"))
            total, free = map(gpus._mib, parts[2:4])
            scarce = None not in (total, free) and free < gpus.SCARCE * total  # type: ignore[operator]
            due = parts[4] in ("Prohibited", "Exclusive_Process") or parts[5] == "Enabled" or scarce
            assert bool(looked.remedy) == due
