"""What pairs of tests in two layouts can tell, and what they must not."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from gridwright.errors import ExitStatus, Finding
from gridwright.runs.iotest_events import (
    IotestEvent,
    LayoutSeen,
    LibraryBegun,
    LibraryDone,
    PhaseDone,
    RepeatBegun,
)
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.layout_comparison import LayoutFigure
from gridwright.runs.phase_record import (
    ActualLayout,
    NodePhaseRecord,
    Op,
    PhaseRecord,
    RequestedLayout,
    RequestedSettings,
    Used,
)
from gridwright.runs.records import IotestRecord
from gridwright.runs.repeats import paired

MB = 1e6


def phase(rate: float | None, op: Op = "write", **more: object) -> PhaseRecord:
    same: dict[str, Any] = {"engine": "direct", "block_bytes": 65536, "queue_depth": 8, "streams": 1}
    asked = RequestedSettings(size_bytes=None, seconds=1.0, verify=False, seed=None, **same)
    used = Used(direct=True, io_uring=True, method="io_uring", **same)
    figures = {"ops_per_s": rate} if op == "metadata" else {"per_core_bytes_per_s": rate}
    return PhaseRecord(op=op, asked=asked, used=used, **figures, **more)  # type: ignore[arg-type]


def record_of(
    own: Sequence[PhaseRecord],
    chosen: Sequence[PhaseRecord],
    *,
    requires: float | None = None,
    found: tuple[str, str] = ("-c 1", "-c 4"),
    extra: Sequence[IotestEvent] = (),
) -> IotestRecord:
    """The record of a test whose sides measured these phases, one for each repeat."""
    reducer = IotestReducer()
    for number in range(max(len(own), len(chosen))):
        reducer.take(RepeatBegun(number=number + 1, of=len(own)))
        order = (False, True) if number % 2 == 0 else (True, False)
        for is_chosen in order:
            phases = chosen if is_chosen else own
            if number >= len(phases):
                continue
            reducer.take(
                LibraryBegun(
                    library="data", path="/lake/data", filesystem="lake", nodes=1, streams=1, cores=1,
                    requires_bytes_per_s_per_core=requires,
                    layout=RequestedLayout(name="4", text="-c 4", chosen=is_chosen),
                )
            )  # fmt: skip
            reducer.take(PhaseDone(phase=phases[number]))
            reducer.take(
                LayoutSeen(
                    layout=ActualLayout(chosen=is_chosen, text=found[is_chosen], file_bytes=1, components=[])
                )
            )
            reducer.take(LibraryDone(status="complete", exit=ExitStatus.DONE))
    for event in extra:
        reducer.take(event)
    return reducer.record("run", "complete")


def figure_of(record: IotestRecord, op: str = "write") -> LayoutFigure:
    (library,) = record.libraries
    assert library.layouts is not None
    return next(each for each in library.layouts.figures if each.of == op)


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    a, b = [100.0, 120.0, 90.0, 110.0], [130.0, 150.0, 100.0, 150.0]
    told = paired(a, b)
    assert told is not None
    logs = [math.log(second / first) for first, second in zip(a, b, strict=True)]
    oracle = stats.ttest_1samp(logs, 0.0)
    low, high = oracle.confidence_interval(0.95)
    assert (told.low, told.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert told.differs is bool(oracle.pvalue < 0.05)
    assert told.ratio == pytest.approx(stats.gmean(b) / stats.gmean(a))


def test_the_same_layout_twice_is_called_different_in_one_case_of_twenty() -> None:
    """Rates scatter by a tenth, and fall by half over the test, as where a burst runs out."""
    chance = random.Random(18)  # noqa: S311 - no secret
    cases, told = 2000, 0
    for _ in range(cases):
        sides: dict[bool, list[float]] = {False: [], True: []}
        for repeat in range(6):
            order = (False, True) if repeat % 2 == 0 else (True, False)
            for place, side in enumerate(order):
                drift = 1.0 - 0.5 * (2 * repeat + place) / 11
                sides[side].append(100 * drift * math.exp(chance.gauss(0, 0.1)))
        found = paired(sides[False], sides[True])
        assert found is not None
        told += found.differs
    # Three standard errors above 5 %; drift makes it fewer.
    assert told / cases < 0.05 + 3 * math.sqrt(0.05 * 0.95 / cases)


def test_the_least_change_is_told_in_four_cases_of_five() -> None:
    chance = random.Random(4)  # noqa: S311 - no secret
    cases = 1500
    noise = 0.05
    pairs = [math.exp(chance.gauss(0, noise)) for _ in range(6)]
    scale = noise / math.sqrt(sum((math.log(x) - math.log(stats.gmean(pairs))) ** 2 for x in pairs) / 5)
    exact = [math.exp(math.log(x) * scale) for x in pairs]
    known = paired([1.0] * 6, exact)
    assert known is not None
    told = 0
    for _ in range(cases):
        ratios = [(1 + known.least_change) * math.exp(chance.gauss(0, noise)) for _ in range(6)]
        found = paired([1.0] * 6, ratios)
        told += found is not None and found.differs
    assert told / cases == pytest.approx(0.8, abs=0.04)


def test_a_slower_layout_is_told_and_both_sides_are_kept_apart() -> None:
    own = [phase(rate * MB) for rate in (100, 104, 98, 101)]
    chosen = [phase(rate * MB) for rate in (51, 50, 49, 52)]
    record = record_of(own, chosen, requires=90 * MB)
    write = figure_of(record)
    assert write.differs is True
    assert "slower: 0.5" in write.verdict
    assert (write.default_median, write.chosen_median) == (100.5 * MB, 50.5 * MB)
    assert write.low is not None and write.high is not None and write.ratio is not None
    assert write.low < write.ratio < write.high < 1
    (library,) = record.libraries
    assert library.met is True, "jobs have the library's own layout, and that is what is judged"
    assert [each.per_core_bytes_per_s for each in library.phases] == [
        each.per_core_bytes_per_s for each in own
    ]
    assert library.repeats[0].values == [each.per_core_bytes_per_s for each in own]
    assert library.layouts is not None
    assert len(library.layouts.phases) == 4


def test_no_difference_says_how_large_a_one_would_have_been_seen() -> None:
    own = [phase(rate * MB) for rate in (100, 110, 95, 105)]
    chosen = [phase(rate * MB) for rate in (104, 100, 101, 99)]
    write = figure_of(record_of(own, chosen))
    assert write.differs is False
    assert write.verdict.startswith("no difference that 4 pairs could show; they would tell one of ")


def test_a_pair_counts_where_both_its_tests_do() -> None:
    own = [phase(100 * MB), phase(101 * MB, cached=True), phase(99 * MB), phase(100 * MB), phase(100 * MB)]
    chosen = [
        phase(50 * MB),
        phase(50 * MB),
        phase(51 * MB, disturbed=True),
        phase(None, status="interrupted"),
        phase(
            50 * MB,
            nodes=[NodePhaseRecord(node="n2", cores=1, streams=1, status="failed", reason="it is gone")],
        ),
    ]
    write = figure_of(record_of(own, chosen))
    assert (write.default, write.chosen, write.ran) == ([100 * MB], [50 * MB], 5)
    assert (write.ratio, write.differs) == (None, None)
    assert write.verdict == "nothing can be told: 1 of 5 pairs count, and it takes 3"


def test_a_layout_beside_itself_never_differs() -> None:
    own = [phase(rate * MB) for rate in (100, 101, 100, 101)]
    chosen = [phase(rate * MB) for rate in (60, 61, 60, 61)]
    record = record_of(own, chosen, found=("-c 4 -S 1M", "-c 4 -S 1M"))
    write = figure_of(record)
    assert write.differs is False
    assert write.verdict == "no difference: files had the same layout on both sides"
    assert [each.name for each in record.findings] == ["layouts-alike"]


def test_wrong_data_in_the_chosen_layout_are_a_miss() -> None:
    failed = [phase(100 * MB), phase(None, status="failed")]
    wrong = Finding("error", "wrong-data", "bytes", "do not trust it")
    record = record_of([phase(100 * MB)] * 2, failed, requires=1.0, extra=[wrong])
    assert record.libraries[0].met is False


def test_operations_of_metadata_are_compared_by_their_number() -> None:
    own = [phase(1000.0 + each, "metadata") for each in range(3)]
    chosen = [replace(each, ops_per_s=(each.ops_per_s or 0) / 4) for each in own]
    found = figure_of(record_of(own, chosen), "metadata")
    assert (found.figure, found.differs) == ("ops_per_s", True)
