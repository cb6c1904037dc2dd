"""What mmpmon tells is read from one process, which is left alone for a while where it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.scale.mmpmon import Mmpmon, ScaleWatcher, parse_fs_io
from gridwright.monitor.mount_sources import InProcess

ROW = (
    "_fs_io_s_ _n_ 10.0.0.1 _nn_ node1 _rc_ 0 _t_ 1066660148 _tu_ 407431 _cl_ c1 _fs_ {fs} _d_ 2 "
    "_br_ {read} _bw_ {written} _oc_ 10 _cc_ 16 _rdc_ 101 _wc_ 300 _dir_ 7 _iu_ 2"
)
"""In the form that IBM's manual has it."""
DOUBLE = f"""
import sys
asked = 0
for line in sys.stdin:
    if line.strip() == "fs_io_s":
        asked += 1
        for fs in ("gpfs0", "gpfs1"):
            print({ROW!r}.format(fs=fs, read=1000 * asked, written=5))
    elif line.strip() == "ver":
        print("_ver_ _n_ 10.0.0.1 _nn_ node1 _v_ 3 _lv_ 3 _vt_ 0", flush=True)
    if asked == int(sys.argv[1]):
        break
"""


def double(answers: int) -> Mmpmon:
    return Mmpmon([sys.executable, "-c", DOUBLE, str(answers)])


def test_one_process_answers_again_and_again_for_each_mount(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text("gpfs1 /work gpfs rw 0 0\n")
    mmpmon = double(9)
    read = ScaleWatcher(mmpmon).mount_counters(InProcess(tmp_path), "/work", tmp_path)
    assert read is not None
    first, second = read()["gpfs1"], read()["gpfs1"]
    assert (first.read_bytes, second.read_bytes) == (1000, 2000)
    assert (first.at_s, first.target, first.reads, first.writes) == (1066660148.407431, "/work", 101, 300)
    mmpmon.close()


def test_one_that_ends_or_is_not_there_is_told_and_left_alone() -> None:
    ending = double(1)
    with pytest.raises(GridwrightError, match="it has ended"):
        ending.counts()
    with pytest.raises(GridwrightError, match="it has ended"):
        ending.counts()
    missing = Mmpmon(["/usr/lpp/mmfs/bin/nothing"])
    with pytest.raises(GridwrightError, match="No such file"):
        missing.counts()


def test_rows_of_an_error_are_passed_over() -> None:
    text = (
        ROW.format(fs="good", read=1, written=2)
        + "\n"
        + ROW.format(fs="bad", read=1, written=2).replace("_rc_ 0", "_rc_ 1")
    )
    assert set(parse_fs_io(text)) == {"good"}
    assert parse_fs_io(ROW.format(fs="odd", read="many", written=2)) == {}


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_fs_io(text)
    parse_fs_io(f"_fs_io_s_ {text}")
