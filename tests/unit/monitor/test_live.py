"""The live view by its keys, and recordings: what was shown comes back, a kill spoils one line at most."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from gridwright.errors import GridwrightError
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.gathering import PROGRAM
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.live import Player, TopApp
from gridwright.monitor.readings import MountedPlace, NodeSamples, Reading, Request, Snapshot
from gridwright.monitor.recording import Recorder, Recording
from gridwright.monitor.streams import NodeStreams, Watched
from tests.support.command import wait_until

DATA = WatchedLibrary("data", "disk", "/grid", 100e6)
PLACE = {"/grid": MountedPlace("/grid", "xfs", "sda", ("sda",))}


def snapshot(second: int, *, loads: tuple[int, ...] = (10, 30, 20)) -> Snapshot:
    """A node whose disks have moved so many MB a second, and whose jobs have moved the same."""
    counted = [("node_cpu_seconds_total", mode, 1.0 * second) for mode in ("user", "system", "iowait")]
    for name, load in zip("abc", loads, strict=True):
        for way in ("read", "written"):
            counted.append((f"node_disk_{way}_bytes_total", f"sd{name}", load * 1e6 * second))
            counted.append((f"gridwright_job_{way}_bytes_total", f"1{name}", load * 1e6 * second))
        counted.append(("gridwright_job_processes", f"1{name}", 1))
    readings = tuple(Reading(metric, (label,), value, second) for metric, label, value in counted)
    return Snapshot("n1", "boot", 1.8e9 + second, second, 8, 4, readings, places=PLACE)


def recording(path: Path, pictures: int) -> Path:
    with Recorder(path, [DATA]) as recorder:
        for second in range(pictures + 1):
            recorder.add([NodeSamples("n1", None, snapshot(second)), NodeSamples("n2", absent="no route")])
    return path


def watched(app: TopApp, look: Callable[[Pilot[None]], Awaitable[None]]) -> TopApp:
    async def run() -> None:
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause()
            await look(pilot)

    asyncio.run(run())
    return app


def column(app: TopApp, number: int = 0) -> list[str]:
    table = app.query_one(DataTable)
    return [str(table.get_row_at(row)[number]) for row in range(table.row_count)]


def heading(app: TopApp) -> str:
    return str(app.query_one("#head", Static).content)


def test_keys_change_table_order_and_tags(tmp_path: Path) -> None:
    app = TopApp(Player(Recording(recording(tmp_path / "one", 5))), 3600.0)

    async def look(pilot: Pilot[None]) -> None:
        assert column(app) == ["n1", "n2"]
        await pilot.press("z")
        assert column(app) == ["sda", "sdb", "sdc"]
        await pilot.press(">", ">")
        assert "Disks by read MB/s" in heading(app)
        assert column(app) == ["sdb", "sdc", "sda"]
        await pilot.press("down", "down", "space")
        assert column(app) == ["sda", "sdb", "sdc"]
        await pilot.press("space", "<", "<")
        assert "Disks by disk" in heading(app)
        await pilot.press("z", "z", "z")
        assert column(app) == ["1a", "1b", "1c"]
        await pilot.press("z", "q")

    assert watched(app, look).failure is None


def test_a_recording_goes_on_back_by_minutes_and_stays_where_it_is_paused(tmp_path: Path) -> None:
    player = Player(Recording(recording(tmp_path / "one", 100)))
    app = TopApp(player, 3600.0)

    async def look(pilot: Pilot[None]) -> None:
        assert player.state == "picture 1 of 100"
        await pilot.press("right", "right")
        assert (player.at, app.paused) == (2, True)
        await pilot.press("tab")
        assert player.at == 62
        await pilot.press("tab")
        assert "picture 100 of 100" in heading(app)
        await pilot.press("shift+tab", "left")
        assert player.at == 38
        assert "2 nodes · 1 away · picture 39 of 100 · paused" in heading(app)
        await pilot.press("p")
        assert not app.paused

    watched(app, look)


class Counting:
    """Pictures of a node that goes on."""

    state = ""
    second = 0

    def next(self) -> Frame | None:
        self.second += 1
        return frame_of([NodeSamples("n1", snapshot(self.second), snapshot(self.second + 1))])


def test_what_is_watched_goes_on_while_the_picture_stands() -> None:
    pictures = Counting()
    app = TopApp(pictures, 0.01)

    async def look(pilot: Pilot[None]) -> None:
        await pilot.press("p")
        shown, taken = heading(app), pictures.second
        while pictures.second < taken + 5:
            await pilot.pause(0.01)
        assert heading(app) == shown
        assert "paused" in shown
        await pilot.press("left", "tab")
        assert heading(app) == shown, "nothing watched goes back"
        await pilot.press("p")
        while heading(app) == shown.replace(" · paused", ""):
            await pilot.pause(0.01)

    watched(app, look)


def test_what_was_recorded_is_what_was_shown(tmp_path: Path) -> None:
    played = Recording(recording(tmp_path / "one", 3))
    shown = frame_of(
        [NodeSamples("n1", snapshot(2), snapshot(3)), NodeSamples("n2", absent="no route")], [DATA]
    )
    assert len(played) == 3
    assert played.frame(2) == shown
    assert shown.libraries[0].written_bytes_per_s == pytest.approx(10e6)


@pytest.mark.parametrize("lost", [1, 40, 500])
def test_a_torn_last_line_is_passed_over(tmp_path: Path, lost: int) -> None:
    path = recording(tmp_path / "one", 3)
    whole = Recording(path).frame(1)
    os.truncate(path, path.stat().st_size - lost)
    assert len(Recording(path)) == 2
    assert Recording(path).frame(1) == whole


def test_a_node_that_is_late_keeps_its_last_rates_in_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "one"
    with Recorder(path, []) as recorder:
        for second in (1, 2, 2, 2):
            recorder.add([NodeSamples("n1", None, snapshot(second))])
    played = Recording(path)
    assert [played.frame(number).disks for number in (1, 2)] == [played.frame(0).disks] * 2
    assert played.frame(0).disks[0].read_bytes_per_s == pytest.approx(10e6)


def test_what_is_no_recording_or_is_there_already_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("name: demo\n")
    with pytest.raises(GridwrightError, match="no recording"):
        Recording(other)
    with pytest.raises(GridwrightError, match="cannot be read"):
        Recording(tmp_path / "nowhere")
    with pytest.raises(GridwrightError, match="fewer than two samples"):
        Recording(recording(tmp_path / "short", 0))
    with pytest.raises(GridwrightError, match="is there already"):
        Recorder(other, [])
    spoilt = recording(tmp_path / "spoilt", 2)
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"cpus":8', b'"cpus":"', 1))
    with pytest.raises(GridwrightError, match="line 2 cannot be read"):
        Recording(spoilt).frame(0)


def test_a_full_disk_ends_the_view_with_the_reason() -> None:
    streams = NodeStreams({}, Request())
    recorder = Recorder.__new__(Recorder)
    recorder.path, recorder._file = Path("/dev/full"), os.open("/dev/full", os.O_WRONLY)

    class Full:
        state = ""

        def next(self) -> Frame | None:
            recorder.add([NodeSamples("n1", None, snapshot(1))])
            return None

    async def look(_pilot: Pilot[None]) -> None:
        pass

    app = watched(TopApp(Full(), 3600.0), look)
    os.close(recorder._file)
    streams.close()
    assert "No space left" in str(app.failure)


def test_this_machine_is_watched_by_one_sampler_and_a_node_without_one_says_why(tmp_path: Path) -> None:
    here = socket.gethostname()
    missing = [sys.executable, "-c", "import sys; sys.exit('ssh: no route to host')"]
    with (
        NodeStreams({here: PROGRAM, "n2": missing}, Request(0.1, 0)) as streams,
        Recorder(tmp_path / "one", []) as recorder,
    ):
        pictures = Watched(streams, [], recorder)

        def rates() -> Frame | None:
            frame = pictures.next() or frame_of([])
            told = [row.absent for row in frame.nodes] == ["", "ssh: no route to host"]
            return frame if told and frame.nodes[0].user is not None else None

        wait_until(rates, seconds=30, what="rates of this machine", last=streams.read)
        processes = [each.process for each in streams._streams.values()]
    assert all(each is not None and each.poll() is not None for each in processes)
    played = Recording(tmp_path / "one")
    assert played.frame(len(played) - 1).nodes[1].absent == "ssh: no route to host"


def served(second: int) -> Snapshot:
    """A server of two file systems, of which each target reads and writes."""
    of = (("a-OST0000", 30), ("a-OST0001", 10), ("b-OST0000", 60))
    readings = [
        Reading(f"lustre_{way}_{what}_total", ("ost", way, target), load * 1e6 * second, second)
        for target, load in of
        for way in ("read", "write")
        for what in ("bytes", "samples")
    ]
    readings += [Reading("gridwright_connection_state", ("MDT0000", "a-OST0001", "DISCONN"), 1.0, second)]
    return Snapshot("oss1", "boot", 1.8e9 + second, second, 8, 4, tuple(readings))


def test_keys_choose_a_file_system_servers_and_parts(tmp_path: Path) -> None:
    path = tmp_path / "one"
    with Recorder(path, []) as recorder:
        for second in range(3):
            recorder.add([NodeSamples("oss1", None, served(second))])
    app = TopApp(Player(Recording(path)), 3600.0)

    async def look(pilot: Pilot[None]) -> None:
        await pilot.press("z", "z", "z")
        assert "OSTs by OST" in heading(app)
        assert column(app) == ["a-OST0000", "a-OST0001", "b-OST0000"]
        assert column(app, 1) == ["-", "D", "-"]
        assert column(app, 5) == ["30.0", "10.0", "60.0"]
        await pilot.press("P")
        assert "rates as parts of their sum" in heading(app)
        assert column(app, 7) == ["30%", "10%", "60%"]
        await pilot.press("P", "f")
        assert "· a ·" in heading(app)
        assert column(app) == ["a-OST0000", "a-OST0001"]
        await pilot.press("c")
        assert (column(app), column(app, 5)) == (["(2)"], ["40.0"])
        await pilot.press("f")
        assert (column(app), column(app, 5)) == (["(1)"], ["60.0"])
        await pilot.press("f")
        assert (column(app), column(app, 5)) == (["(3)"], ["100.0"])
        await pilot.press("R")
        assert "record" not in heading(app), "a recording is not recorded"

    assert watched(app, look).failure is None


def test_a_key_begins_a_recording_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Streams(NodeStreams):
        second = 0

        def read(self) -> list[NodeSamples]:
            self.second += 1
            return [NodeSamples("oss1", served(self.second), served(self.second + 1))]

    pictures = Watched(Streams({}, Request()), [DATA], None)
    app = TopApp(pictures, 3600.0)

    async def look(pilot: Pilot[None]) -> None:
        await pilot.press("R")
        assert "recording gridwright-" in heading(app)
        for _ in range(3):
            pictures.next()
        await pilot.press("R")
        assert "recording" not in heading(app)

    watched(app, look)
    (path,) = tmp_path.iterdir()
    assert (path.name.startswith("gridwright-"), len(Recording(path))) == (True, 2)
    assert Recording(path).libraries == (DATA,)
    pictures.close()


def test_targets_of_a_server_that_is_away_stand_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "one"
    with Recorder(path, []) as recorder:
        for second in range(3):
            recorder.add([NodeSamples("oss1", None, served(second))])
        recorder.add([NodeSamples("oss1", absent="no route")])
    frame = Recording(path).frame(2)
    assert {(row.target, row.server, row.read_bytes_per_s, row.stale) for row in frame.osts} == {
        (target, "oss1", None, "no route") for target in ("a-OST0000", "a-OST0001", "b-OST0000")
    }
    assert Recording(path).frame(1).osts[0].stale == ""
    # Another server has taken one of them over.
    samples = [
        NodeSamples("oss1", absent="no route", last_known=served(1)),
        NodeSamples("oss2", served(1), served(2)),
    ]
    assert {(row.server, row.stale) for row in frame_of(samples).osts} == {("oss2", "")}


def test_a_sparse_file_is_no_recording_and_takes_no_memory(tmp_path: Path) -> None:
    path = recording(tmp_path / "one", 3)
    for content, said in ((b"", "no recording"), (path.read_bytes(), "the limit of a sample")):
        path.write_bytes(content)
        with path.open("r+b") as file:
            file.truncate(5 << 30)
        tracemalloc.start()
        try:
            with pytest.raises(GridwrightError, match=said):
                Recording(path)
            assert tracemalloc.get_traced_memory()[1] < 300 << 20
        finally:
            tracemalloc.stop()
