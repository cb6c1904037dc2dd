"""Libraries as the table of docs/security.md has them: root makes data, and all users write work and util."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.filesystems.library_directories import closed_to_user, make_library_directories
from gridwright.spec.load import load_spec
from tests.support.as_user import ALICE, as_user, open_to_all, words_of
from tests.support.command import GRIDWRIGHT

pytestmark = pytest.mark.root
SPEC = """\
name: shipped
provider: local
filesystems: {{disk: {{type: local, path: {0}}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    open_to_all(tmp_path)
    place = tmp_path / "disk"
    place.mkdir()
    place.chmod(0o755)
    (tmp_path / "grid.yaml").write_text(SPEC.format(place))
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", ALICE, ALICE)
    return place


def run(disk: Path, verb: str, *words: str, uid: int = ALICE) -> subprocess.CompletedProcess[str]:
    home = disk.parent / "home"
    return subprocess.run(
        [*(words_of(uid) if uid else []), GRIDWRIGHT, verb, str(disk.parent / "grid.yaml"), *words],
        cwd=home, env=os.environ | {"HOME": str(home), "XDG_STATE_HOME": ""}, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=200,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())


def made(disk: Path, umask: int = 0o077) -> None:
    before = os.umask(umask)
    try:
        make_library_directories(load_spec(disk.parent / "grid.yaml"))
    finally:
        os.umask(before)


def test_what_root_makes_is_for_all_users_whatever_the_umask(disk: Path) -> None:
    made(disk)
    modes = {each.name: each.stat().st_mode & 0o7777 for each in disk.iterdir()}
    assert modes == {"data": 0o755, "work": 0o1777, "util": 0o1777}
    done = run(disk, "doctor", "--only", "library-refuses", "--only", "library-for-reading")
    assert done.returncode == 0, done.stdout
    node = socket.gethostname()
    text = f"info library-for-reading: {node}: library data ({disk}/data): read-only for you ({ALICE})"
    assert text in said(done)


def test_a_user_makes_libraries_for_itself_and_is_told_how_root_makes_them(disk: Path) -> None:
    def refused() -> None:
        with pytest.raises(GridwrightError) as caught:
            made(disk)
        assert f"install -d -m 0755 {disk}/data && install -d -m 1777 {disk}/work {disk}/util" in str(
            caught.value
        )

    as_user(ALICE, refused)
    os.chown(disk, ALICE, ALICE)
    as_user(ALICE, lambda: made(disk))
    assert {each.stat().st_mode & 0o7777 for each in disk.iterdir()} == {0o700}


def test_a_library_that_root_alone_can_write_is_named_to_root_and_to_the_user(disk: Path) -> None:
    made(disk)
    (disk / "work").chmod(0o755)
    done = run(disk, "doctor", "--only", "library-closed", "--json", uid=0)
    (finding,) = [each for each in json.loads(done.stdout)["checks"] if not each["ok"]]
    assert finding["level"] == "warning"
    assert finding["remedy"] == f"chmod 1777 {disk}/work"
    done = run(disk, "doctor", "--only", "library-refuses")
    assert done.returncode == 1
    assert f"mend: have its owner open it: chmod 1777 {disk}/work" in said(done)
    subprocess.run(["chmod", "1777", str(disk / "work")], check=True, timeout=60)
    assert run(disk, "doctor", "--only", "library-refuses").returncode == 0


def test_prove_and_workload_of_a_user_say_what_may_be_done(disk: Path) -> None:
    made(disk)
    done = run(disk, "prove")
    assert done.returncode == 3
    assert f"library data ({disk}/data) is read-only for you" in said(done)
    assert "gridwright iotest --directory DIR" in said(done)
    assert list((disk.parent / "home").glob("runs/*")) == []
    as_user(ALICE, lambda: closes(disk))
    done = run(disk, "workload")
    assert f"{disk}/data/gridwright-workload: the data set cannot be made ready" in said(done)
    assert "have root run the same command once" in said(done)


def closes(disk: Path) -> None:
    spec = load_spec(disk.parent / "grid.yaml")
    assert closed_to_user(spec) == f"library data ({disk}/data)"


@pytest.mark.thorough
def test_a_job_that_may_make_no_directory_says_how_the_library_is_opened(disk: Path) -> None:
    made(disk)
    (disk / "util").chmod(0o755)
    home = disk.parent / "home"
    file = str(disk.parent / "grid.yaml")
    for words in (["submit", "--grid", file, "--", "true"], ["wait", "--grid", file, "1"]):
        subprocess.run(
            [*words_of(ALICE), GRIDWRIGHT, *words], cwd=home, capture_output=True, timeout=120, check=False,
            env=os.environ | {"HOME": str(home), "XDG_STATE_HOME": ""}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    done = subprocess.run(
        [*words_of(ALICE), GRIDWRIGHT, "jobs", "--grid", file, "--json"], cwd=home, capture_output=True,
        text=True, env=os.environ | {"HOME": str(home), "XDG_STATE_HOME": ""}, timeout=120, check=True,
    )  # fmt: skip
    assert f"have its owner open it, chmod 1777 {disk}/util" in done.stdout
