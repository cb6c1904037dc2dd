"""Libraries whose streams meet the same targets: what these carry for all, and how wide files are for it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.allocation import TargetSpace
from gridwright.filesystems.layout import ALL
from gridwright.filesystems.shared_placements import LibraryStreams, load_of_fullest
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.report.terminal.prediction import prediction_text
from tests.unit.model.test_layouts import parts, predicted, spec

MB = 1e6
LIBRARY = st.builds(
    LibraryStreams,
    st.text(min_size=1, max_size=4),
    st.integers(1, 200),
    st.sampled_from([-1, 1, 2, 4, 8]),
    st.floats(1, 1e9),
)
FREE = st.one_of(
    st.none(), st.lists(st.integers(0, 1000), min_size=8, max_size=8).filter(lambda all_: sum(all_) > 0)
)


def space(free: list[int] | None) -> tuple[TargetSpace, ...] | None:
    if free is None:
        return None
    return tuple(TargetSpace(str(place), each * 2**30, 2**40) for place, each in enumerate(free))


@given(
    libraries=st.lists(LIBRARY, min_size=1, max_size=4, unique_by=lambda each: each.library),
    more=LIBRARY,
    place=st.integers(0, 4),
    free=FREE,
)
@settings(max_examples=60, deadline=None)
def test_a_library_more_never_asks_less_of_the_fullest_target(
    libraries: list[LibraryStreams], more: LibraryStreams, place: int, free: list[int] | None
) -> None:
    if more.library in {each.library for each in libraries}:
        more = replace(more, library=more.library + "+")
    among = (*libraries[:place], more, *libraries[place:])
    alone, all_ = (load_of_fullest(tuple(each), 8, space(free)) for each in (libraries, among))
    assert all_ >= alone
    mean = sum(each.streams * each.bytes_per_s for each in libraries) / 8
    assert alone >= mean * (1 - 1e-9), "the fullest target has the mean, or more"


def asked_by_hand(libraries: list[LibraryStreams], targets: int, placements: int = 4000) -> float:
    """The same file by file, as Lustre places them."""
    chance = random.Random(11)  # noqa: S311 - no secrets here
    fullest = []
    for _ in range(placements):
        asked = [0.0] * targets
        for each in libraries:
            for _ in range(each.streams):
                begin = chance.randrange(targets)
                for stripe in range(each.stripes):
                    asked[(begin + stripe) % targets] += each.bytes_per_s / each.stripes
        fullest.append(max(asked))
    return sorted(fullest)[int(0.95 * placements)]


def test_what_is_asked_is_that_of_files_placed_one_by_one() -> None:
    libraries = [LibraryStreams("data", 12, 1, 40 * MB), LibraryStreams("work", 12, 4, 100 * MB)]
    found = load_of_fullest(tuple(libraries), 16)
    assert found == pytest.approx(asked_by_hand(libraries, 16), rel=0.04)


def test_the_floor_of_a_library_counts_streams_of_the_others_on_its_osts() -> None:
    data = "data: {requires: 10 MB/s/core, layout: 1}"
    work = ", work: {requires: 12 MB/s/core, layout: 2}"
    util = ", util: {requires: 12 MB/s/core, layout: -1}"
    floors = []
    for others in ("", work, work + util):
        found = predicted(spec(f"{{{data}{others}}}")).layouts["data"]
        floor = found.at_once.floor_bytes_per_s if found.at_once else found.placed[0].floor_bytes_per_s
        floors.append(floor)
        assert (found.at_once is None) is (others == "")
    assert floors == sorted(floors, reverse=True)
    assert floors[2] < floors[0]


def test_libraries_in_pools_of_their_own_do_not_meet() -> None:
    pooled = "requires: 10 MB/s/core, layout: {stripes: 1, pool: POOL}"
    libraries = f"{{data: {{{pooled.replace('POOL', 'a')}}}, work: {{{pooled.replace('POOL', 'b')}}}}}"
    assert predicted(spec(libraries)).layouts["data"].at_once is None


def test_narrow_files_of_libraries_that_are_busy_at_once_make_the_answer_uncertain() -> None:
    grid = "{{data: {{requires: 15 MB/s/core, layout: {0}}}, work: {{requires: 15 MB/s/core, layout: {0}}}}}"
    narrow, wide = (predicted(spec(grid.format(stripes))).together for stripes in (1, -1))
    assert narrow
    assert wide
    assert narrow.share == wide.share
    assert narrow.low["read"] < 0.8 * wide.low["read"]


def test_chosen_layouts_are_wide_enough_for_all_that_are_busy_at_once() -> None:
    """Each alone needs few stripes; both at once, all of whose rates must be there, need more."""
    libraries = "{data: {requires: 20 MB/s/core}, work: {requires: 20 MB/s/core}}"
    alone = spec(libraries)
    both = alone.model_copy(
        update={"requirements": spec_requirements(1.0)},
    )
    few, more = (grid_model(each).layouts for each in (alone, both))
    widths = [[parts(layouts[name].layout)[-1][1] for name in ("data", "work")] for layouts in (few, more)]
    assert all(wider == ALL or wider > narrow > 0 for narrow, wider in zip(*widths, strict=True)), widths
    assert "leave OSTs even while" in more["data"].reason + more["work"].reason
    found = predict(grid_model(both))
    assert found.together
    assert found.together.answer == "yes"


def spec_requirements(peak_factor: float) -> object:
    from gridwright.spec.requirements import Requirements

    return Requirements.model_validate({"peak_factor": peak_factor})


def test_explain_says_who_else_is_busy() -> None:
    libraries = "{data: {requires: 10 MB/s/core, layout: 1}, work: {requires: 12 MB/s/core, layout: 2}}"
    text = " ".join(prediction_text(predicted(spec(libraries)), explain=True).split())
    assert "with data and work busy at once, 64 streams meet the same OSTs, which carry" in text
    assert "(35.7 % must be there)" in text
