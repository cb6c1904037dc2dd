"""Files that root writes where mallory made the directory, or can write: real users, and what they did."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.cli.build.rendered_directory import LIST, write_rendered
from gridwright.cli.plan.init import _write as write_spec
from gridwright.errors import GridwrightError
from gridwright.providers.oci.deploy.stack_directory import WRITTEN, StackFiles
from gridwright.runs.atomic import write_atomically
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all, racing

pytestmark = pytest.mark.root
FILES = {"slurm/slurm.conf": "A=1\n", "bundle-nodes.key": "secret\n"}


@pytest.fixture
def mdir(tmp_path: Path) -> Path:
    """A directory of mallory's, in a sticky one, and one of root's that is not hers (`secret`)."""
    open_to_all(tmp_path)
    (tmp_path / "secret").mkdir(mode=0o700)
    (tmp_path / "secret" / "shadow").write_text("root")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    made = shared / "mdir"
    as_user(MALLORY, lambda: made.mkdir(mode=0o755))
    return made


def secret_of(mdir: Path) -> Path:
    return mdir.parent.parent / "secret"


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_the_list_that_mallory_wrote_removes_nothing_of_roots(mdir: Path) -> None:
    secret = secret_of(mdir)

    def mallory() -> None:
        (mdir / "x").mkdir()
        (mdir / "x" / "l").symlink_to(secret)
        content = {"schema": 1, "files": {"x/l/shadow": ["0"], "x/l": ["0"]}}
        (mdir / LIST).write_text(json.dumps(content))

    as_user(MALLORY, mallory)
    with pytest.raises(GridwrightError, match=f"it belongs to {MALLORY}"):
        write_rendered(mdir, FILES, overwrite=True)
    assert (secret / "shadow").read_text() == "root"
    assert not (mdir / "bundle-nodes.key").exists()
    # As it is where her directory was given to root, and what is in it stayed hers.
    os.chown(mdir, 0, 0)
    with pytest.raises(GridwrightError, match=f"{LIST}: it cannot be trusted: it belongs to {MALLORY}"):
        write_rendered(mdir, FILES, overwrite=True)
    assert (secret / "shadow").read_text() == "root"


def test_nothing_is_rendered_through_a_link_or_into_a_directory_of_mallorys(mdir: Path) -> None:
    secret = secret_of(mdir)
    as_user(MALLORY, lambda: (mdir / "slurm").symlink_to(secret))
    os.chown(mdir, 0, 0)
    with pytest.raises(GridwrightError, match="slurm"):
        write_rendered(mdir, FILES, overwrite=True)
    assert names(secret) == ["shadow"]
    (mdir / "slurm").unlink()
    (mdir / "slurm").mkdir()
    os.chown(mdir / "slurm", MALLORY, MALLORY)
    with pytest.raises(GridwrightError, match="other users can write a directory on the way"):
        write_rendered(mdir, FILES, overwrite=True)
    assert names(mdir) == ["slurm"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_nothing_is_rendered_where_others_write(mdir: Path, mode: int) -> None:
    os.chown(mdir, 0, MALLORY)
    mdir.chmod(mode)
    with pytest.raises(GridwrightError, match="other users can write"):
        write_rendered(mdir, FILES, overwrite=True)
    assert names(mdir) == []


def test_in_a_sticky_directory_a_user_renders_a_directory_of_its_own_and_keys_are_closed(mdir: Path) -> None:
    out = mdir.parent / "own"

    def alice() -> None:
        os.umask(0o002)
        assert {each.state for each in write_rendered(out, FILES, overwrite=False)} == {"written"}
        assert (out / "bundle-nodes.key").stat().st_mode & 0o777 == 0o600
        assert {each.state for each in write_rendered(out, FILES, overwrite=False)} == {"unchanged"}
        left = write_rendered(out, {"bundle-nodes.key": "secret\n"}, overwrite=False)
        assert [(each.path, each.state) for each in left][-1] == ("slurm/slurm.conf", "removed")

    as_user(ALICE, alice)


def test_a_stack_of_mallorys_is_neither_written_nor_removed(mdir: Path) -> None:
    secret = secret_of(mdir)

    def mallory() -> None:
        (mdir / "network").mkdir()
        (mdir / "network" / "l").symlink_to(secret)
        (mdir / "network" / WRITTEN).write_text('["l/shadow"]')

    as_user(MALLORY, mallory)
    files = StackFiles(mdir)
    with pytest.raises(GridwrightError, match=f"it belongs to {MALLORY}"), files.held():
        files.put("network", {"main.tf.json": b"{}"})
    os.chown(mdir, 0, 0)
    acts: list[Callable[[], object]] = [lambda: files.put("network", {}), lambda: files.remove("network")]
    for act in acts:
        with pytest.raises(GridwrightError, match=f"it belongs to {MALLORY}"), files.held():
            act()
    assert (secret / "shadow").read_text() == "root"


def test_a_link_of_mallorys_leads_no_file_into_a_directory_of_roots(mdir: Path) -> None:
    secret = secret_of(mdir)
    as_user(MALLORY, lambda: (mdir / "dashboards").symlink_to(secret))
    with pytest.raises(OSError, match=f"dashboards is a link of {MALLORY}"):
        write_atomically(mdir / "dashboards" / "shadow", "mallory's")
    assert (secret / "shadow").read_text() == "root"
    (mdir.parent.parent / "own").symlink_to(mdir)
    write_atomically(mdir.parent.parent / "own" / "report.html", "a report")
    assert (mdir / "report.html").read_text() == "a report"


def test_init_opens_no_file_of_roots_to_others(mdir: Path) -> None:
    """Mallory puts a link where the temporary file is: what was made readable then was the link's target."""
    shadow = secret_of(mdir) / "shadow"
    shadow.chmod(0o600)

    def swaps() -> None:
        for path in mdir.glob(".*"):
            path.unlink()
            path.symlink_to(shadow)

    with racing(MALLORY, swaps):
        for _ in range(300):
            try:
                write_spec(mdir / "g1.yaml", "provider: local\n", True)
            except GridwrightError:
                continue
    assert shadow.stat().st_mode & 0o777 == 0o600
    assert shadow.read_text() == "root"
