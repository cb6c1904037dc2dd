"""What lies in the working directory of somebody else runs nothing of theirs: the real commands, as root."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.setup.playbook import read_site_roles
from gridwright.spec.load import parse_spec
from gridwright.watch.notifications import Notification
from gridwright.watch.sending import ProgramReceiver, send_once
from tests.support.as_user import ALICE, MALLORY, let_write, open_to_all, private_group_user, words_of
from tests.support.command import GRIDWRIGHT

pytestmark = pytest.mark.root
COMMANDS = (
    ["doctor"],
    ["usage"],
    ["top", "--once"],
    ["jobs"],
    ["submit", "--", "true"],
    ["check"],
    ["status"],
    ["explain-slow", "--interval", "1s"],
    ["watch", "--once"],
    ["console", "--unit"],
    ["exporter", "--unit"],
    ["layout", "check"],
    ["setup", "--local", "--check"],
    ["repo", "status"],
    ["predict"],
)
LSF = "scheduler: {type: lsf, profile: %s/profile.lsf}\n"
GRID_ENGINE = "scheduler: {type: grid_engine, root: %s/sge}\n"
SPEC = """name: trap
provider: local
filesystems: {disk: {type: local, path: %s/disk}}
libraries: {data: {}, work: {}, util: {}}
state: %s/state
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Mallory's directory, with a grid.yaml whose scheduler's programs are hers."""
    open_to_all(tmp_path)
    place = tmp_path / "mallory"
    place.mkdir()
    lure(place, LSF)
    own(place, MALLORY)
    return place


def lure(place: Path, scheduler: str) -> None:
    text = f"#!/bin/sh\nid -u >> {place.parent}/caught\n"
    (place / "disk").mkdir()
    (place / "grid.yaml").write_text(SPEC % (place, place) + scheduler % place)
    (place / "profile.lsf").write_text(text)
    for directory in ("lx-amd64", "lx-arm64"):
        (place / "sge/bin" / directory).mkdir(parents=True)
        for program in ("qstat", "qhost", "qacct", "qconf", "qsub", "qdel"):
            made = place / "sge/bin" / directory / program
            made.write_text(text)
            made.chmod(0o755)


def own(place: Path, uid: int) -> None:
    for each in (place, *place.rglob("*")):
        os.chown(each, uid, uid)


def run(words: list[str], place: Path, uid: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    environment |= {"HOME": str(place.parent), "XDG_STATE_HOME": "", **more}
    return subprocess.run(
        [*(words_of(uid) if uid else []), GRIDWRIGHT, *words], cwd=place, env=environment, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=200,
    )  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_roots_command_in_mallorys_directory_takes_no_grid_yaml_of_hers(trap: Path, words: list[str]) -> None:
    done = run(words, trap)
    assert done.returncode in {2, 3}, done.stderr
    assert "./grid.yaml belongs to 2002" in done.stderr
    assert "./grid.yaml" in done.stderr.partition("name it")[2]
    assert not (trap.parent / "caught").exists()


def test_the_command_that_names_the_spec_names_it_where_its_verb_takes_it(trap: Path) -> None:
    done = run(["repo", "export", "archive", "data"], trap)
    assert "gridwright repo export --grid ./grid.yaml archive data" in " ".join(done.stderr.split())


@pytest.mark.thorough
def test_who_owns_the_spec_and_its_directory_takes_it(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    (place / "grid.yaml").write_text((SPEC % (place, place)).replace(f"state: {place}/state\n", ""))
    own(place, ALICE)
    assert run(["check"], place, ALICE).returncode == 0
    # As `sudo gridwright check` has it; of mallory's sudo it is somebody else's.
    assert run(["check"], place, SUDO_UID=f"{ALICE}").returncode == 0
    assert run(["check"], place, SUDO_UID=f"{MALLORY}").returncode == 3
    assert run(["check"], place).returncode == 3
    assert run(["check"], place, MALLORY).returncode == 3
    assert run(["check", "./grid.yaml"], place).returncode == 0
    own(place, 0)
    assert run(["check"], place, ALICE).returncode == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_spec_that_others_can_write_or_exchange_is_not_taken(tmp_path: Path, mode: int) -> None:
    open_to_all(tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    spec = place / "grid.yaml"
    spec.write_text(SPEC % (place, place))
    os.chown(place, 0, MALLORY)
    assert run(["check"], place).returncode == 0
    place.chmod(mode)
    done = run(["check"], place)
    assert done.returncode == 3
    assert f"its directory belongs to root, and other users can write it (mode {mode:04o})" in done.stderr
    place.chmod(0o755)
    os.chown(spec, 0, MALLORY)
    spec.chmod(0o664)
    assert run(["check"], place).returncode == 3


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["", "grid.yaml"], ids=["directory", "file"])
@pytest.mark.parametrize("by", ["user", "group"])
def test_a_spec_that_an_acl_lets_others_write_is_not_taken(tmp_path: Path, where: str, by: str) -> None:
    """The owner's group is private: what an ACL gives shows in its bits all the same (acl(5))."""
    open_to_all(tmp_path)
    uid = private_group_user()
    place = tmp_path / "place"
    place.mkdir()
    spec = place / "grid.yaml"
    spec.write_text((SPEC % (place, place)).replace(f"state: {place}/state\n", ""))
    own(place, uid)
    place.chmod(0o775)
    spec.chmod(0o664)
    assert run(["check"], place, uid).returncode == run(["check"], place, SUDO_UID=f"{uid}").returncode == 0
    let_write(place / where, **{by: MALLORY})
    for done in (run(["check"], place, uid), run(["check", "-q"], place, SUDO_UID=f"{uid}")):
        assert done.returncode == 3, done.stderr
        assert "and other users can write it (mode 0" in done.stderr
        assert "gridwright check ./grid.yaml" in done.stderr
    done = run(["check"], place, uid)
    assert f"chmod go-w {place / where}" in " ".join(done.stderr.split())
    (place / where).chmod((place / where).stat().st_mode & ~0o022)
    assert run(["check"], place, uid).returncode == 0, "what the remedy says helps"
    # Who may write by an ACL is the owner itself.
    os.removexattr(place / where, "system.posix_acl_access")
    let_write(place / where, user=uid)
    assert run(["check"], place, uid).returncode == 0


@pytest.mark.thorough
def test_init_in_a_shared_directory_names_a_command_that_works(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    place = tmp_path / "project"
    place.mkdir()
    os.chown(place, ALICE, MALLORY)
    place.chmod(0o2775)
    before = os.umask(0o002)
    try:
        done = run(["init"], place, ALICE)
    finally:
        os.umask(before)
    assert "then run: gridwright check ./grid.yaml" in done.stdout, done.stderr
    assert run(["check", "./grid.yaml"], place, ALICE).returncode == 0
    for words, named in (
        (["jobs", "--json"], "gridwright jobs --grid ./grid.yaml --json"),
        (["submit", "--", "true"], "gridwright submit --grid ./grid.yaml -- true"),
        (["layout", "check", "--json"], "gridwright layout check ./grid.yaml --json"),
    ):
        done = run(words, place, ALICE)
        assert done.returncode == 3
        assert named in " ".join(done.stderr.split())
    (place / "grid.yaml").unlink()
    place.chmod(0o755)
    assert "then run: gridwright check\n" in run(["init"], place, ALICE).stdout


def test_a_link_to_a_spec_of_mallory_is_not_taken(trap: Path) -> None:
    place = trap.parent / "mine"
    place.mkdir()
    (place / "grid.yaml").symlink_to(trap / "grid.yaml")
    done = run(["check"], place)
    assert done.returncode == 3
    assert f"belongs to {MALLORY}" in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("scheduler", [LSF, GRID_ENGINE], ids=["lsf", "grid_engine"])
def test_a_named_spec_has_no_program_of_mallory_run(trap: Path, scheduler: str) -> None:
    """The spec is root's own; what it names lies where mallory can write."""
    (trap / "grid.yaml").unlink()
    mine = trap.parent / "mine.yaml"
    mine.write_text(SPEC % (trap.parent, trap.parent) + scheduler % trap)
    for words in (["usage", "--grid"], ["top", "--once"], ["jobs", "--grid"], ["doctor"]):
        done = run([*words, str(mine)], trap.parent)
        assert not (trap.parent / "caught").exists(), words
        assert done.returncode != 0, words
        assert "the spec has it run" in done.stderr + done.stdout, (words, done.stderr)
        assert str(MALLORY) in done.stderr + done.stdout
    # A directory of root's with a program of mallory's, and a parent of hers.
    for part in trap.rglob("*"):
        os.chown(part, 0, 0)
    done = run(["usage", "--grid", str(mine)], trap.parent)
    assert f"belongs to {MALLORY}" in done.stderr
    assert not (trap.parent / "caught").exists()
    os.chown(trap, 0, 0)
    run(["usage", "--grid", str(mine)], trap.parent)
    assert (trap.parent / "caught").read_text().split()[0] == "0"


@pytest.mark.few(1)
@pytest.mark.parametrize("scheduler", [LSF, GRID_ENGINE], ids=["lsf", "grid_engine"])
def test_programs_of_an_account_that_the_spec_names_are_run_and_no_other_users(
    trap: Path, scheduler: str
) -> None:
    """As lsfadmin and sgeadmin have theirs, on many sites."""
    uid = private_group_user()
    name = pwd.getpwuid(uid).pw_name
    (trap / "grid.yaml").unlink()
    mine = trap.parent / "mine.yaml"
    text = SPEC % (trap.parent, trap.parent) + scheduler % trap
    own(trap, uid)
    words = ["usage", "--grid", str(mine)]
    for owner, ran in (("", False), (", owner: nobody", False), (f", owner: {name}", True)):
        mine.write_text(text[:-2] + f"{owner}}}\n")
        done = run(words, trap.parent)
        assert (trap.parent / "caught").exists() == ran, done.stderr
        assert ran or "owner: NAME beside it in the spec" in done.stderr
    (trap.parent / "caught").unlink()
    for part in trap.rglob("*"):
        if part.is_file():
            os.chown(part, MALLORY, MALLORY)
    mine.write_text(text[:-2] + f", owner: {name}}}\n")
    assert f"belongs to {MALLORY}" in run(words, trap.parent).stderr
    assert not (trap.parent / "caught").exists()
    mine.write_text(text[:-2] + ", owner: nosuchaccount}\n")
    assert "this machine has no account nosuchaccount" in run(words, trap.parent).stderr


def test_no_role_and_no_program_of_the_watch_of_mallory_is_run(trap: Path) -> None:
    role = trap / "roles/extra"
    (role / "tasks").mkdir(parents=True)
    own(trap, 0)
    (role / "tasks/main.yml").write_text("- ansible.builtin.command: 'true'\n")
    spec = parse_spec(
        f"filesystems: {{disk: {{type: local, path: /data}}}}\nsetup: {{after: [{role}]}}", base=trap.parent
    )
    assert read_site_roles(spec, ()).after
    for place in (role / "tasks/main.yml", role / "tasks", role, trap / "roles"):
        os.chown(place, MALLORY, MALLORY)
        with pytest.raises(GridwrightError, match=f"is not run: .* belongs to {MALLORY}"):
            read_site_roles(spec, ())
        os.chown(place, 0, 0)
    program = trap / "page"
    program.write_text(f"#!/bin/sh\nid -u >> {trap.parent}/caught\n")
    program.chmod(0o755)
    notice = Notification("1", 0.0, "trap", "here", [])
    outcome = send_once(ProgramReceiver([str(program)]), notice, lambda: False)
    assert outcome.problem == ""
    (trap.parent / "caught").unlink()
    os.chown(program, MALLORY, MALLORY)
    outcome = send_once(ProgramReceiver([str(program)]), notice, lambda: False)
    assert f"belongs to {MALLORY}" in outcome.problem
    assert not (trap.parent / "caught").exists()
