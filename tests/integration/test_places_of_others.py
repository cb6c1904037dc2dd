"""Files that root writes where mallory made the directory, or can write: real users, and what they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - whom a test becomes may not be able to read it
import pytest

from gridwright.atomic import write_atomically
from gridwright.cli.build.render import LIST, write_rendered
from gridwright.cli.plan.check import _write as write_spec
from gridwright.errors import GridwrightError
from gridwright.node_programs.users.machine import MakeHome
from gridwright.node_programs.users.planning import make_home
from gridwright.providers.lab.image import ensure_image, recipe_hash
from gridwright.providers.oci.deploy import WRITTEN, StackFiles
from gridwright.providers.provider import Caller
from gridwright.runs.directory import RunDirectory
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


def begun(runs: Path) -> RunDirectory:
    return RunDirectory.create(runs, "demo", command=["gridwright"], what=["iotest"])


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o700])
@pytest.mark.parametrize("uid", [0, ALICE])
def test_no_run_is_kept_in_a_directory_of_mallorys(mdir: Path, mode: int, uid: int) -> None:
    runs = mdir.parent / "runs"
    as_user(MALLORY, runs.mkdir)
    runs.chmod(mode)
    with pytest.raises((GridwrightError, AssertionError), match=f"belongs to {MALLORY}") as caught:
        if uid:
            as_user(uid, lambda: void(begun(runs)))
        else:
            begun(runs)
    assert "--runs DIR" in str(caught.value)
    assert names(runs) == []


def test_a_sticky_place_and_one_of_a_group_keep_runs_of_a_user(mdir: Path) -> None:
    sticky, group = mdir.parent / "sticky", mdir.parent / "group"
    for place, mode in ((sticky, 0o1777), (group, 0o2775)):
        place.mkdir()
        os.chown(place, 0 if place == sticky else ALICE, ALICE)
        place.chmod(mode)
        as_user(ALICE, lambda: void(begun(place).finish("complete")))  # noqa: B023 - called at once
        assert len(names(place)) == 1
    with pytest.raises(GridwrightError, match="belongs to"):
        begun(group)


def test_who_called_sudo_is_nobody_else_to_root(mdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = mdir.parent / "of-alice"
    as_user(ALICE, place.mkdir)
    monkeypatch.setenv("SUDO_UID", f"{ALICE}")
    begun(place / "runs").finish("complete")
    monkeypatch.setenv("SUDO_UID", f"{MALLORY}")
    with pytest.raises(GridwrightError, match=f"belongs to {ALICE}"):
        begun(place / "runs")


def void(_made: object) -> None:
    """Nothing of it matters."""


def test_results_go_where_the_run_began_whatever_its_name_means_at_its_end(mdir: Path) -> None:
    secret = secret_of(mdir)
    runs = mdir.parent / "own"
    run = begun(runs)
    moved = runs / "moved"
    run.path.rename(moved)
    run.path.symlink_to(secret)
    run.finish("complete")
    assert names(secret) == ["shadow"]
    assert {"run.json", "samples.parquet"} <= {*names(moved)}


def test_a_race_for_the_name_of_a_new_run_opens_no_directory_of_roots(mdir: Path) -> None:
    """Mallory puts a directory of root's, that lies in her reach, where the new run is made."""
    runs = mdir / "runs"
    as_user(MALLORY, runs.mkdir)
    private = mdir / "private"
    private.mkdir(mode=0o700)

    def swaps() -> None:
        for path in runs.glob(".*"):
            path.rename(mdir / "away")
            private.rename(path)

    with racing(MALLORY, swaps):
        for _ in range(50):
            with pytest.raises(GridwrightError):
                begun(runs)
    assert private.stat().st_mode & 0o777 == 0o700
    assert names(private) == []


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_root_runs_no_node_image_out_of_mallorys_cache(
    mdir: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/root")
    cache = mdir / ".cache" if variable == "HOME" else mdir
    image = cache / "gridwright" / "lab" / recipe_hash() / "rootfs"
    as_user(MALLORY, lambda: image.mkdir(parents=True))
    monkeypatch.setenv(variable, str(mdir))
    with pytest.raises(GridwrightError, match="belongs to") as caught:
        ensure_image(Caller())
    assert "use sudo -H" in str(caught.value)
    # In a sticky directory, such as /tmp as XDG_CACHE_HOME, what she made beforehand is hers.
    monkeypatch.setenv("XDG_CACHE_HOME", str(mdir.parent))
    as_user(
        MALLORY, lambda: (mdir.parent / "gridwright" / "lab" / recipe_hash() / "rootfs").mkdir(parents=True)
    )
    with pytest.raises(GridwrightError, match=f"belongs to {MALLORY}"):
        ensure_image(Caller())


@pytest.mark.parametrize("file", ["defaults.conf", "topology.conf"])
def test_clustershell_is_told_nothing_by_the_home_of_mallory(mdir: Path, file: str) -> None:
    text = {
        "defaults.conf": "[task.default]\nengine = evil\n[task.info]\nfanout = 1\n",
        "topology.conf": "[routes]\nnode1: evil\nevil: node[2-3]\n",
    }

    def mallory() -> None:
        (mdir / ".config" / "clustershell").mkdir(parents=True)
        (mdir / ".config" / "clustershell" / file).write_text(text[file])

    as_user(MALLORY, mallory)
    program = (
        "from gridwright.spec.cluster_shell import NodeSet\nfrom ClusterShell.Task import Task, task_self\n"
        "import os; print(task_self().default('engine'), Task.TOPOLOGY_CONFIGS, os.environ['HOME'])"
    )
    for more in ({}, {"CLUSTERSHELL_CFGDIR": str(mdir / ".config" / "clustershell")}):
        said = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"HOME": str(mdir)} | more, cwd="/",
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip
        assert said == f"auto ['/etc/clustershell/topology.conf'] {mdir}\n"


def test_root_gives_no_home_a_directory_that_mallory_put_in_its_place(mdir: Path) -> None:
    """Mallory owns where homes are: what root made there was chown-ed by its name."""
    homes, private = mdir / "homes", mdir / "private"
    (mdir / "etc" / "skel").mkdir(parents=True)
    (mdir / "etc" / "skel" / ".profile").write_text("")
    as_user(MALLORY, homes.mkdir)
    private.mkdir(mode=0o755)
    (private / "shadow").write_text("root")

    def swaps() -> None:
        for path in homes.glob(".anna*"):
            path.rename(mdir / f"away{path.name}")
            private.rename(path)

    with racing(MALLORY, swaps):
        for number in range(100):
            with suppress(OSError):
                make_home(MakeHome(f"/homes/anna{number}", ALICE, ALICE), mdir)
    there = list(mdir.rglob("shadow"))
    assert [path.stat().st_uid for path in there] == [0] * len(there)
    assert all(path.parent.stat().st_uid == 0 for path in there)
