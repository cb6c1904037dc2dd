"""Accounts of a grid on one machine: what is planned, and what real useradd makes of it elsewhere."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gridwright.node_programs.users as package
from gridwright.node_programs.one_file import USERS
from gridwright.node_programs.users.configuration import UsersError, parse_configuration
from gridwright.node_programs.users.machine import (
    SSHD,
    SSHD_DIRECTORY,
    Machine,
    MakeHome,
    Run,
    ThereGroup,
    ThereUser,
    Write,
    observe,
)
from gridwright.node_programs.users.planning import Plan, apply, make_home, plan_users
from gridwright.node_programs.users.services import BEGIN, read_secret, sshd_changes, sssd_text
from tests.support.one_file_program import imports_beyond_python
from tests.support.skips import root_only

ANNA = {
    "name": "anna", "uid": 2001, "gid": 2001, "own_group": True, "groups": ["risk"], "comment": "Anna Arendt",
    "home": "/shared/homes/anna", "shell": "/bin/bash", "keys": ["ssh-ed25519 AAAA anna"],
}  # fmt: skip
BOB = {**ANNA, "name": "bob", "uid": 2002, "gid": 3001, "own_group": False, "groups": [], "keys": [],
       "home": "/shared/homes/bob", "comment": ""}  # fmt: skip
HOMES = {"directory": "/shared/homes", "mount": "/shared"}
ACCOUNTS = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
INCLUDING = f"Include /{SSHD_DIRECTORY}/*.conf\nUsePAM yes\n"


def wanted(*accounts: dict[str, Any], **others: Any) -> dict[str, Any]:
    whole = {"schema": 1, "grid": "demo", "groups": {"risk": 3001}, "accounts": list(accounts), "homes": None,
             "makes_homes": True, "directory": None}  # fmt: skip
    return {**whole, **others}


def planned(there: Machine, *accounts: dict[str, Any], **others: Any) -> Plan:
    return plan_users(parse_configuration(json.dumps(wanted(*accounts, **others))), there)


def user(uid: int, gid: int = 0, **others: Any) -> ThereUser:
    return ThereUser(uid, gid or uid, **{"comment": "", "home": "/", "shell": "/bin/bash", **others})


def settings(made: Plan) -> list[str]:
    return [each.setting for each in made.changes]


def test_all_that_stands_against_it_is_said_at_once() -> None:
    there = Machine(
        users={"anna": user(1007), "zoe": user(2002)},
        groups={"risk": ThereGroup(1234, ()), "zoes": ThereGroup(2001, ())},
    )
    assert [each.partition(":")[0] for each in planned(there, ANNA, BOB).troubles] == [
        "group risk has number 1234 on this machine, and 3001 in the grid",
        "number 2001 of group anna is that of group zoes on this machine",
        "anna has number 1007 on this machine, and 2001 in the grid",
        "number 2002 of bob is that of zoe on this machine",
    ]


def test_an_account_that_is_there_is_taken_over_and_groups_of_the_machine_are_kept() -> None:
    there = Machine(
        users={"anna": user(2001, comment="Anna Arendt", home="/shared/homes/anna")},
        groups={
            "anna": ThereGroup(2001, ()),
            "risk": ThereGroup(3001, ()),
            "docker": ThereGroup(990, ("anna",)),
        },
        homes=frozenset({"/shared/homes/anna"}),
    )
    made = planned(there, ANNA)
    (change,) = [each for each in made.changes if each.setting == "user anna: groups"]
    assert isinstance(change.act, Run)
    assert change.act.argv == ("usermod", "--groups", "docker,risk", "anna")
    assert not [each for each in made.changes if isinstance(each.act, Run) and each.act.argv[0] != "usermod"]


def test_only_who_was_in_the_spec_is_locked() -> None:
    there = Machine(
        users={"anna": user(2001), "zoe": user(2005), "eva": user(2009), "lea": user(2011, is_locked=True)},
        groups={},
        known={"anna": 2001, "eva": 2003, "gone": 2010, "lea": 2011},
        grid="demo",
    )
    made = planned(there)
    acts = [each.act.argv for each in made.changes if isinstance(each.act, Run)]
    assert acts == [
        ("groupadd", "--gid", "3001", "risk"),
        ("usermod", "--lock", "--expiredate", "1970-01-02", "anna"),
    ], "zoe was never in it, another account is called eva by now, and lea is locked"
    assert [each.split()[0] for each in made.notes] == ["anna", "lea"]


def test_a_spec_without_people_locks_nobody_of_another_grid() -> None:
    there = Machine(users={"anna": user(2001)}, groups={}, known={"anna": 2001}, grid="other")
    assert planned(there, groups={}).changes == []
    of_this = planned(dataclasses.replace(there, grid="demo"), groups={})
    assert settings(of_this) == ["user anna, who left the spec"]


@pytest.mark.parametrize(
    ("mounts", "makes", "homes", "troubles"),
    [
        ({"/", "/shared"}, True, ["home /shared/homes/anna"], 0),
        ({"/"}, True, [], 1),
        ({"/"}, False, [], 0),
        ({"/", "/shared"}, False, [], 0),
    ],
)
def test_homes_are_made_where_they_are_mounted_and_root_may_write(
    mounts: set[str], makes: bool, homes: list[str], troubles: int
) -> None:
    there = Machine({}, {}, mounts=frozenset(mounts))
    made = planned(there, ANNA, homes=HOMES, makes_homes=makes)
    assert [each for each in settings(made) if each.startswith("home")] == homes
    assert len(made.troubles) == troubles


@pytest.mark.parametrize("main", [INCLUDING, "UsePAM yes\nMatch User x\n  X11Forwarding no\n"])
def test_sshd_reads_keys_first_and_is_left_as_it_was(main: str) -> None:
    configuration = parse_configuration(json.dumps(wanted(ANNA)))
    (change,) = sshd_changes(configuration, Machine({}, {}, files={SSHD: main}))
    assert isinstance(change.act, Write)
    lines = [line for line in change.act.text.splitlines() if not line.startswith("#")]
    assert lines[0].startswith("AuthorizedKeysFile .ssh/authorized_keys /etc/gridwright/user-keys/%u")
    after = {SSHD: main, change.act.path: change.act.text}
    assert list(sshd_changes(configuration, Machine({}, {}, files=after))) == []
    (back,) = sshd_changes(parse_configuration(json.dumps(wanted())), Machine({}, {}, files=after))
    left = back.act.text if isinstance(back.act, Write) else main
    assert (left, BEGIN in left) == (main, False)


def test_the_secret_is_read_of_a_file_of_root_alone(tmp_path: Path) -> None:
    file = tmp_path / "bind.secret"
    file.touch(mode=0o600)
    file.write_text("pa ss\n")
    assert read_secret(tmp_path, "/bind.secret") == "pa ss"
    for mode, text in ((0o644, "pa ss"), (0o600, ""), (0o600, "one\ntwo")):
        file.chmod(mode)
        file.write_text(text)
        with pytest.raises(UsersError) as error:
            read_secret(tmp_path, "/bind.secret")
        assert "pa ss" not in str(error.value)
    with pytest.raises(UsersError, match="No such file"):
        read_secret(tmp_path, "/other.secret")


def test_what_cannot_be_read_is_wrong_input() -> None:
    for text in ("", "[]", '{"schema": 2}', json.dumps(wanted({"name": "anna"}))):
        with pytest.raises(UsersError) as error:
            parse_configuration(text)
        assert error.value.status == 2


def test_it_needs_nothing_but_python() -> None:
    files = list(Path(package.__file__).parent.glob("*.py"))
    assert len(files) > 4
    assert {
        file.name: imports_beyond_python(file, ("gridwright.node_programs.users", "gridwright.beneath"))
        for file in files
    } == {file.name: [] for file in files}
    assert USERS.archive() == USERS.archive()


class OtherRoot:
    """The files of another system, and the program that works on them."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        self.program = place / "users.pyz"
        self.program.write_bytes(USERS.archive())
        for path, text in {
            "etc/passwd": ACCOUNTS,
            "etc/group": "root:x:0:\nnogroup:x:65534:\n",
            "etc/shadow": "root:*:19000:0:99999:7:::\n",
            "etc/gshadow": "root:*::\n",
            "etc/login.defs": "UID_MIN 1000\n",
            "etc/skel/.profile": "# of the site\n",
            SSHD: INCLUDING,
        }.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def run(self, *accounts: dict[str, Any], options: tuple[str, ...] = (), **others: Any) -> list[str]:
        """Run it; what it changed."""
        (self.root / "users.json").write_text(json.dumps(wanted(*accounts, **others)))
        done = subprocess.run(
            [sys.executable, "-I", self.program, "--config", self.root / "users.json",
             "--root", self.root, *options],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [
            f"{each['setting']}: {each['found']} -> {each['wanted']}"
            for each in json.loads(done.stdout)["changes"]
        ]

    def line(self, file: str, name: str) -> list[str]:
        lines = (self.root / "etc" / file).read_text().splitlines()
        return next(line.split(":") for line in lines if line.startswith(f"{name}:"))


@root_only
def test_real_useradd_makes_locks_and_opens_accounts(tmp_path: Path) -> None:
    here = OtherRoot(tmp_path)
    assert here.run(ANNA, BOB, options=("--dry-run",)) != []
    assert (here.root / "etc/passwd").read_text() == ACCOUNTS, "a dry run changes nothing"
    first = here.run(ANNA, BOB)
    assert {"user anna: missing -> 2001", "user bob: missing -> 2002"} <= set(first)
    assert here.run(ANNA, BOB) == []
    assert here.line("passwd", "anna")[2:] == [
        *("2001", "2001", "Anna Arendt", "/shared/homes/anna", "/bin/bash"),
    ]
    assert here.line("group", "risk")[2:] == ["3001", "anna"]
    assert here.line("shadow", "anna")[1] == "*", "no password fits, and sshd does not take it for locked"
    home = here.root / "shared/homes/anna"
    assert (home.stat().st_uid, home.stat().st_mode & 0o777) == (2001, 0o700)
    assert (home / ".profile").stat().st_uid == 2001
    key = here.root / "etc/gridwright/user-keys/anna"
    assert key.read_text() == "ssh-ed25519 AAAA anna\n"

    locked = here.run(BOB)
    assert "user anna, who left the spec: open -> locked" in locked
    assert here.run(BOB) == []
    assert (here.line("shadow", "anna")[1], here.line("shadow", "anna")[7]) == ("!*", "1")
    assert (home / ".profile").exists()
    assert not key.exists()
    assert here.run({**ANNA, "shell": "/bin/sh"}, BOB)[-1].startswith("/etc/ssh/")
    assert (here.line("shadow", "anna")[1], here.line("shadow", "anna")[7]) == ("*", "")
    assert here.run({**ANNA, "shell": "/bin/sh"}, BOB) == []


@root_only
def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    here = OtherRoot(tmp_path)
    configuration = parse_configuration(json.dumps(wanted(ANNA, BOB)))
    steps = len(plan_users(configuration, observe(here.root, [])).changes)
    assert steps > 6
    for done in range(1, steps, 3):
        (tmp_path / str(done)).mkdir()
        again = OtherRoot(tmp_path / str(done))
        first = plan_users(configuration, observe(again.root, ["/shared/homes/anna", "/shared/homes/bob"]))
        apply(first.changes[:done], again.root)
        again.run(ANNA, BOB)
        assert again.run(ANNA, BOB) == []
        assert again.run() != [], "who was made in part is known, and locked"
        assert [again.line("shadow", name)[7] for name in ("anna", "bob")] == ["1", "1"]


@root_only
def test_a_home_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Somebody who may write beside homes cannot have root fill another directory."""
    here = OtherRoot(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    homes = here.root / "shared/homes"
    homes.mkdir(parents=True)
    (homes / "anna").symlink_to(elsewhere)
    here.run(ANNA)
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_uid == 0


def test_the_secret_stands_in_its_section_alone() -> None:
    directory = {
        "sections": {"sssd": {"domains": "grid"}, "domain/grid": {"ldap_uri": "ldaps://x"}},
        "secret": "/s", "bind_section": "domain/grid", "ca": None, "login": ["keys"], "join": None,
    }  # fmt: skip
    configuration = parse_configuration(json.dumps(wanted(directory=directory)))
    assert configuration.directory is not None
    text = sssd_text(configuration.directory, "hunter2")
    assert text.split("[domain/grid]")[1].splitlines()[1:] == [
        *("ldap_uri = ldaps://x", "ldap_default_authtok_type = password", "ldap_default_authtok = hunter2"),
    ]
    assert "hunter2" not in text.split("[domain/grid]")[0]


@root_only
def test_nobody_else_can_enter_a_home_while_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skeleton = tmp_path / "etc/skel"
    (skeleton / ".config").mkdir(parents=True)
    (skeleton / ".config/site").write_text("of the site\n")
    (skeleton / ".profile").symlink_to("/etc/profile")
    homes = tmp_path / "homes"
    homes.mkdir()
    modes: list[int] = []
    copytree = shutil.copytree

    def copied(*arguments: Any, **named: Any) -> Any:
        done = copytree(*arguments, **named)
        modes.extend(each.stat().st_mode & 0o777 for each in homes.iterdir())
        return done

    monkeypatch.setattr(shutil, "copytree", copied)
    make_home(MakeHome("/homes/anna", 2001, 2001), tmp_path)
    assert set(modes) == {0o700}
    home = homes / "anna"
    assert (home.stat().st_uid, home.stat().st_mode & 0o777) == (2001, 0o700)
    assert (home / ".config/site").read_text() == "of the site\n"
    assert (home / ".config/site").stat().st_uid == 2001
    assert (home / ".profile").readlink() == Path("/etc/profile")
    assert (home / ".profile").lstat().st_uid == 2001
