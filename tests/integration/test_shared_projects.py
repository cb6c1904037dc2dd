"""Users of one group share a directory of a project, whose setgid bit gives the group what is new in it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.filesystems.library_directories import make_library_directories
from gridwright.report.page import write_report
from gridwright.runs.directory import load_run
from gridwright.runs.place import find_run
from gridwright.schedulers.local.store import Store
from gridwright.setup.playbook import read_site_roles
from gridwright.spec import load_spec, parse_spec
from tests.support.as_user import ALICE, as_user, open_to_all
from tests.support.records import finished_run

pytestmark = pytest.mark.root
BEN, PROJECT = 2003, 2900


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory as `install -d -m 2775 -o root -g project` makes it."""
    # Whom a test becomes may not be able to read what is imported late.
    write_report(finished_run(tmp_path / "warm"))
    load_run(find_run(tmp_path / "warm", "last"))
    open_to_all(tmp_path)
    place = tmp_path / "project"
    place.mkdir()
    os.chown(place, 0, PROJECT)
    place.chmod(0o2775)
    return place


def of_alice(runs: Path, umask: int) -> Path:
    """A finished run that alice began with a umask, beside a directory that she made by hand."""

    def begins() -> None:
        os.umask(umask)
        finished_run(runs)
        (runs / "plain").mkdir()

    as_user(ALICE, begins, [PROJECT])
    (run,) = runs.glob("*/run.json")
    return run.parent


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o027, 0o077])
def test_a_run_is_open_to_whom_the_umask_and_the_directory_let_in(project: Path, umask: int) -> None:
    run = of_alice(project / "runs", umask)
    plain = (run.parent / "plain").stat()
    for made in (run, run / "logs"):
        assert (oct(made.stat().st_mode), made.stat().st_gid) == (oct(plain.st_mode), PROJECT), made
    for file in run.glob("*.*"):
        assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_gid) == (0o666 & ~umask, PROJECT), file

    def reads() -> None:
        assert load_run(run).run.status == "complete"

    if umask & 0o040:
        with pytest.raises(AssertionError, match="Permission denied"):
            as_user(BEN, reads, [PROJECT])
    else:
        as_user(BEN, reads, [PROJECT])


def test_no_umask_lets_all_write_a_run_nor_the_group_of_one_of_roots(tmp_path: Path, project: Path) -> None:
    as_user(ALICE, (project / "runs").mkdir, [PROJECT])
    assert of_alice(project / "runs", 0).stat().st_mode & 0o7777 == 0o2775
    place = tmp_path / "of-root"
    place.mkdir()
    os.chown(place, 0, PROJECT)
    place.chmod(0o2755)
    before = os.umask(0o002)
    try:
        made = finished_run(place)
    finally:
        os.umask(before)
    assert (stat.S_IMODE(made.stat().st_mode), made.stat().st_gid) == (0o2755, PROJECT)


def refused(uid: int, act: Callable[[], object], groups: Sequence[int] = ()) -> str:
    """What a user is told who is refused, on one line."""

    def tries() -> None:
        with pytest.raises(GridwrightError) as caught:
            act()
        raise RuntimeError(f"told: {' '.join(str(caught.value).split())}")

    with pytest.raises(AssertionError) as failed:
        as_user(uid, tries, groups)
    return str(failed.value).rpartition("told: ")[2].strip()


def test_the_report_of_somebody_elses_run_is_named_where_it_is_current(project: Path) -> None:
    run = of_alice(project / "runs", 0o022)

    def names() -> None:
        assert write_report(run) == run / "report.html"

    told = refused(BEN, lambda: write_report(run), [PROJECT])
    assert "the report cannot be written" in told
    assert f"directory {run} belongs to {ALICE} (mode 2755)" in told
    assert "--out FILE" in told
    as_user(ALICE, names, [PROJECT])
    as_user(BEN, names, [PROJECT])
    os.utime(run / "report.html", (1, 1))
    assert "the report cannot be written" in refused(BEN, lambda: write_report(run), [PROJECT])


def test_a_path_that_names_no_run_is_named_with_the_reason(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, ALICE, ALICE)
    run = of_alice(home / "runs", 0o022)
    home.chmod(0o700)
    here = project / "runs"
    told = refused(BEN, lambda: find_run(here, str(run)))
    assert told.startswith(f"{run}: the run cannot be read: Permission denied: directory {home} belongs to")
    assert f"have {ALICE} run setfacl -m u:{BEN}:x {home}" in told
    told = refused(BEN, lambda: find_run(here, str(project / "absent")))
    assert told.startswith(f"{project / 'absent'}: no run is here: No such file")
    told = refused(BEN, lambda: find_run(run.parent, "last"))
    assert "there are no runs here" not in told
    assert f"directory {home} belongs to {ALICE}" in told


def test_who_keeps_a_user_from_a_file_is_named_and_what_its_owner_can_do(project: Path) -> None:
    home = project.parent / "home"
    home.mkdir()
    file = home / "grid.yaml"
    file.write_text("provider: local\n")
    for each in (file, home):
        os.chown(each, ALICE, PROJECT)
    file.chmod(0)
    assert f"chmod u+r {file}; or" in refused(ALICE, lambda: load_spec(file))
    told = refused(BEN, lambda: load_spec(file), [PROJECT])
    assert f"it belongs to {ALICE} (mode 0000) have {ALICE} run chmod g+r {file}" in told
    assert f"have {ALICE} run setfacl -m u:{BEN}:r {file}" in refused(BEN, lambda: load_spec(file))
    home.chmod(0o700)
    told = refused(BEN, lambda: load_spec(file), [PROJECT])
    assert f"directory {home} belongs to {ALICE} (mode 0700) have {ALICE} run chmod g+x {home}" in told


def test_each_way_to_refuse_a_state_directory_has_its_own_remedy(project: Path) -> None:
    """Real file systems refuse: one is read-only, one is full, one is another user's."""
    state = project.parent / "state"
    state.mkdir()
    os.chown(state, ALICE, ALICE)
    options = f"nr_inodes=3,uid={ALICE},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "t", state], check=True)
    try:
        told = refused(ALICE, lambda: Store(state / "jobs"))
        assert f"{state / 'jobs/jobs.sqlite'}: the state directory cannot be used: No space left" in told
        assert "free space there; or" in told
        subprocess.run(["mount", "-o", "remount,ro", state], check=True)
        told = refused(ALICE, lambda: Store(state / "jobs"))
        assert told.startswith(f"{state / 'jobs/jobs.sqlite'}: the state directory cannot be used: Read-only")
        assert "remount it read-write" in told
    finally:
        subprocess.run(["umount", state], check=True)
    state.chmod(0o500)
    assert f"chmod u+wx {state}" in refused(ALICE, lambda: Store(state / "jobs"))


def test_libraries_are_made_where_the_group_lets_the_user_write_and_nowhere_else(project: Path) -> None:
    file = project / "grid.yaml"
    file.write_text("filesystems: {disk: {type: local, path: ./disk}}\n")
    spec = load_spec(file)
    told = refused(BEN, lambda: make_library_directories(spec))
    assert f"{project} belongs to root" in told
    project.chmod(0o1777)
    told = refused(ALICE, lambda: make_library_directories(spec), [PROJECT])
    assert f"if they belong there: mkdir -p {project}/disk/data" in told
    project.chmod(0o2775)
    os.chown(project, BEN, PROJECT)
    project.chmod(0o2775)
    assert "have them made by who may" in refused(0, lambda: make_library_directories(spec))

    def makes() -> None:
        assert len(make_library_directories(spec)) == 3

    as_user(ALICE, makes, [PROJECT])
    made = (project / "disk/data").stat()
    assert (made.st_uid, made.st_gid) == (ALICE, PROJECT)


def test_a_role_that_its_owners_group_can_write_is_a_doubt_with_the_command_that_mends_it(
    project: Path,
) -> None:
    role = project.parent / "roles/extra"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks/main.yml").write_text("- ansible.builtin.command: 'true'\n")
    for each in (role.parent, role, *role.rglob("*")):
        os.chown(each, ALICE, PROJECT)
        each.chmod(0o2775 if each.is_dir() else 0o664)
    role.parent.chmod(0o755)
    text = f"filesystems: {{disk: {{type: local, path: /data}}}}\nsetup: {{after: [{role}]}}"
    spec = parse_spec(text, base=project)
    assert f"chmod -R go-w {role}; or" in refused(ALICE, lambda: read_site_roles(spec, ()))

    def checks() -> None:
        (doubt,) = read_site_roles(spec, (), runs=False).doubts
        assert "is not run: other users can write it" in doubt.what

    def mends() -> None:
        subprocess.run(["chmod", "-R", "go-w", role], check=True)
        assert len(read_site_roles(spec, ()).after) == 1

    as_user(ALICE, checks)
    assert f"chown -R root {role}, as root" in refused(0, lambda: read_site_roles(spec, ()))
    as_user(ALICE, mends)
    (role / "tasks/main.yml").chmod(0o664)
    assert f"chmod -R go-w {role}; or" in refused(ALICE, lambda: read_site_roles(spec, ()))
