"""`gridwright setup`: what differs here is shown and nothing is changed; nodes that are away are named."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gridwright.setup.tuning import tuning_rows
from tests.support.command import Command, wait_until
from tests.support.disks import AS_NOBODY

AWAY = """
nodes: {compute: {hosts: "gone[1-2].invalid"}}
filesystems: {disk: {type: local, path: /var/tmp}}
scheduler: {type: ssh}
"""
root = pytest.mark.root


def digests() -> dict[str, str]:
    """Every file of /etc, every setting of the table below /proc/sys and /sys, and every queue of a disk."""
    found = {}
    for path in sorted(Path("/etc").rglob("*")):
        # A link such as /etc/mtab shows what other tests mount.
        if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    settings = [
        path
        for row in tuning_rows()
        for path in (
            [Path("/proc/sys", *row.key.split("."))] if row.kind == "sysctl" else Path("/sys").glob(row.key)
        )
        if row.kind in ("sysctl", "sysfs") and not row.filesystems
    ]
    # Loop devices come and go with other tests.
    disks = [disk for disk in Path("/sys/block").iterdir() if not disk.name.startswith("loop")]
    queues = [path for disk in disks for path in (disk / "queue").glob("*") if path.is_file()]
    for path in (*settings, *queues):
        try:
            found[str(path)] = path.read_text()
        except OSError:
            continue
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param((), marks=() if os.geteuid() else pytest.mark.thorough),
        pytest.param(AS_NOBODY, marks=root),
    ],
    ids=["as I am", "not as root"],
)
def test_what_differs_is_shown_and_nothing_is_changed(
    gridwright: Command, tmp_path: Path, prefix: Sequence[str]
) -> None:
    before = digests()
    tmp_path.chmod(0o755)
    done = gridwright(
        "setup", "--local", "--check", "--diff", "--json", prefix=prefix, cwd=tmp_path, seconds=280
    )
    after = digests()
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == set()
    (node,) = done.json["nodes"]
    # A machine that is tuned already has nothing to show.
    assert done.status == (1 if node["changes"] else 0), done.err
    assert node["state"] == ("changed" if node["changes"] else "ok")
    assert done.json["met"] is (done.status == 0)
    assert node["failures"] == []
    rows = {row.name for row in tuning_rows()}
    for change in node["changes"]:
        assert change["name"] in rows or change["where"].startswith("/etc/"), change
        if change["setting"]:
            assert change["found"] != change["wanted"]
    assert {each["name"] for each in node["skipped"]} <= rows
    # What is said to differ does.
    values = {
        each["setting"]: each["found"] for each in node["changes"] if each["name"].startswith("sysctl-")
    }
    for key, value in values.items():
        assert Path("/proc/sys", *key.split(".")).read_text().split() == value.split()


@root
def test_changing_this_machine_takes_root(gridwright: Command, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = gridwright("setup", "--local", prefix=AS_NOBODY, cwd=tmp_path)
    assert done.status == 3
    assert "it needs root" in done.text
    assert "--local --check" in done.text


def test_nodes_that_are_away_are_named_with_the_reason(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(AWAY)
    done = gridwright("setup", "grid.yaml", "--check", cwd=tmp_path, seconds=120)
    assert done.status == 3
    assert "NOT REACHED" in done.out
    assert "gone1.invalid" in done.text
    assert "Traceback" not in done.text


def test_all_that_is_wrong_with_the_flags_is_said_at_once(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(AWAY)
    done = gridwright("setup", "--local", "--user", "me", "--variables", "none.yml", "--check", cwd=tmp_path)
    assert done.status == 2
    assert "there is no file none.yml" in done.text
    assert "--local is this machine alone" in done.text
    done = gridwright("setup", "grid.yaml", "--check", "--limit", "gone3.invalid", cwd=tmp_path)
    assert done.status == 2
    assert "the grid has no node 'gone3.invalid'" in done.text


def test_ctrl_c_ends_ansible_too_and_leaves_no_file(gridwright: Command, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    with gridwright.start(
        "setup", "--local", "--check", cwd=tmp_path, environment={"TMPDIR": str(place)}
    ) as run:
        begun = "gridwright-setup-*/report"
        wait_until(
            lambda: next((True for each in place.glob(begun) if each.stat().st_size), None),
            seconds=60,
            what="the first task",
            last=lambda: list(place.rglob("*"))[:20],
        )
        run.signal(signal.SIGINT)
        ended = run.end(60)
    assert ended.status == 130
    assert list(place.iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(place) not in running


def test_the_rendered_playbook_is_taken_by_plain_ansible(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(AWAY)
    out = tmp_path / "out"
    assert gridwright("render", "grid.yaml", "--out", out, cwd=tmp_path).status == 0
    listed = [sys.executable, "-m", "ansible", "playbook", "-i", "inventory.yml", "site.yml"]
    for option in ("--syntax-check", "--list-hosts"):
        done = subprocess.run(
            [*listed, option],
            cwd=out,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "gone2.invalid" in done.stdout
