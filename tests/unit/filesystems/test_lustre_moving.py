"""Files that lie otherwise than they should: by recordings of Lustre 2.17."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.filesystems.layout import (
    Component,
    FileLayout,
    FilePlacement,
    LayoutChoice,
    misplaced_bytes,
    relieving,
)
from gridwright.filesystems.lustre_client.attribute import Unread
from gridwright.filesystems.lustre_client.layout import LustreMover, parse_layout, plain, progressive
from gridwright.filesystems.lustre_client.search_program import SearchAnswer, SearchOrder
from gridwright.messages import decode, encode
from gridwright.setup.playbook import layout_rows
from gridwright.spec import parse_spec

RECORDED = Path(__file__).parents[2] / "fixtures/lustre"
FILTERS = (
    Path(__file__).parents[3]
    / "src/gridwright/filesystems/lustre_client/roles/lustre_client/filter_plugins/gridwright_layouts.py"
)
MIB, GIB = 2**20, 2**30
WANTED = progressive((256 * MIB, 1), (16 * GIB, 4), (None, -1))


def laid_out(size: int, *osts: int) -> FilePlacement:
    return FilePlacement("/f", size, FileLayout((Component(stripe_count=len(osts), osts=osts),)))


def in_pool(size: int, pool: str, *osts: int) -> FilePlacement:
    part = Component(stripe_count=len(osts), osts=osts, pool=pool)
    return FilePlacement("/f", size, FileLayout((part,)))


@pytest.mark.parametrize(
    ("file", "wanted", "misplaced"),
    [
        (laid_out(100 * MIB, 3), WANTED, 0),
        (laid_out(300 * MIB, 3), WANTED, 44 * MIB),
        (laid_out(20 * GIB, 3), WANTED, 20 * GIB - 256 * MIB),
        (laid_out(20 * GIB, *range(8)), WANTED, 16 * GIB),
        (laid_out(20 * GIB, *range(8)), plain(-1), 0),
        # More stripes than there are OSTs are as many as there are; several on one OST are one.
        (laid_out(GIB, *range(8)), plain(32), 0),
        (laid_out(GIB, 1, 1, 1, 1), plain(4), GIB),
        (laid_out(GIB, 1, 2), plain(2, pool="flash"), GIB),
        # A full OST has no part of what is made meanwhile: moved again, it would lie as it does.
        (laid_out(GIB, *range(7)), plain(-1), 0),
        (laid_out(GIB, *range(6)), plain(8), 0),
        (laid_out(GIB, *range(5)), plain(-1), GIB),
        (laid_out(GIB, *range(3)), plain(4), GIB),
        # All of a pool are fewer than all.
        (in_pool(GIB, "flash", 1, 2), plain(-1, pool="flash"), 0),
        (in_pool(GIB, "disk", 1, 2), plain(-1, pool="flash"), GIB),
        (laid_out(0, 1), plain(4), 0),
    ],
)
def test_bytes_over_another_number_of_targets_are_counted(
    file: FilePlacement, wanted: FileLayout, misplaced: int
) -> None:
    assert misplaced_bytes(file, wanted, 8) == misplaced


def test_recorded_files_are_held_against_a_layout() -> None:
    told = parse_layout((RECORDED / "212-getstripe-yaml-pfl.out").read_text())
    assert told is not None
    file = FilePlacement("/mnt/scratch/pfl", GIB, told)
    # 64 MiB on one OST, the rest on both: as the directory says where there are two.
    assert misplaced_bytes(file, progressive((64 * MIB, 1), (None, -1)), 2) == 0
    assert misplaced_bytes(file, progressive((64 * MIB, 1), (None, -1)), 4) == GIB - 64 * MIB


def test_from_a_target_that_is_too_full_as_much_is_taken_as_it_has_beyond_its_share() -> None:
    files = [laid_out(size * GIB, *osts) for size, osts in ((9, (1,)), (8, (0,)), (6, (0, 1)), (5, (1,)))]
    files += [laid_out(90 * GIB, *range(4)), laid_out(2 * GIB, 1)]
    chosen = relieving(files, {1: 12 * GIB}, 4)
    assert [each.size_bytes // GIB for each in chosen] == [9, 6]
    assert relieving(files, {}, 4) == []


def full(names: dict[str, tuple[int, int]]) -> Recorded:
    rows = "".join(
        f"osc.{name}.kbytestotal={total}\nosc.{name}.kbytesfree={free}\n"
        for name, (total, free) in names.items()
    )
    return Recorded({"lctl get_param": (0, rows, "")})


def test_targets_are_too_full_from_17_percent_on() -> None:
    client = "osc-ffff8aa3b3282800"
    three = {f"scratch-OST000{index}-{client}": (1000, free) for index, free in enumerate((900, 500, 100))}
    # 50 % in use in all: 90 % is beyond it, 50 % is not; a metadata target's own connections do not count.
    run = full({**three, "scratch-OST0002-osc-MDT0000": (1000, 0)})
    assert LustreMover(run, "scratch").excess() == {2: 400 * 1024}
    assert run.asked[0][-2:] == ["osc.scratch-OST*-osc-*.kbytestotal", "osc.scratch-OST*-osc-*.kbytesfree"]
    assert LustreMover(full({**three, f"other-OST0000-{client}": (1000, 0)})).excess() == {}


def test_files_move_to_targets_that_have_room(tmp_path: Path) -> None:
    client = "osc-ffff8aa3b3282800"
    four = {f"scratch-OST000{index}-{client}": (1000, free) for index, free in enumerate((900, 50, 800, 950))}
    run = full(four)
    mover = LustreMover(run, "scratch")
    assert mover.excess().keys() == {1}
    run.answers["lfs migrate"] = (0, "", "")
    for layout in (
        plain(1),
        plain(1),
        progressive((MIB, 1), (GIB, 2), (None, -1)),
        plain(4),
        plain(1, pool="a"),
    ):
        mover.move(FilePlacement("/l/file", MIB, layout), layout, 1e9)
    told = [" ".join(each[5:-1]) for each in run.asked if each[0] == "lfs"]
    parts = "-E 1048576 -c 1 -o 2 -E 1073741824 -c 2 -o 3,0 -E -1 -c -1"
    assert told == ["-c 1 -o 3", "-c 1 -o 0", parts, "-c 4", "-c 1 -p a"]
    run.answers["lfs migrate"] = (22, "", "error: lfs migrate: cannot create volatile file: Invalid argument")
    assert mover.move(FilePlacement("/l/file", MIB, plain(1)), plain(1), 1e9).state == "failed"
    assert run.asked[-1][5:-1] == ["-c", "1"], (
        "the server chooses where the target that was named takes nothing"
    )


class Recorded:
    """Answers with recordings."""

    def __init__(self, answers: dict[str, tuple[int, str, str]]) -> None:
        self.answers = answers
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.asked.append(command)
        status, out, err = self.answers[" ".join(command[:2])]
        return CommandOutput(status, out.encode(), err.encode())


PYTHON = f"{sys.executable} -P"


def searched(*paths: str, **told: Any) -> str:
    one = FileLayout((Component(stripe_count=1, osts=(1,)),))
    files = [FilePlacement(path, GIB, one) for path in paths]
    return encode(SearchAnswer(looked_at=len(files), misplaced=files, **told)).decode()


def test_archived_files_are_told_apart_in_what_lfs_prints_of_many() -> None:
    archived = (RECORDED / "608-hsm_release.out").read_text().splitlines()[0]
    run = Recorded(
        {
            "lctl get_param": (0, "lov.scratch-clilov-ffff.numobd=8\n", ""),
            PYTHON: (0, searched("/mnt/scratch/default", "/mnt/scratch/c2", "/mnt/scratch/nosuch"), ""),
            "lfs hsm_state": (
                2,
                f"/mnt/scratch/default: (0x00000000)\n{archived}\n",
                (RECORDED / "616-hsm_state-multi.err").read_text(),
            ),
        }
    )
    found = LustreMover(run).search(["/mnt/scratch"], MIB, WANTED, {2})
    assert [(each.path, each.kept) for each in found.misplaced] == [
        ("/mnt/scratch/default", None),
        ("/mnt/scratch/c2", "it is archived, and would be once more"),
        ("/mnt/scratch/nosuch", "nobody tells whether it is archived"),
    ]
    order = decode(run.asked[1][-2], SearchOrder)
    assert order == SearchOrder(wanted=WANTED, targets=8, full=[2], at_least_bytes=MIB)


@pytest.mark.parametrize(
    ("printed", "said", "message"),
    [
        ("", "Traceback\nNo module named gridwright", "No module named gridwright"),
        (searched(unread=1, unread_named=[Unread("/none", "No such file or directory")]), "", "No such file"),
        (
            searched(without_layout=7, is_blind=True),
            "",
            "of 7 files none has the attribute lustre.lov or trusted.lov",
        ),
        (
            searched(complete=False, unread=1, unread_named=[Unread("/l/away", "it hangs")]),
            "",
            "not ended after 60 minutes: /l/away: it hangs",
        ),
    ],
    ids=["no program", "not there", "not told", "hangs"],
)
def test_a_search_that_failed_is_an_error_and_no_empty_answer(printed: str, said: str, message: str) -> None:
    numobd = (0, "lov.scratch-clilov-ffff.numobd=8\n", "")
    run = Recorded({"lctl get_param": numobd, PYTHON: (0, printed, said)})
    with pytest.raises(GridwrightError, match=message):
        LustreMover(run).search(["/none"], 0, WANTED, ())


def test_a_file_that_an_earlier_search_has_named_may_be_gone() -> None:
    numobd = (0, "lov.scratch-clilov-ffff.numobd=8\n", "")
    gone = searched(unread=1, unread_named=[Unread("/none", "No such file or directory")])
    run = Recorded({"lctl get_param": numobd, PYTHON: (0, gone, "")})
    found = LustreMover(run).search(["/none"], 0, WANTED, (), may_be_gone=True)
    assert (found.misplaced, found.unread) == ([], 1)


@pytest.mark.parametrize(
    ("status", "said", "state"),
    [
        (0, "", "moved"),
        (16, "lfs migrate: cannot get lease: Device or resource busy", "busy"),
        (2, "lfs migrate: cannot open: No such file or directory", "gone"),
        (28, "lfs migrate: write: No space left on device", "failed"),
    ],
)
def test_a_move_is_told_by_what_lfs_ends_with(status: int, said: str, state: str) -> None:
    run = Recorded({"lfs migrate": (status, "", said)})
    move = LustreMover(run).move(laid_out(GIB, 0), WANTED, 100e6)
    assert move.state == state
    assert run.asked[0][2:5] == ["-n", "-W", "95M"]


def recorded_layouts() -> list[str]:
    found = [path.read_text() for path in sorted(RECORDED.glob("*getstripe-*yaml*.out"))]
    assert len(found) >= 5
    return found


@pytest.mark.parametrize("told", recorded_layouts())
def test_the_role_and_the_command_judge_a_layout_alike(told: str) -> None:
    loaded = importlib.util.spec_from_file_location("gridwright_layouts", FILTERS)
    assert loaded is not None
    assert loaded.loader is not None
    filters = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(filters)
    wanted = [WANTED, plain(1), plain(2), plain(2, 1048576), progressive((64 * MIB, 1), (None, -1))]
    mine = parse_layout(told)
    assert mine is not None
    spec = parse_spec(
        "name: one\nfilesystems: {s: {type: lustre, path: /s, source: 10.0.0.1@tcp:/s}}\n"
        "libraries: {work: {filesystem: s}}\n"
    )
    exact = FileLayout(tuple(Component(**without_objects(each)) for each in mine.components))
    for layout in (*wanted, exact):
        row: dict[str, Any]
        (row,) = (
            layout_rows(spec, {"work": LayoutChoice(layout, "", stated=True)})
            if no_problem(layout)
            else [{"components": []}]
        )
        assert filters.is_so(told, row["components"]) == (mine.is_as(layout) and no_problem(layout))


def without_objects(component: Component) -> dict[str, Any]:
    kept = ("start", "end", "stripe_count", "stripe_bytes", "pool", "on_metadata_server", "overstriped")
    return {name: getattr(component, name) for name in kept}


def no_problem(layout: FileLayout) -> bool:
    from gridwright.filesystems.lustre_client.layout import set_layout_command

    try:
        set_layout_command(layout, "/s")
    except GridwrightError:
        return False
    return True


def test_layouts_are_told_in_words() -> None:
    assert WANTED.text == "1 OST until 256 MiB, then 4 until 16 GiB, then all"
    assert plain(2, 2**20, "flash").text == "2 OSTs of pool flash (stripes of 1 MiB)"
    mdt = FileLayout(
        (
            Component(end=65536, stripe_count=0, on_metadata_server=True),
            Component(start=65536, stripe_count=-1),
        )
    )
    assert re.fullmatch("the metadata server until 64 KiB, then all", mdt.text)
