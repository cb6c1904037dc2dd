"""`gridwright layout set` and `rebalance` on a library of this machine, with an lfs of the test's own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.lfs_double import attribute, installed
from tests.support.skips import root_only

pytestmark = root_only
MIB = 2**20
ONE = {"start": 0, "end": -1, "count": 1, "size": 4194304, "pattern": "raid0", "plain": True, "osts": [0]}
COMMAND = Path(sys.executable).with_name("gridwright")
LCTL = "#!/bin/sh\necho lov.scratch-clilov-ffff8aa3b3282800.numobd=8\n"


class Site:
    """A grid of this machine with a library on what its lfs takes for Lustre."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root = directory, directory / "mnt"
        self.library = self.root / "data"
        self.library.mkdir(parents=True)
        self.file = installed(directory / "bin", self.root)
        (directory / "bin/lctl").write_text(LCTL)
        (directory / "bin/lctl").chmod(0o755)
        self.spec = directory / "grid.yaml"
        self.spec.write_text(
            f"name: one\nstate: {directory / 'state'}\nscheduler: {{type: local}}\n"
            f"filesystems: {{scratch: {{type: lustre, path: {self.root}, source: 10.0.0.1@tcp:/scratch}}}}\n"
            "libraries: {data: {filesystem: scratch, layout: 4}}\n"
        )
        self.environment = {
            **os.environ, "LFS_STATE": str(self.file), "PATH": f"{directory / 'bin'}:{os.environ['PATH']}"
        }  # fmt: skip

    @property
    def state(self) -> Any:
        return json.loads(self.file.read_text())

    def change(self, **given: Any) -> None:
        self.file.write_text(json.dumps(self.state | given))

    def add(self, name: str, mib: int = 1) -> Path:
        path = self.library / name
        path.write_bytes(hashlib.sha256(name.encode()).digest() * (mib * MIB // 32))
        self.lies(path, [ONE])
        return path

    def lies(self, path: Path, parts: list[dict[str, Any]]) -> None:
        """Give a file the attribute that Lustre shows."""
        os.setxattr(path, "trusted.lov", attribute(parts))

    def argv(self, *words: str) -> list[str]:
        return [str(COMMAND), "layout", *words]

    def run(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*words), env=self.environment, cwd=self.directory, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def rebalance(self, *words: str, status: int = 0) -> dict[str, Any]:
        done = self.run("rebalance", str(self.spec), *words, "--at-least", "64KiB", "--json", status=status)
        document: dict[str, Any] = json.loads(done.stdout)
        (library,) = document["libraries"]
        return dict(library)

    def width(self, path: Path) -> int:
        return len(self.state["layouts"][str(path)][0]["osts"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.thorough
def test_a_library_gets_the_layout_of_the_spec_and_that_of_a_flag(site: Site) -> None:
    plan = site.run("set", "grid.yaml", "--dry-run").stdout
    assert f"data: {site.library}: 1 OST (stripes of 4 MiB) (that of the whole file system) -> 4 OSTs" in plan
    assert f"lfs setstripe -c 4 {site.library}" in plan
    assert site.state["layouts"] == {}
    document = json.loads(site.run("set", "grid.yaml", "data", "--json").stdout)
    assert document["libraries"][0]["changed"] is True
    assert "as it should be" in site.run("set").stdout
    parts = site.run("set", "grid.yaml", "--layout", "256MiB:1,16GiB:4,-1").stdout
    assert (
        "-> 1 OST (stripes of 4 MiB) until 256 MiB, then 4 (stripes of 4 MiB) until 16 GiB, then all" in parts
    )
    assert [each["count"] for each in site.state["layouts"][str(site.library)]] == [1, 4, -1]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layout", "many"], "'many' is no layout"),
        (["--layout", "5 KiB:1,-1"], "it ends at 5120 bytes"),
        (["date"], "did you mean data?"),
    ],
)
def test_what_cannot_be_set_is_refused(site: Site, words: list[str], said: str) -> None:
    refused = site.run("set", "grid.yaml", *words, status=2)
    assert said in refused.stderr
    assert site.state["layouts"] == {}


def test_files_move_but_those_that_are_open_archived_released_or_small(site: Site) -> None:
    large, verified, open_ = site.add("large", 2), site.add("with a blank"), site.add("open")
    archived, released, small = site.add("archived"), site.add("released"), site.library / "small"
    small.write_bytes(b"small")
    site.lies(small, [ONE])
    log = site.add("log")
    os.utime(log, (time.time() + 7200,) * 2)
    part = {"start": 0, "end": -1, "count": 1, "size": 4194304, "pattern": "raid0,released", "plain": True}
    site.lies(released, [part])
    site.change(open=[str(open_)], hsm={str(archived): 9, str(released): 13}, layouts={str(released): [part]})
    plan = site.rebalance("--dry-run")
    assert [each["bytes"] for each in plan["files"]] == [2 * MIB, MIB, MIB]
    assert {each["path"]: each["why"] for each in plan["kept"]} == {
        str(archived): "it is archived, and would be once more",
        str(released): "its bytes are in the archive",
        str(log): "it grew by appending, which gives one stripe whatever is wanted",
    }
    assert plan["estimated_by"] == "200 MB/s at most"
    told = site.run("rebalance", "grid.yaml", "--dry-run", "--at-least", "64KiB").stdout
    assert f"1 left alone, such as {log}: it grew by appending" in told
    assert plan["estimated_s"] == 0.0
    assert not (site.directory / "state/layouts").exists()
    sums = {each: hashlib.sha256(each.read_bytes()).digest() for each in (large, verified)}
    done = site.rebalance("--verify")
    assert {Path(each["path"]).name: each["state"] for each in done["files"]} == {
        "large": "moved", "with a blank": "moved", "open": "busy"
    }  # fmt: skip
    assert done["moved_bytes"] == 3 * MIB
    assert site.width(large) == site.width(verified) == 4
    assert {each: hashlib.sha256(each.read_bytes()).digest() for each in sums} == sums
    assert site.state["hsm"] == {str(archived): 9, str(released): 13}
    site.change(open=[])
    assert [each["path"] for each in site.rebalance()["files"]] == [str(open_)]
    assert site.rebalance()["files"] == []


def test_a_full_disk_is_said_with_the_journal_on_it(site: Site) -> None:
    site.add("large")
    state = site.directory / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", state], check=True, timeout=60)
    try:
        (state / "layouts").mkdir()
        (state / "layouts/data.jsonl").touch(0o644)
        with contextlib.suppress(OSError):
            (state / "full").write_bytes(bytes(16384))
        told = site.run("rebalance", str(site.spec), "--at-least", "64KiB", status=3).stderr
    finally:
        subprocess.run(["umount", state], check=True, timeout=60)
    assert f"{state}/layouts/data.jsonl: the journal cannot be written: No space left on device" in told
    assert "free space there" in told


def test_a_kill_at_any_time_loses_nothing_and_the_next_one_goes_on(site: Site) -> None:
    files = [site.add(f"file{number}") for number in range(6)]
    site.change(slow=0.3)
    words = site.argv("rebalance", str(site.spec), "--at-least", "64KiB")
    running = subprocess.Popen(words, env=site.environment, start_new_session=True, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while len(site.state["moved"]) < 2 and running.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(10)
    site.change(slow=0)
    done = site.rebalance()
    assert done["resumed"] is True
    assert 0 < len(done["files"]) <= 4
    moved = site.state["moved"]
    assert set(moved) == set(map(str, files))
    # The one that was killed may have been at its end already: it is told by its layout, and not moved again.
    assert len(moved) == 6
    assert all(site.width(each) == 4 for each in files)


def test_an_order_to_stop_ends_it_within_a_second_and_says_what_was_done(site: Site) -> None:
    site.add("first", 2)
    site.add("second")
    site.change(slow=30)
    words = site.argv("rebalance", str(site.spec), "--at-least", "64KiB", "--json")
    running = subprocess.Popen(words, env=site.environment, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while (
        not any(each[0] == "migrate" for each in site.state["asked"])
        and running.poll() is None
        and time.monotonic() < until
    ):
        time.sleep(0.02)
    begun = time.monotonic()
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=30)
    assert time.monotonic() - begun < 5  # a second, on a machine that does nothing else
    assert running.returncode == 130
    document = json.loads(said)["libraries"][0]
    assert document["stopped"] == "it was told to"
    assert [each["state"] for each in document["files"]] == ["left"] * 2
    assert site.state["moved"] == []


def test_a_release_without_a_limit_of_the_rate_moves_all_the_same(site: Site) -> None:
    file = site.add("file")
    site.change(no_limit=True)
    assert site.rebalance()["files"][0]["state"] == "moved"
    limits = ["-W" in each for each in site.state["asked"] if each[0] == "migrate"]
    assert limits == [True, False]
    assert site.width(file) == 4


def test_other_bytes_than_before_end_it_with_an_error(site: Site) -> None:
    spoilt = site.add("file", 2)
    site.add("later")
    site.change(spoils=[str(spoilt)])
    done = site.run("rebalance", "grid.yaml", "--at-least", "64KiB", "--verify", status=3)
    assert f"{spoilt}: the file holds other bytes than before it was moved" in done.stderr
    assert site.state["moved"] == [str(spoilt)]


OSC = "osc.scratch-OST0000-osc-ffff8aa3b3282800.stats"
LOADED = f"""#!/bin/sh
case "$*" in
*numobd*) echo lov.scratch-clilov-ffff8aa3b3282800.numobd=8 ;;
*stats*)
    n=$(cat {{count}} 2>/dev/null || echo 0); echo $((n + 1)) >{{count}}
    echo "{OSC}="
    echo "snapshot_time $((1795228010 + n)).0 secs.nsecs"
    echo "start_time 1795227700.0 secs.nsecs"
    echo "read_bytes 2 samples [bytes] 1 2097152 $((n * {{rate}})) 1" ;;
esac
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(("rate", "stops"), [(150_000_000, True), (90_000_000, False)])
def test_what_this_machine_moves_beside_it_stops_it(site: Site, rate: int, stops: bool) -> None:
    file = site.add("file")
    (site.directory / "bin/lctl").write_text(LOADED.format(count=site.directory / "count", rate=rate))
    # The recorded client's mount, at the site's path.
    (site.directory / "bin/cat").write_text(
        f'#!/bin/sh\n[ "$*" = /proc/mounts ] || exec /bin/cat "$@"\n'
        f"echo 10.0.0.1@tcp:/scratch {site.root} lustre rw,flock 0 0\n"
    )
    (site.directory / "bin/cat").chmod(0o755)
    done = site.rebalance(status=1 if stops else 0)
    assert site.state["moved"] == ([] if stops else [str(file)])
    if stops:
        assert done["stopped"] == "this machine moves 150 MB/s to and from it, over 100 MB/s"
        assert site.rebalance("--while-busy")["files"][0]["state"] == "moved"


@pytest.mark.thorough
def test_jobs_that_run_stop_it_and_while_busy_goes_on(site: Site) -> None:
    site.add("file")
    submit = [str(COMMAND), "submit", "--grid", str(site.spec), "--", "sleep", "60"]
    subprocess.run(submit, env=site.environment, check=True, capture_output=True, timeout=60)
    until = time.monotonic() + 30
    stopped = site.rebalance(status=1)
    while stopped["stopped"] is None and time.monotonic() < until:
        stopped = site.rebalance(status=1)
    assert "jobs use 1 cores on 1 nodes" in stopped["stopped"]
    assert site.state["moved"] == []
    assert site.rebalance("--while-busy")["files"][0]["state"] == "moved"
    cancel = [str(COMMAND), "cancel", "--grid", str(site.spec), "1"]
    subprocess.run(cancel, env=site.environment, check=True, capture_output=True, timeout=60)


def test_paths_name_a_part_and_what_is_in_no_library_is_refused(site: Site) -> None:
    one, other = site.add("one"), site.add("other")
    os.utime(one, (time.time() + 7200,) * 2)
    # A file that grew by appending is moved where it is named.
    assert [each["path"] for each in site.rebalance(str(one))["files"]] == [str(one)]
    assert str(other) not in site.state["layouts"]
    assert "the path is in no library" in site.run("rebalance", "grid.yaml", "/etc/hostname", status=2).stderr
