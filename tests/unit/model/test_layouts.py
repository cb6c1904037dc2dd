"""Layouts of libraries: stated, chosen by the model, advised; and refused where no file can have them."""

from __future__ import annotations

import random
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.allocation import LibraryStreams, TargetSpace, load_of_fullest
from gridwright.filesystems.layout import ALL, FileLayout
from gridwright.model.document import prediction_document
from gridwright.model.grid import check_against_catalogue, grid_model, library_layouts
from gridwright.model.grid_layouts import Streams, Targets, check_layouts, choose
from gridwright.model.predict import predict
from gridwright.model.prediction import Prediction
from gridwright.report.terminal.prediction import prediction_text
from gridwright.spec.load import load_spec, parse_spec
from gridwright.spec.model import GridSpec

MB = 1e6
PAPERS = Path(__file__).parents[3] / "examples/papers"


def spec(
    libraries: str, stripe_count: str = "", nodes: str = "{instance: m5n.4xlarge, count: 4}"
) -> GridSpec:
    text = f"""
    name: grid
    provider: aws
    region: us-east-1
    nodes:
      compute: {nodes}
    filesystems:
      shared:
        type: lustre
        path: /shared
        oss: {{instance: m5n.4xlarge, count: 4, disks: {{type: gp3, count: 4, size: 2 TiB}}}}
        mds: {{instance: m5.4xlarge, disks: {{type: gp3, size: 500 GiB}}}}
        {stripe_count}
    libraries: {libraries}
    """
    return parse_spec(textwrap.dedent(text).encode(), "grid.yaml", base=Path("/"))


def parts(layout: FileLayout) -> list[tuple[int | None, int]]:
    return [(each.end, each.stripe_count) for each in layout.components]


def meets(streams: Streams, targets: Targets, stripes: int) -> float:
    """The part of placements in which every stream has what it needs: file by file, as Lustre places them."""
    chance, met = random.Random(5), 0  # noqa: S311 - no secrets here
    for _ in range(600):
        loads = [0] * targets.count
        for _ in range(streams.count):
            begin = chance.randrange(targets.count)
            for place in range(stripes):
                loads[(begin + place) % targets.count] += 1
        met += stripes * targets.bytes_per_s / max(loads) >= streams.required_bytes_per_s
    return met / 600


@pytest.mark.parametrize(("count", "required"), [(4, 50), (16, 40), (32, 35), (64, 15), (200, 6)])
def test_the_choice_carries_all_streams_in_95_percent_of_placements(count: int, required: float) -> None:
    streams, targets = Streams(count, required * MB), Targets(16, 113 * MB)
    stripes = choose(streams, targets).layout.components[-1].stripe_count
    assert stripes != ALL
    assert meets(streams, targets, stripes) >= 0.93
    half = stripes // 2
    margin = 1.075  # of servers, which the choice leaves room for
    if half:
        assert meets(Streams(count, required * MB * margin), targets, half) < 0.97


def test_a_stream_that_needs_more_than_one_target_has_more() -> None:
    ((_, only),) = parts(choose(Streams(1, 100 * MB), Targets(16, 113 * MB)).layout)
    assert only == 1
    small, rest = parts(choose(Streams(1, 400 * MB), Targets(16, 113 * MB)).layout)
    assert small == (256 * 2**20, 1), "small files cost no more requests than they must"
    assert rest == (None, 4)


def test_what_takes_all_targets_has_all_and_one_target_is_one() -> None:
    assert choose(Streams(64, 28 * MB), Targets(16, 113 * MB)).layout.components[-1].stripe_count == ALL
    assert parts(choose(Streams(64, 28 * MB), Targets(1, 113 * MB)).layout) == [(None, 1)]


def test_a_full_ost_is_not_among_those_that_the_reason_counts() -> None:
    space = tuple(TargetSpace(str(place), 0 if place == 3 else 2**39, 2**40) for place in range(16))
    reason = choose(Streams(64, 28 * MB), Targets(16, 113 * MB, space)).reason
    assert "on 16 OSTs of 113 MB/s, 15 of which take new files: all OSTs together (1.70 GB/s)" in reason


def test_files_of_middle_size_are_no_wider_than_large_ones() -> None:
    layout = choose(Streams(32, 35 * MB), Targets(16, 113 * MB)).layout
    assert layout.text == "1 OST until 256 MiB, then 2 until 16 GiB, then 8"
    stripes = [each.stripe_count for each in layout.components]
    assert stripes == sorted(stripes)


def test_a_library_goes_before_its_file_system_and_the_model_after_both() -> None:
    found = library_layouts(
        spec("{data: {requires: 20 MB/s/core, layout: auto}, work: {layout: 2}, util: {}}", "stripe_count: 4")
    )
    assert {name: each.stated for name, each in found.items()} == {"data": False, "work": True, "util": True}
    assert parts(found["work"].layout) == [(None, 2)]
    assert parts(found["util"].layout) == [(None, 4)]
    assert "stripe_count of shared" in found["util"].reason
    assert "32 streams of 20 MB/s on 16 OSTs" in found["data"].reason


def test_what_nothing_is_known_of_has_the_advised_layout() -> None:
    known = library_layouts(spec("{data: {}}"))["data"]
    assert "nothing is required" in known.reason
    text = "filesystems: {s: {type: lustre, source: '10.0.0.1@tcp:/s', path: /s}}\nlibraries: {data: {}}\n"
    unknown = library_layouts(parse_spec(text.encode(), "grid.yaml", base=Path("/")))["data"]
    assert "nothing is known of its OSTs" in unknown.reason
    for each in (known, unknown):
        assert parts(each.layout) == [(64 * 2**20, 1), (4 * 2**30, 4), (None, ALL)]
        assert not each.stated


def predicted(each: GridSpec, streams: int | None = None) -> Prediction:
    return predict(grid_model(each), streams)


@pytest.mark.parametrize("rate", [5, 20, 35, 45, 50, 56])
def test_a_chosen_layout_costs_no_requirement_and_no_rate(rate: int) -> None:
    chosen, wide = (
        predicted(spec(f"{{data: {{requires: {rate} MB/s/core, layout: {layout}}}}}"))
        for layout in ("auto", "-1")
    )
    assert chosen.answer == wide.answer
    for operation, rates in wide.libraries[0].rates.items():
        assert chosen.libraries[0].rates[operation].bytes_per_s == rates.bytes_per_s


def test_narrow_files_widen_the_band_and_leave_the_rate() -> None:
    narrow, wide = (
        predicted(spec(f"{{data: {{requires: 40 MB/s/core, layout: {layout}}}}}")) for layout in (1, -1)
    )
    one, all_ = (each.libraries[0].rates["read"] for each in (narrow, wide))
    assert one.bytes_per_s == all_.bytes_per_s
    assert one.low_bytes_per_s < 0.5 * all_.low_bytes_per_s
    assert (narrow.answer, wide.answer) == ("within the margin", "yes")
    (placed,) = narrow.layouts["data"].placed
    assert placed.stripes == 1
    assert placed.floor_bytes_per_s < placed.median_bytes_per_s < placed.in_order_bytes_per_s


@pytest.mark.parametrize(("instance", "published"), [("m5n.4xlarge", 202.89), ("m5n.8xlarge", 154.98)])
def test_reads_of_the_large_instances_of_paper_002_lie_in_the_band_of_placements(
    instance: str, published: float
) -> None:
    """One stripe a file, 8 and 16 streams on 84 OSTs (002.t5.*): less than the network passes."""
    data = load_spec(PAPERS / "002-default-stripe.yaml").model_dump(mode="json", exclude_none=True)
    data["nodes"]["compute"]["instance"] = instance
    found = predicted(GridSpec.model_validate(data, context={"base": Path("/")}))
    (placed,) = found.layouts["data"].placed
    in_all = published * MB * found.cores
    assert placed.floor_bytes_per_s < in_all < placed.in_order_bytes_per_s
    rates = found.libraries[0].rates["read"]
    assert rates.low_bytes_per_s < in_all


def test_the_document_has_layouts() -> None:
    document = prediction_document(predicted(spec("{data: {requires: 35 MB/s/core}, work: {layout: 4}}")))
    data, work = document["layouts"]["data"], document["layouts"]["work"]
    assert [each["stripe_count"] for each in data["components"]] == [1, 2, 8]
    assert (data["stated"], work["stated"]) == (False, True)
    assert (data["streams"], data["targets"]) == (32, 16)
    assert [each["stripes"] for each in data["placed"]] == [8, 1]


def refused(each: GridSpec) -> dict[str | None, list[str]]:
    with pytest.raises(GridwrightError) as error:
        check_against_catalogue(each)
    found: dict[str | None, list[str]] = {}
    for problem in error.value.problems:
        found.setdefault(problem.field, []).append(f"{problem.what} | {problem.remedy}")
    return found


def test_more_stripes_than_targets_are_refused_at_their_field() -> None:
    text = "files are to have 17 stripes, and shared has 16 OSTs | Write 16, or -1 for all"
    assert refused(spec("{data: {}}", "stripe_count: 17")) == {"filesystems.shared.stripe_count": [text]}
    layouts = "{data: {layout: 17}, work: {layout: [{until: 1 GiB, stripes: 1}, {stripes: 17}]}, util: {}}"
    assert refused(spec(layouts)) == {
        "libraries.data.layout": [text],
        "libraries.work.layout.1.stripes": [text],
    }
    check_against_catalogue(spec("{data: {layout: 16}, work: {layout: -1}}"))


def test_parts_that_no_file_can_have_are_refused_at_their_fields() -> None:
    layout = "[{until: 1 GiB, stripes: 0}, {until: 1 GiB, stripes: 2, stripe_size: 5000 B}, {stripes: -1}]"
    assert refused(spec(f"{{data: {{layout: {layout}}}, work: {{layout: 0}}}}")) == {
        "libraries.data.layout.0.stripes": ["a stripe count of 0 | Write 1 to 2000, or -1 for all targets"],
        "libraries.data.layout.1.until": ["it ends at 1 GiB | Write a multiple of 64 KiB above 1 GiB"],
        "libraries.data.layout.1.stripe_size": [
            "a stripe size of 4.88 KiB | Write a multiple of 64 KiB below 4 GiB, such as 4 MiB"
        ],
        "libraries.work.layout": ["a stripe count of 0 | Write 1 to 2000, or -1 for all targets"],
    }


def test_a_wrong_part_of_a_layout_is_shown_with_its_line_whatever_the_provider() -> None:
    text = (
        "filesystems: {s: {type: lustre, source: '10.0.0.1@tcp:/s', path: /s}}\n"
        "libraries:\n  data:\n    layout:\n"
        "      - {stripes: 1}\n      - {until: 1 MiB}\n"
        "      - {until: 1 MB, stripes: 2}\n      - {stripes: 1}\n"
    )
    with pytest.raises(GridwrightError) as error:
        check_layouts(parse_spec(text.encode(), "grid.yaml", base=Path("/")))
    (endless,) = error.value.problems
    assert endless.what == "it has no end, and another one follows"
    assert endless.field == "libraries.data.layout.0.until"
    assert endless.where == "grid.yaml:5:9"
    with pytest.raises(GridwrightError) as error:
        check_layouts(
            parse_spec(text.replace("      - {stripes: 1}\n", "", 1).encode(), "grid.yaml", base=Path("/"))
        )
    (early,) = error.value.problems
    assert (early.field, early.where) == ("libraries.data.layout.1.until", "grid.yaml:6:17")


# Libraries whose streams meet the same targets: what these carry for all, and how wide files are for it.

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
