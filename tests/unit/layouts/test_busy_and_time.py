"""When a rebalance waits, and how long it says that it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.errors import environment_error
from gridwright.filesystems.counters import Counts, ReadCounts, TrafficCount
from gridwright.filesystems.layout import Component, FileLayout, FilePlacement
from gridwright.filesystems.lustre_client.layout import plain
from gridwright.layouts.rebalance import Rebalance, RebalanceOrder, first_of, measured_rate, traffic_beside

MB, MIB = 10**6, 2**20


def counting(*totals: int, began_anew: bool = False) -> ReadCounts:
    """Counters of one target that say these bytes, a second apart."""
    told = iter(enumerate(totals))

    def read() -> Counts:
        second, size = next(told)
        since = float(second) if began_anew else 0.0
        return {
            "OST0": TrafficCount(
                at_s=1000.0 + second, since_s=since, read_bytes=size, written_bytes=0, reads=1, writes=0
            )
        }

    return read


def away() -> Counts:
    raise environment_error("statistics of Lustre are told to root only")


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (counting(0, 150 * MB), "this machine moves 150 MB/s to and from it, over 100 MB/s"),
        (counting(10**12, 10**12 + 90 * MB), None),
        (counting(10**12, 5, began_anew=True), None),
        (away, None),
        (None, None),
        (dict, None),
    ],
    ids=["loaded", "moved much before", "remounted", "not told", "no counters", "no target"],
)
def test_what_this_machine_moves_beside_it_is_measured(read: ReadCounts | None, why: str | None) -> None:
    assert traffic_beside(read, 100 * MB, pause=lambda _: None)() == why


def test_the_first_reason_counts_and_others_are_not_asked() -> None:
    def never() -> str | None:
        raise AssertionError

    assert first_of(lambda: None, lambda: "jobs run", never)() == "jobs run"
    assert first_of()() is None


def rebalance(**given: float | bool) -> Rebalance:
    order = RebalanceOrder(
        library="data", places=["/l"], layout=plain(4), options=[], at_least_bytes=0, bytes_per_s=200e6
    )
    order = replace(order, **given)  # type: ignore[arg-type]
    one = FileLayout((Component(stripe_count=1, osts=(0,)),))
    return Rebalance(order, targets=8, found=[FilePlacement("/l/a", 1000 * MB, one)])


def test_the_time_is_that_of_the_limit_or_of_the_targets_whichever_is_longer() -> None:
    assert rebalance().estimated_s == 5.0
    assert rebalance(verify=True).estimated_s == 15.0
    # Read from one OST at 100 MB/s, and written to four of them.
    slow = rebalance(target_bytes_per_s=100e6)
    assert slow.estimated_s == 12.5
    assert slow.estimated_by == "200 MB/s at most; an OST delivers 100 MB/s"
    assert rebalance(target_bytes_per_s=1e9).estimated_s == 5.0
    measured = rebalance(target_bytes_per_s=1e9, measured_bytes_per_s=50e6)
    assert (measured.estimated_s, measured.estimated_by) == (
        20.0,
        "200 MB/s at most; the last one reached 50 MB/s",
    )


def journal(path: Path, *moves: tuple[int, float, float], tail: str = "") -> Path:
    lines = []
    for size, seconds, limit in moves:
        lines += [
            {"do": "moving", "path": "/l/a", "bytes": size, "limit": limit},
            {"do": "moved", "path": "/l/a", "why": "", "move_s": seconds},
        ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines) + tail)
    return path


def test_the_rate_of_the_last_one_is_that_of_moves_which_no_limit_held(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    assert measured_rate(path) is None
    # The first was held to its limit, the others were slower than theirs.
    moves = ((900 * MB, 9.0, 100e6), (300 * MB, 6.0, 200e6), (500 * MB, 10.0, 200e6))
    assert measured_rate(journal(path, *moves, tail='{"do": "mo')) == 50e6


@pytest.mark.parametrize(
    "moves",
    [((900 * MB, 9.0, 100e6),), ((MIB, 5.0, 200e6),), ((900 * MB, 0.0, 100e6),)],
    ids=["held by its limit", "few bytes", "no time told"],
)
def test_moves_that_say_nothing_of_the_storage_are_no_measurement(
    tmp_path: Path, moves: tuple[tuple[int, float, float], ...]
) -> None:
    assert measured_rate(journal(tmp_path / "data.jsonl", *moves)) is None


def test_journals_of_before_and_garbled_ones_tell_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"do": "moving", "path": "/a", "bytes": 5}\n{"do": "moved", "path": "/a"}\n[1]\n\x00\n')
    assert measured_rate(path) is None
