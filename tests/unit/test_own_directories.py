"""Directories of the user's own, for users with and without an account and HOME."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.own_directories import (
    cache_home,
    held_directory,
    home_directory,
    state_home,
    temporary_directory,
)
from gridwright.providers.lab.image import image_directory
from gridwright.schedulers.local.runner import KIND
from gridwright.schedulers.ssh_head import host_keys_file
from gridwright.spec.load import parse_spec
from tests.support.as_user import MALLORY, as_user, open_to_all, words_of
from tests.support.command import GRIDWRIGHT

STRANGER = 54321
"""A user without an account."""


@pytest.mark.parametrize("named", ["", "state", "./state", "../state"])
def test_a_relative_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("XDG_STATE_HOME", named)
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert state_home() == Path("/home/alice/.local/state")
    assert cache_home() == Path("/home/alice/.cache")
    assert host_keys_file("grid") == Path("/home/alice/.local/state/gridwright/host-keys/grid")
    assert image_directory().is_relative_to("/home/alice/.cache")


def test_an_absolute_directory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert state_home() == Path("/var/state")
    assert cache_home() == Path("/var/cache")


@pytest.mark.root
@pytest.mark.parametrize("home", [None, "", "relative"])
def test_a_user_without_account_and_home_is_told_what_to_set(home: str | None) -> None:
    spec = parse_spec("name: here\nfilesystems: {disk: {type: local, path: /var/tmp}}")

    def stranger() -> None:
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        if home is not None:
            os.environ["HOME"] = home
        uses = (
            home_directory,
            image_directory,
            lambda: host_keys_file("grid"),
            lambda: KIND.state_directory(spec),
        )
        for use in uses:
            with pytest.raises(GridwrightError) as caught:
                use()
            assert caught.value.status is ExitStatus.ENVIRONMENT
            assert f"user {STRANGER} has no account" in str(caught.value)
            assert "set HOME" in str(caught.value)

    as_user(STRANGER, stranger)


@pytest.mark.root
def test_no_command_ends_in_a_traceback_for_a_user_without_account_and_home(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    (tmp_path / "grid.yaml").write_text("name: here\nfilesystems: {disk: {type: local, path: /var/tmp}}\n")
    environment = {
        name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("XDG_")
    }
    for words in (["jobs"], ["doctor", "grid.yaml"], ["watch", "grid.yaml", "--once"]):
        done = subprocess.run(
            [*words_of(STRANGER), GRIDWRIGHT, *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert "Could not determine home" not in done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "owner", "refused"),
    [(0o777, 0, True), (0o1777, 0, False), (0o1777, MALLORY, True), (0o700, 0, False)],
)
def test_temporary_files_go_where_no_other_user_can_exchange_them(
    tmp_path: Path, mode: int, owner: int, refused: bool
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(mode)
    os.chown(place, owner, owner)
    if not refused:
        made = temporary_directory("gridwright-test-", str(place))
        assert (made.parent, made.stat().st_mode & 0o777) == (place, 0o700)
        return
    # In a directory that nobody else may pass, nobody exchanges anything.
    open_to_all(tmp_path)
    with pytest.raises(GridwrightError) as caught:
        temporary_directory("gridwright-test-", str(place))
    (problem,) = caught.value.problems
    assert problem.where == str(place)
    assert "set TMPDIR" in (problem.remedy or "")
    assert not list(place.iterdir())


HOLDS = """
import os, sys
from gridwright.own_directories import held_directory
made, _ = held_directory("gridwright-test.", sys.argv[1])
(made / "shared").touch()
print(made, flush=True)
sys.stdin.read()
"""


@pytest.mark.root
def test_what_a_killed_process_of_this_user_held_goes_and_nothing_else_does(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    tmp_path.chmod(0o1777)

    def held() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, tmp_path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    (killed, left), (living, kept) = held(), held()
    killed.kill()
    killed.communicate()
    as_user(MALLORY, (tmp_path / "gridwright-test.of-mallory").mkdir)
    (tmp_path / "gridwright-test.link").symlink_to(kept)
    young, old = tmp_path / "gridwright-test.young", [left, kept, tmp_path / "gridwright-test.of-mallory"]
    young.mkdir()
    for each in old:
        os.utime(each, (1, 1))
    made, descriptor = held_directory("gridwright-test.", str(tmp_path))
    os.close(descriptor)
    assert not left.exists()
    assert (kept / "shared").exists()
    assert {each.name for each in tmp_path.iterdir()} == {
        kept.name, made.name, "gridwright-test.link", "gridwright-test.young", "gridwright-test.of-mallory",
    }  # fmt: skip
    living.communicate()


@pytest.mark.root
@pytest.mark.parametrize("caller", [None, MALLORY])
def test_root_with_the_home_of_a_user_runs_no_program_that_its_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: int | None
) -> None:
    """`credential_process` of AWS's settings, as of `sudo -E`; of who called sudo it is believed."""
    from gridwright.providers.aws.session import Cloud

    open_to_all(tmp_path)
    home, marker = tmp_path / "home", tmp_path / "marker"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "config").write_text(f"[default]\ncredential_process = sh -c 'id >{marker}; exit 1'\n")
    for each in (home, home / ".aws", home / ".aws" / "config"):
        os.chown(each, MALLORY, MALLORY)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    if caller is not None:
        monkeypatch.setenv("SUDO_UID", str(caller))
    with pytest.raises(GridwrightError) as caught:
        Cloud("eu-west-1").call("sts", "get_caller_identity")
    assert marker.exists() == (caller is not None)
    if caller is None:
        (problem,) = caught.value.problems
        assert problem.where == str(home)
        assert "sudo -H" in (problem.remedy or "")
