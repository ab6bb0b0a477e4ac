"""The meeting of MPI's processes: the answers to each, and processes that send nonsense or go away."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from xbackend.engines.pmi import Meeting, mapping

PATIENCE = 20.0  # seconds, for immediate answers


class Process:
    """The other end of a socket pair, as an MPI process uses it."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.socket = socket.socket(fileno=os.dup(meeting.descriptor(rank)))
        self.socket.settimeout(PATIENCE)
        meeting.given(rank)
        self.lines = self.socket.makefile("rb")

    def say(self, line: str) -> None:
        self.socket.sendall(f"{line}\n".encode())

    def hear(self) -> str:
        return self.lines.readline().decode().rstrip("\n")

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def silent(self) -> bool:
        """Whether it received nothing: its next request gets the next answer."""
        return self.ask("cmd=get_universe_size").startswith("cmd=universe_size")

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    one = Meeting([0, 0, 1])
    yield one
    one.close()


@pytest.fixture
def three(meeting: Meeting) -> Iterator[list[Process]]:
    processes = [Process(meeting, rank) for rank in range(3)]
    yield processes
    for one in processes:
        one.close()


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ([0], "(vector,(0,1,1))"),
        ([0, 0, 0], "(vector,(0,1,3))"),
        ([0, 1, 2], "(vector,(0,1,1),(1,1,1),(2,1,1))"),
        ([0, 0, 1, 0], "(vector,(0,1,2),(1,1,1),(0,1,1))"),
    ],
)
def test_which_ranks_share_a_host(hosts: list[int], words: str) -> None:
    assert mapping(hosts) == words


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_the_mapping_says_the_host_of_every_rank(hosts: list[int]) -> None:
    blocks = [tuple(map(int, block)) for block in re.findall(r"\((\d+),(\d+),(\d+)\)", mapping(hosts))]
    assert [first + k for first, count, each in blocks for k in range(count) for _ in range(each)] == hosts


def test_a_process_is_told_who_it_is(meeting: Meeting) -> None:
    for rank in range(3):
        told = meeting.environment(rank)
        assert told == {"PMI_FD": str(meeting.descriptor(rank)), "PMI_RANK": str(rank), "PMI_SIZE": "3"}
        assert os.get_inheritable(int(told["PMI_FD"]))


def test_what_is_answered(three: list[Process]) -> None:
    one, other, _ = three
    assert one.ask("cmd=init pmi_version=1 pmi_subversion=1") == (
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    )
    assert one.ask("cmd=get_maxes") == "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096 rc=0"
    assert one.ask("cmd=get_appnum") == "cmd=appnum appnum=0 rc=0"
    assert one.ask("cmd=get_universe_size") == "cmd=universe_size size=3 rc=0"
    name = one.ask("cmd=get_my_kvsname")
    assert name.startswith("cmd=my_kvsname kvsname=xbackend_") and other.ask("cmd=get_my_kvsname") == name
    assert one.ask("cmd=get kvsname=x key=PMI_process_mapping") == (
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))"
    )


def test_two_meetings_have_two_names(meeting: Meeting, three: list[Process]) -> None:
    second = Meeting([0])
    own = Process(second, 0)
    try:
        assert own.ask("cmd=get_my_kvsname") != three[0].ask("cmd=get_my_kvsname")
    finally:
        own.close()
        second.close()


def test_what_one_puts_down_the_others_get(three: list[Process]) -> None:
    one, other, _ = three
    assert "rc=-1" in other.ask("cmd=get kvsname=x key=card")
    assert one.ask("cmd=put kvsname=x key=card value=a b=c d value=e") == "cmd=put_result rc=0 msg=success"
    assert other.ask("cmd=get kvsname=x key=card") == "cmd=get_result rc=0 msg=success value=a b=c d value=e"


def test_a_barrier_ends_when_all_are_there_and_can_be_met_again(three: list[Process]) -> None:
    for _ in range(2):
        for one in three[:2]:
            one.say("cmd=barrier_in")
        assert three[2].silent()
        three[2].say("cmd=barrier_in")
        assert [one.hear() for one in three] == ["cmd=barrier_out rc=0"] * 3


def test_a_line_may_come_in_pieces_and_several_at_once(three: list[Process]) -> None:
    one = three[0]
    one.socket.sendall(b"cmd=get_app")
    assert three[1].silent()
    one.socket.sendall(b"num\ncmd=get_maxes\ncmd=fina")
    assert one.hear().startswith("cmd=appnum") and one.hear().startswith("cmd=maxes")
    assert one.ask("lize") == "cmd=finalize_ack rc=0"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "cmd=",
        "cmd=dance",
        "=",
        "===",
        "\xff\xfe\x00",
        "cmd=put",
        "cmd=get",
        "cmd=put value=1",
        "a" * 70_000,
    ],
)
def test_nonsense_harms_nobody(three: list[Process], line: str) -> None:
    three[0].say(line)
    for one in three[1:]:
        assert one.ask("cmd=get_appnum") == "cmd=appnum appnum=0 rc=0"
    three[0].say("cmd=finalize")
    while (heard := three[0].hear()) != "cmd=finalize_ack rc=0":
        assert "rc=-1" in heard


@given(st.binary(max_size=300))
def test_any_bytes_harm_nobody(data: bytes) -> None:
    meeting = Meeting([0, 0])
    two = [Process(meeting, rank) for rank in range(2)]
    try:
        two[0].socket.sendall(data.replace(b"barrier", b"") + b"\n")
        assert two[1].ask("cmd=finalize") == "cmd=finalize_ack rc=0"
    finally:
        for one in two:
            one.close()
        meeting.close()


def test_a_process_that_goes_away_harms_nobody(three: list[Process]) -> None:
    three[0].say("cmd=barrier_in")
    assert three[1].silent()
    three[0].close()
    for one in three[1:]:
        assert one.ask("cmd=get_appnum") == "cmd=appnum appnum=0 rc=0"
        one.say("cmd=barrier_in")
    assert [one.hear() for one in three[1:]] == ["cmd=barrier_out rc=0"] * 2
    assert three[1].silent() and three[2].silent()


def test_at_its_end_nobody_waits(meeting: Meeting, three: list[Process]) -> None:
    three[0].say("cmd=barrier_in")
    assert three[1].silent()
    meeting.close()
    assert [one.hear() for one in three] == [""] * 3
    assert not any(thread.name == "xbackend-pmi" for thread in threading.enumerate())
