"""What mallory puts into the state directory runs as nobody else: real users, and the real command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gridwright.grid.node_python import script
from gridwright.iotest.coordinator.coordinator import Authority, HandedOver
from gridwright.node_programs.one_file import BATCH_JOB_STARTER
from gridwright.schedulers.batch.submission import BatchDirectories, make_batch_directories
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.slurm.job_script import SCRIPT, make_job_directories
from gridwright.spec.load import parse_spec
from gridwright.workload.exchange import ExchangeDirectory, dead_runs
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all, words_of
from tests.support.batch_places import lsf_grid
from tests.support.command import GRIDWRIGHT, wait_until
from tests.support.role_play import play, write_roles

pytestmark = pytest.mark.root
HOSTILE = "#!/bin/sh\nid -u > {marker}\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory as sites made it by the old remedy: for all to write."""
    open_to_all(tmp_path)
    made = tmp_path / "state"
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Where mallory's programs say who runs them."""
    place = tmp_path / "caught"
    place.mkdir()
    place.chmod(0o777)
    return place / "who"


def taken_by_mallory(part: Path, name: str, programs: dict[str, str], directories: tuple[str, ...]) -> None:
    """What mallory does: the part, the directory of alice in it, and programs with public names."""

    def mallory() -> None:
        os.umask(0)
        part.mkdir(mode=0o1777, exist_ok=True)
        for each in ("", *directories):
            (part / name / each).mkdir(mode=0o777)
        for program, text in programs.items():
            (part / name / program).write_text(text)
            (part / name / program).chmod(0o777)

    as_user(MALLORY, mallory)


def submit(spec: Path, *words: str, uid: int = ALICE) -> subprocess.CompletedProcess[str]:
    """The real command, by a user."""
    return subprocess.run(
        [*words_of(uid), GRIDWRIGHT, "submit", "--grid", str(spec), "--", *words],
        cwd="/", env=os.environ | {"HOME": "/nonexistent"}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


@pytest.fixture
def lsf(tmp_path: Path) -> Iterator[Path]:
    open_to_all(tmp_path)
    with lsf_grid(tmp_path) as spec:
        for name in ("data", "work", "util"):
            (tmp_path / "shared" / name).chmod(0o1777)
        yield spec


def test_a_program_that_mallory_put_where_alices_would_be_does_not_run(
    lsf: Path, tmp_path: Path, marker: Path
) -> None:
    state = tmp_path / "shared" / "state"
    state.mkdir()
    (state / "lsf").mkdir()
    (state / "lsf").chmod(0o1777)
    program = BatchDirectories(state).program.name
    text = HOSTILE.format(marker=marker)
    taken_by_mallory(
        state / "lsf", str(ALICE), {program: text, program.replace(".sh", ".pyz"): text},
        ("jobs", "logs", "runs", "fences"),
    )  # fmt: skip
    ended = submit(lsf, "true")
    assert ended.returncode == 3
    assert f"it belongs to {MALLORY}" in ended.stderr
    assert str(state / "lsf" / str(ALICE)) in ended.stderr
    assert not marker.exists()
    # Mallory, who waits for nobody, is not kept from a directory of its own, and neither is a third user.
    for uid in (MALLORY, 2003):
        ended = submit(lsf, "sh", "-c", f"id -u > {marker}-{uid}", uid=uid)
        assert ended.returncode == 0, ended.stderr
        logs, who = state / "lsf" / str(uid) / "logs", Path(f"{marker}-{uid}")
        wait_for(who, logs)
        assert who.read_text() == f"{uid}\n"


def wait_for(file: Path, logs: Path) -> None:
    """Wait until a job has written a file."""
    wait_until(
        lambda: (file.exists() and file.read_text()) or None,
        seconds=30,
        what="a job",
        last=lambda: [each.read_text() for each in logs.iterdir()],
    )


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("part", ["slurm", "lsf", "grid_engine"])
def test_each_scheduler_stops_and_names_who_took_the_directory(state: Path, part: str, umask: int) -> None:
    def use(uid: int) -> None:
        def act() -> None:
            os.umask(umask)
            made = make_job_directories(state) if part == "slurm" else make_batch_directories(state, part)
            assert made.base.lstat().st_uid == uid
            assert made.base.stat().st_mode & 0o777 == 0o700

        as_user(uid, act)

    (state / part).mkdir()
    (state / part).chmod(0o1777)
    taken_by_mallory(state / part, str(ALICE), {}, ())
    with pytest.raises(AssertionError, match=f"it belongs to {MALLORY}"):
        use(ALICE)
    (state / part / str(ALICE)).rmdir()
    as_user(MALLORY, lambda: (state / part / str(ALICE)).symlink_to(state))
    with pytest.raises(AssertionError, match=f"it is a symbolic link, and belongs to {MALLORY}"):
        use(ALICE)
    (state / part / str(ALICE)).unlink()
    for uid in (ALICE, MALLORY):
        use(uid)


def test_a_part_or_a_state_directory_of_mallorys_is_not_used(state: Path, tmp_path: Path) -> None:
    taken_by_mallory(state / "slurm", str(MALLORY), {}, ())
    as_user(MALLORY, lambda: (state / "slurm" / "x").symlink_to("/etc"))
    with pytest.raises(AssertionError, match=f"{state}/slurm: it cannot be trusted: it belongs to {MALLORY}"):
        as_user(ALICE, lambda: void(make_job_directories(state)))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, MALLORY, MALLORY)
    theirs.chmod(0o1777)
    for mode in (0o1777, 0o700):
        theirs.chmod(mode)
        with pytest.raises(AssertionError, match=f"theirs: it cannot be trusted: it belongs to {MALLORY}"):
            as_user(ALICE, lambda: void(make_job_directories(theirs)))
    linked = tmp_path / "linked"
    linked.symlink_to(state)
    os.chown(linked, MALLORY, MALLORY, follow_symlinks=False)
    with pytest.raises(AssertionError, match="it is a symbolic link"):
        as_user(ALICE, lambda: void(make_job_directories(linked)))


USES: dict[str, Callable[[Path], object]] = {
    "certificates": lambda state: HandedOver(Authority(), state, []),
    "exchange": ExchangeDirectory.create,
    "queue of the local scheduler": Store,
    "slurm": make_job_directories,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o755, 0o700])
def test_nothing_is_put_into_a_state_directory_of_mallorys(tmp_path: Path, use: str, mode: int) -> None:
    open_to_all(tmp_path)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, MALLORY, MALLORY)
    theirs.chmod(mode)
    with pytest.raises(AssertionError, match=f"theirs: it cannot be trusted: it belongs to {MALLORY}"):
        as_user(ALICE, lambda: void(USES[use](theirs)))
    assert list(theirs.iterdir()) == []


def test_the_local_scheduler_takes_no_queue_that_others_made_or_may_write(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(AssertionError, match=r"other users can write it \(mode 1777, owner root\)"):
        as_user(ALICE, lambda: void(Store(shared)))
    assert list(shared.iterdir()) == []


def void(_made: object) -> None:
    """Nothing of it matters."""


def test_programs_of_ones_own_directory_are_known_by_content(state: Path) -> None:
    (state / "slurm").mkdir()
    (state / "slurm").chmod(0o1777)
    (state / "lsf").mkdir()
    (state / "lsf").chmod(0o1777)

    def alice() -> None:
        slurm = make_job_directories(state)
        slurm.script.write_text("#!/bin/sh\nexit 7\n")
        assert slurm.script.read_text() == SCRIPT
        slurm.script.chmod(0o777)
        assert slurm.script.stat().st_mode & 0o777 == 0o755
        slurm.script.unlink()
        (slurm.base / "other").write_text("#!/bin/sh\nexit 7\n")
        (slurm.base / slurm.script.name).unlink()
        (slurm.base / "other").rename(slurm.base / "x")
        assert slurm.script.read_text() == SCRIPT
        batch = make_batch_directories(state, "lsf")
        batch.program.write_text("#!/bin/sh\nexit 7\n")
        batch._write_program()  # as each submission does
        assert batch.program.read_text() == BATCH_JOB_STARTER

    as_user(ALICE, alice)


def test_a_user_with_a_state_directory_of_its_own_needs_no_set_up(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, ALICE, ALICE)

    def alice() -> None:
        made = make_job_directories(home / "state" / "grid")
        assert made.base.is_dir()
        assert (home / "state" / "grid").stat().st_mode & 0o777 == 0o700
        ExchangeDirectory.create(home / "state" / "grid").remove()

    as_user(ALICE, alice)


def test_a_second_user_of_the_workload_is_served_whatever_the_umask(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    state = tmp_path / "state"
    before = os.umask(0o077)
    try:
        # The first user is root, as where set-up makes it.
        ExchangeDirectory.create(state).remove()
    finally:
        os.umask(before)

    def use() -> None:
        os.umask(0o022)
        other = state / "workload" / "evil"
        if os.getuid() == MALLORY:
            # As of a run that was killed, for others to clean up.
            other.mkdir(mode=0o755)
            (other / "run.json").write_text('{"process": {"pid": 1, "host": "nowhere"}}')
        made = ExchangeDirectory.create(state)
        assert other not in [each.path for each in dead_runs(state)] or os.getuid() == MALLORY
        made.remove()

    for uid in (MALLORY, ALICE):
        as_user(uid, use)
    assert (state / "workload").stat().st_uid == 0, "the first to end does not take it away from others"


def test_a_python_that_is_not_roots_is_not_run_and_its_owner_is_named(state: Path, marker: Path) -> None:
    def mallory() -> None:
        (state / "python" / "bin").mkdir(parents=True)
        (state / "python" / "bin" / "python").write_text(HOSTILE.format(marker=marker))
        (state / "python" / "bin" / "python").chmod(0o755)

    as_user(MALLORY, mallory)
    command = script("find_modules.sh", str(state / "python"), "11", "print('python')")
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert not marker.exists(), "root ran it"
    assert f"untrusted\t{state}/python\t{MALLORY}" in said or f"untrusted\t{state}/python\tUNKNOWN" in said
    own = [str(state / "python" / "bin" / "python"), "0.1.0", "11"]
    subprocess.run(script("find_python.sh", "part-x", *own), capture_output=True, timeout=60, check=True)
    assert not marker.exists(), "root ran it on a node"


def test_a_part_of_gridwright_that_mallory_unpacked_for_alice_is_not_run(state: Path, marker: Path) -> None:
    place = state / "parts" / str(ALICE) / "part-x"

    def mallory() -> None:
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python").write_text(HOSTILE.format(marker=marker))
        (place / "bin" / "python").chmod(0o755)

    as_user(MALLORY, mallory)
    for words in (["look"], []):
        command = script("unpack_part.sh", "part-x", sys.executable, str(state / "parts"), "", *words)
        done = subprocess.run(
            [*words_of(ALICE), *command], input=b"", capture_output=True, timeout=60, check=False, cwd="/"
        )
        assert done.returncode != 0
        assert b"untrusted" in done.stderr
    assert not marker.exists()


def test_a_part_that_mallory_put_into_a_shared_cache_is_not_run(state: Path, marker: Path) -> None:
    """XDG_CACHE_HOME in a sticky directory; the name of a part is public, and another one begins with it."""
    cache = state / "parts"

    def mallory() -> None:
        for name in ("part-x", "part-x-1", "part-xy"):
            place = cache / "gridwright" / name / "bin"
            place.mkdir(parents=True)
            (place / "python").write_text(HOSTILE.format(marker=marker))
            (place / "python").chmod(0o755)

    as_user(MALLORY, mallory)
    command = script("find_python.sh", "part-x", "/none/bin/python", "0.1.0", "11")
    for user in (words_of(ALICE), []):
        done = subprocess.run(
            [*user, "env", f"XDG_CACHE_HOME={cache}", *command],
            capture_output=True, text=True, timeout=60, check=False, cwd="/",
        )  # fmt: skip
        assert not done.stdout.startswith("has"), done
        assert "untrusted\t" in done.stderr
    assert not marker.exists()


SPEC = """\
name: demo
provider: site
nodes: {{compute: {{count: 1, cores: 2, memory: 2 GiB}}}}
filesystems: {{disk: {{type: local, path: {place}}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: lsf}}
state: {place}/state
"""
GIVEN: dict[str, Any] = {"state_made_here": True}


def test_set_up_makes_all_parts_and_takes_over_what_users_made_before(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    state, outside = tmp_path / "state", tmp_path / "outside"
    outside.mkdir(mode=0o700)
    state.mkdir()
    state.chmod(0o1777)
    taken_by_mallory(state / "slurm", str(ALICE), {}, ())
    as_user(MALLORY, lambda: (state / "workload").symlink_to(outside))
    as_user(MALLORY, (state / "slurm" / str(MALLORY)).mkdir)
    spec = parse_spec(SPEC.format(place=tmp_path))
    write_roles(tmp_path, spec, "state")
    from gridwright.setup.playbook import variables
    from gridwright.state_parts import PARTS

    given = {
        name: each
        for name, each in YAML(typ="safe").load(variables(spec, None)).items()
        if name == "gridwright_state"
    }
    task = [{"ansible.builtin.include_role": {"name": "state"}}]
    said = play(tmp_path, task, {**given, **GIVEN})
    assert "failed=0" in said, said
    assert f"{state}/slurm/{ALICE}: it belongs to" in said
    assert f"{state}/slurm/{MALLORY}" not in said
    assert f"{state}/workload: it is no directory, and belongs to" in said
    assert outside.stat().st_mode & 0o7777 == 0o700, "what a link points to is left alone"
    assert (state.stat().st_uid, state.stat().st_mode & 0o7777) == (0, 0o755)
    (state / "workload").unlink()
    assert "changed=1" in play(tmp_path, task, {**given, **GIVEN})
    assert {each: (state / each).lstat().st_mode & 0o7777 for each in PARTS} == dict.fromkeys(PARTS, 0o1777)
    assert {(state / each).lstat().st_uid for each in PARTS} == {0}
    assert "changed=0" in play(tmp_path, task, {**given, **GIVEN})
