"""Who can write a directory above puts another one in the place of what is trusted: real users try it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.grid.node_python import script
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.slurm.job_script import make_job_directories
from gridwright.state_parts import PARTS, make_state, own_directory
from gridwright.watch import state
from gridwright.watch.state import LoggedChange, held, new_state, write_state
from tests.support.as_user import (
    ALICE,
    MALLORY,
    as_user,
    let_write,
    open_to_all,
    private_group_user,
    words_of,
)

pytestmark = pytest.mark.root
HOSTILE = "#!/bin/sh\nid -u > {marker}\n"


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A directory in reach of all users."""
    open_to_all(tmp_path)
    made = tmp_path / "parent"
    made.mkdir()
    return made


def owned(place: Path, uid: int, mode: int) -> None:
    os.chown(place, uid, MALLORY)
    place.chmod(mode)


def refusal(uid: int, act: Callable[[], object]) -> str:
    """What a user is told."""

    def user() -> None:
        act()

    with pytest.raises((AssertionError, GridwrightError)) as caught:
        user() if uid == 0 else as_user(uid, user)
    return str(caught.value)


# Those of a group that mallory is in, too, as of a project.
@pytest.mark.few(4)
@pytest.mark.parametrize(("owner", "mode"), [(MALLORY, 0o755), (0, 0o2775), (MALLORY, 0o1777)])
@pytest.mark.parametrize("uid", [ALICE, 0])
@pytest.mark.parametrize("use", [Store, make_job_directories])
def test_whoever_can_exchange_the_state_directory_gives_alice_no_queue(
    parent: Path, owner: int, mode: int, uid: int, use: Callable[[Path], object]
) -> None:
    state = parent / "state"
    state.mkdir()
    os.chown(state, uid, uid)
    owned(parent, owner, mode)
    said = refusal(uid, lambda: use(state))
    assert f"{state}: it cannot be trusted" in said
    why = (
        f"{parent} belongs to {MALLORY}"
        if owner
        else f"other users can write {parent} (mode 2775, owner root)"
    )
    assert why in said
    assert list(state.iterdir()) == []
    # Neither is one made there.
    refusal(uid, lambda: use(parent / "new" / "state"))
    assert [each.name for each in parent.iterdir()] == ["state"]


def test_a_state_directory_may_be_a_link_of_roots(parent: Path) -> None:
    make_state(parent / "lustre" / "grid")
    (parent / "grid").symlink_to("lustre/grid")
    as_user(ALICE, lambda: void(make_job_directories(parent / "grid")))
    assert (parent / "lustre" / "grid" / "slurm" / str(ALICE)).is_dir()


def void(_made: object) -> None:
    """Nothing of it matters."""


def test_root_with_the_home_of_mallory_is_told_to_use_its_own(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(parent, MALLORY, MALLORY)
    monkeypatch.setenv("HOME", str(parent))
    with pytest.raises(GridwrightError) as caught:
        Store(parent / ".local" / "state" / "gridwright" / "demo")
    assert f"{parent} belongs to {MALLORY}" in str(caught.value)
    assert "sudo -H" in str(caught.value.problems[0].remedy)
    assert list(parent.iterdir()) == []


def test_where_only_the_mode_is_wrong_the_remedy_costs_no_records(parent: Path) -> None:
    make_state(parent / "state")

    def alice() -> None:
        base = own_directory(parent / "state", "slurm", ("logs",))
        (base / "logs" / "1.log").write_text("mine")
        queue = parent / "alice"
        Store(queue).close()
        places: list[tuple[Path, Callable[[], object]]] = [
            (base, lambda: own_directory(parent / "state", "slurm")),
            (base / "logs", lambda: own_directory(parent / "state", "slurm", ("logs",))),
            (queue, lambda: Store(queue)),
            (queue / "jobs.sqlite", lambda: Store(queue)),
        ]
        for place, act in places:
            place.chmod(place.stat().st_mode | 0o020)
            with pytest.raises(GridwrightError) as caught:
                act()
            problem = caught.value.problems[0]
            assert problem.remedy == f"chmod go-w {shlex.quote(str(place))}"
            assert f"owner {ALICE}" in problem.what
            subprocess.run(["sh", "-c", problem.remedy], check=True, timeout=60)
            act()
        assert (base / "logs" / "1.log").read_text() == "mine"

    (parent / "alice").mkdir()
    os.chown(parent / "alice", ALICE, ALICE)
    as_user(ALICE, alice)


def test_the_remedy_names_another_way_than_what_was_refused(parent: Path) -> None:
    """With one spec for all, the local scheduler needs no `state:`; nobody becomes the owner of a parent."""
    shared = Path("/var/tmp") / f"grid-state-{os.getpid()}"
    shared.mkdir()
    os.chown(shared, MALLORY, MALLORY)
    try:
        said = refusal(ALICE, lambda: Store(shared))
    finally:
        shared.rmdir()
    assert "leave state: out of the grid spec" in said
    assert said.count(str(shared)) == 1
    os.chown(parent, MALLORY, MALLORY)

    def watch() -> None:
        with held(parent / "own" / "watch"):
            pass

    said = refusal(0, watch)
    assert "--state DIR" in said
    assert "as its owner" not in said


def test_a_lab_takes_what_users_made_and_names_all_that_it_cannot_beforehand(parent: Path) -> None:
    """As of an earlier release, whose parts the first user made."""
    state = parent / "state"

    def mallory() -> None:
        os.umask(0)
        state.mkdir(mode=0o777)
        (state / "slurm").mkdir(mode=0o700)
        (state / "slurm" / "notes").write_text("mine")

    parent.chmod(0o1777)
    as_user(MALLORY, mallory)
    for name in ("lsf", "ask"):
        (state / name).write_text("")
    with pytest.raises(GridwrightError) as caught:
        make_state(state)
    assert [problem.where for problem in caught.value.problems] == [str(state / "ask"), str(state / "lsf")]
    assert state.stat().st_uid == MALLORY
    assert sorted(each.name for each in state.iterdir()) == ["ask", "lsf", "slurm"]
    for name in ("lsf", "ask"):
        (state / name).unlink()
    make_state(state)
    assert (state / "slurm" / "notes").read_text() == "mine"
    for place, mode in ((state, 0o755), *((state / name, 0o1777) for name in PARTS)):
        assert (place.stat().st_uid, place.stat().st_mode & 0o7777) == (0, mode)
    as_user(ALICE, lambda: void(own_directory(state, "slurm")))


def test_a_remedy_that_root_runs_changes_nothing_where_links_lead(parent: Path) -> None:
    outside = parent / "outside"
    outside.mkdir(mode=0o700)
    (outside / "secret").write_text("root's")
    state = parent / "state"
    make_state(state)
    (state / "slurm").rmdir()
    for taken in ("slurm", f"lsf/{ALICE}"):
        (state / taken).symlink_to(outside)
        os.chown(state / taken, MALLORY, MALLORY, follow_symlinks=False)
        with pytest.raises(AssertionError) as caught:
            as_user(ALICE, lambda taken=taken: void(own_directory(state, taken.partition("/")[0])))  # type: ignore[misc]
        remedy = str(caught.value).rstrip().splitlines()[-1]
        assert not {"install", "chmod", "chown", "rm"} & set(remedy.split())
        if "mv -T" in remedy:
            subprocess.run(["sh", "-c", remedy.partition("away: ")[2]], check=True, timeout=60)
    assert (state / "lsf" / f"{ALICE}.moved").is_symlink()
    assert outside.stat().st_mode & 0o7777 == 0o700
    assert [each.name for each in outside.iterdir()] == ["secret"]
    as_user(ALICE, lambda: void(own_directory(state, "lsf")))


def test_a_watch_writes_through_no_link_that_mallory_put_there(parent: Path) -> None:
    victim = parent / "victim"
    victim.write_text("precious")
    place = parent / "watch"
    place.mkdir()
    change = LoggedChange(1, 1.0, "opened", "library-hangs", ["n1"], "", "error", 1.0, "it hangs")
    for name in (".state.json.part", "changes.jsonl", "watch.lock"):
        (place / name).symlink_to(victim)
    acts: list[Callable[[], object]] = [
        lambda: write_state(place, new_state("demo")),
        lambda: state.append_changes(place, [change]),
        lambda: held(place).__enter__(),
    ]
    for act in acts:
        with pytest.raises(GridwrightError, match="cannot be trusted"):
            act()
    for name in (".state.json.part", "changes.jsonl", "watch.lock"):
        (place / name).unlink()
    for above, owner, mode in ((place, MALLORY, 0o755), (place, 0, 0o2775), (parent, MALLORY, 0o755)):
        owned(above, owner, mode)
        for act in acts:
            with pytest.raises(GridwrightError, match=f"belongs to {MALLORY}|other users can write"):
                act()
        owned(above, 0, 0o755)
    assert list(place.iterdir()) == []
    assert victim.read_text() == "precious"
    with held(place):
        write_state(place, new_state("demo"))
        state.append_changes(place, [change])
    assert sorted(each.name for each in place.iterdir()) == ["changes.jsonl", "state.json", "watch.lock"]


@pytest.mark.parametrize("language", ["C", "de_DE.UTF-8"])
def test_scripts_of_nodes_look_at_what_is_above(parent: Path, tmp_path: Path, language: str) -> None:
    marker = tmp_path / "caught"
    program = parent / "state" / "python" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(HOSTILE.format(marker=marker))
    program.chmod(0o755)
    owned(parent, MALLORY, 0o755)
    environment = str(program.parents[1])
    commands = [
        script("find_modules.sh", environment, "11", "print('python')"),
        script("find_python.sh", "part-x", str(program), "0.1.0", "11"),
        script("unpack_part.sh", "part-x", "python3", str(parent / "state" / "parts")),
    ]
    for command in commands:
        done = subprocess.run(
            command, input=b"", capture_output=True, timeout=60, check=False, cwd="/",
            env=os.environ | {"LC_ALL": language},
        )  # fmt: skip
        assert f"untrusted\t{parent}\t".encode() in done.stdout + done.stderr, command[-4:]
    assert not marker.exists(), "root ran it"
    assert not (parent / "state" / "parts").exists()
    owned(parent, 0, 0o755)
    subprocess.run(commands[0], capture_output=True, timeout=60, check=True)
    assert marker.exists(), "what is root's all the way is run"


def test_both_ways_of_looking_at_a_path_agree(parent: Path) -> None:
    """The walk in Python, and the one of nodes in shell."""
    from gridwright.trusted import why_untrusted_path

    for name, owner, mode in (
        ("mallory", MALLORY, 0o755),
        ("project", 0, 0o2775),
        ("alice", ALICE, 0o755),
        ("tmp", 0, 0o1777),
        ("closed", ALICE, 0o700),
    ):
        (parent / name / "state").mkdir(parents=True)
        os.chown(parent / name / "state", ALICE, ALICE)
        owned(parent / name, owner, mode)
    owned(parent / "closed" / "state", ALICE, 0o775)
    (parent / "closed" / "state" / "two  words").mkdir()
    os.chown(parent / "closed" / "state" / "two  words", ALICE, ALICE)
    for link, target in (
        ("roots", "alice"),
        ("tmp/theirs", "../alice"),
        ("round", "mallory/../alice"),
        ("alice/out", "../project"),
        ("absolute", f"{parent}/tmp//./state"),
        ("up", "closed/state/../../project"),
    ):
        (parent / link).symlink_to(target)
    os.chown(parent / "tmp" / "theirs", MALLORY, MALLORY, follow_symlinks=False)
    trusted = {"alice/state", "roots/state", "tmp/state", "tmp/none/x", "closed/state/two  words", "absolute"}
    paths = sorted(trusted | {
        "mallory/state", "mallory/none", "mallory/../alice", "project/state", "tmp/theirs", "round/state",
        "alice/out/state", "up/state",
    })  # fmt: skip
    ways = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8")
    walk = 'for each; do trusted_way "$PWD/$each" >/dev/null && printf "%s\\n" "$each"; done; :'
    text = f"{ways}\ncd {parent}; {walk}"
    said = subprocess.run(
        [*words_of(ALICE), "sh", "-c", text, "sh", *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(said.stdout.splitlines()) == trusted, said.stderr

    def alice() -> None:
        assert {each for each in paths if why_untrusted_path(parent / each) is None} == trusted

    as_user(ALICE, alice)


def test_a_private_group_is_nobody_else_and_what_an_acl_adds_to_it_is(parent: Path) -> None:
    """As of umask 002 with groups of useradd(8): ~/.local is 0775. Both ways of looking agree."""
    from gridwright.trusted import open_directory, why_untrusted_path

    uid = private_group_user()
    for name in ("own", "user", "group", "theirs", "all"):
        (parent / name / "state").mkdir(parents=True)
        os.chown(parent / name / "state", uid, uid)
        owned(parent / name, uid, 0o775)
        os.chown(parent / name, uid, uid)
    let_write(parent / "user", user=MALLORY)
    let_write(parent / "group", group=MALLORY)
    os.chown(parent / "theirs", uid, MALLORY)
    (parent / "all").chmod(0o777)
    ways = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8")
    names = ["own", "user", "group", "theirs", "all"]
    looks = 'trusted_way "$PWD/$each/state" >/dev/null && trusted own "$PWD/$each" >/dev/null'
    walk = f'for each; do {looks} && echo "$each"; done; :'
    said = subprocess.run(
        [*words_of(uid), "sh", "-c", f"{ways}\ncd {parent}; {walk}", "sh", *names],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout.split() == ["own"], said.stderr

    def owner() -> None:
        assert [each for each in names if why_untrusted_path(parent / each / "state") is None] == ["own"]
        os.close(open_directory(parent / "own"))
        for each in names[1:]:
            with pytest.raises(GridwrightError, match="other users can write it"):
                open_directory(parent / each)

    as_user(uid, owner)


def test_a_group_that_is_another_users_first_one_is_no_private_group(parent: Path) -> None:
    """As of `useradd -g alice bob`: no line of /etc/group names bob."""
    uid = private_group_user()
    owned(parent, uid, 0o775)
    os.chown(parent, uid, uid)
    accounts = parent.parent / "passwd"
    there = Path("/etc/passwd").read_text("utf-8")
    ways = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8")
    look = f"from gridwright.trusted import why_untrusted_path; print(why_untrusted_path({str(parent)!r}))"
    python, shell = [sys.executable, "-c", look], ["sh", "-c", f"{ways}\ntrusted own {parent}; :"]
    looks = f"{shlex.join([*words_of(uid), *python])} && {shlex.join([*words_of(uid), *shell])}"
    found = []
    for added in ("", f"bob-x:x:4711:{uid}::/:/bin/sh\n"):
        accounts.write_text(there + added, "utf-8")
        said = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"mount --bind {accounts} /etc/passwd && {looks}"],
            capture_output=True, text=True, timeout=60, check=True, cwd="/",
        )  # fmt: skip
        found.append(said.stdout)
    assert found[0] == "None\n"
    assert "other users can write it" in found[1]
    assert "untrusted\t" in found[1]


@pytest.mark.parametrize("order", ["make", "look"])
def test_set_up_and_doctor_name_what_is_above_the_state_directory(parent: Path, order: str) -> None:
    role = resources.files("gridwright.setup").joinpath("ansible", "roles", "state", "files", "make_state.sh")
    text = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8") + role.read_text(
        "utf-8"
    )

    def look(state: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-s", str(state), "", order, *PARTS],
            input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    for owner, mode in ((MALLORY, 0o755), (0, 0o2775)):
        owned(parent, owner, mode)
        done = look(parent / "sub" / "state")
        assert done.returncode == 1
        assert done.stdout.startswith(f"untrusted\t{parent}\t")
        assert list(parent.iterdir()) == []
    owned(parent, 0, 0o755)
    make_state(parent / "lustre")
    (parent / "grid").symlink_to("lustre")
    done = look(parent / "grid")
    assert (done.returncode, done.stdout) == (0, ""), "a link of root's is none of another user's"
