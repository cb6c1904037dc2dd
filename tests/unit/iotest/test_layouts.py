"""What a test tells of the layout of its files, and in which order layouts are tried."""

from __future__ import annotations

from gridwright.errors import Finding
from gridwright.filesystems.layout import read_layout_text
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.measure import lay_out, seen
from gridwright.iotest.options import LibraryTarget, TriedLayout
from gridwright.iotest.recorded import in_layouts
from gridwright.runs.iotest_events import LayoutSeen
from tests.support.lustre_files import Lfs

MIB = 1 << 20
THREE_PARTS = """\
  lcm_layout_gen:    2
  lcm_entry_count:   3
  component0:
    lcme_id:             1
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
    sub_layout:
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_objects:
      - l_ost_idx: 3
  component1:
    lcme_id:             2
    lcme_flags:          init
    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   1073741824
    sub_layout:
      lmm_stripe_count:  2
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_objects:
      - l_ost_idx: 0
      - l_ost_idx: 1
  component2:
    lcme_id:             3
    lcme_flags:          0
    lcme_extent.e_start: 1073741824
    lcme_extent.e_end:   EOF
    sub_layout:
      lmm_stripe_count:  -1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
"""
FILE = "/lake/data/.gridwright-iotest-1/stream-0.dat"
TRIED = TriedLayout("lustre", "spec", read_layout_text("-E 1M -c 1 -E 1G -c 2 -E -1 -c -1"), chosen=True)


def test_a_layout_is_told_as_far_as_the_file_reaches() -> None:
    files = [StreamPlan("read", FILE, 0, 2 * MIB), StreamPlan("read", f"{FILE}.1", 1, 1 << 40)]
    lfs = Lfs(layouts={FILE: THREE_PARTS})
    layout, finding = seen(TRIED, lfs, files, "data")
    assert isinstance(layout, LayoutSeen)
    assert layout.layout.text == "-E 1M -c 1 -S 1M -E 1G -c 2 -S 1M"
    assert layout.layout.file_bytes == 2 * MIB
    assert [each["osts"] for each in layout.layout.components] == [[3], [0, 1], []]
    assert isinstance(finding, Finding)
    assert finding.name == "layout-not-reached"
    assert "end in part 2 of 3" in finding.text


def test_fewer_stripes_than_were_asked_for_are_told() -> None:
    """As `setstripe -c 5` gives on two targets, without a word."""
    tried = TriedLayout("lustre", "5", read_layout_text("-E 1M -c 1 -E -1 -c 5"), chosen=True)
    parts = [StreamPlan("read", FILE, 0, 2 * MIB)]
    _, finding, *_ = seen(tried, Lfs(layouts={FILE: THREE_PARTS}), parts, "data")
    assert isinstance(finding, Finding)
    assert (finding.name, finding.level) == ("layout-narrower", "warning")
    assert "files have 2 stripes where the layout asks for 5" in finding.text


def test_of_a_shared_file_all_parts_count() -> None:
    parts = [StreamPlan("read", FILE, 0, 1 << 30, base=at << 30, shared=True) for at in range(2)]
    (layout,) = seen(TRIED, Lfs(layouts={FILE: THREE_PARTS}), parts, "data")
    assert isinstance(layout, LayoutSeen)
    assert layout.layout.text.endswith("-E -1 -c -1 -S 1M")


def test_the_own_layout_of_a_library_is_looked_at_and_kept() -> None:
    lfs = Lfs(layouts={"/lake/data": THREE_PARTS})
    lay_out(None, lfs, "/lake/data")
    assert lfs.asked == []
    lay_out(TriedLayout("lustre", "4", read_layout_text("4")), lfs, "/lake/data")
    assert lfs.asked == [["lfs", "getstripe", "-d", "--yaml", "/lake/data"]]
    lfs.asked.clear()
    lay_out(TRIED, lfs, "/lake/data")
    assert lfs.asked[0][:4] == ["lfs", "setstripe", "-E", "1048576"]


def test_layouts_take_turns_library_by_library() -> None:
    layout = TriedLayout("lustre", "4", read_layout_text("4"))
    on_lake = LibraryTarget("data", "/lake/data", "lake", None, 1, layout=layout)
    other = LibraryTarget("work", "/disk/work", "disk", None, 1)
    tests = [
        [(each.library, each.layout and each.layout.chosen) for each in in_layouts([on_lake, other], repeat)]
        for repeat in (1, 2)
    ]
    assert tests == [
        [("data", False), ("data", True), ("work", None)],
        [("data", True), ("data", False), ("work", None)],
    ]
