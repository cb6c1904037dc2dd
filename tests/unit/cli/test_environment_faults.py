"""A file system that goes away under any verb, and a working directory that is gone: one line, status 3."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gridwright.cli import main
from gridwright.errors import ExitStatus


def ended(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["gridwright", *arguments])
        patch.setattr(main, "protect_streams", lambda: None)
        with pytest.raises(SystemExit) as caught:
            main.run()
    return caught.value.code, capfd.readouterr().err


@pytest.mark.parametrize("typed", ["runs list --runs {}", "runs show --runs {}", "init {}/grid.yaml"])
def test_a_mount_whose_client_has_died(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stat = os.stat

    def broken(path: object, *_: object, **flags: object) -> os.stat_result:
        if str(path).startswith(str(tmp_path)):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), str(path))
        return stat(path, **flags)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", broken)
    status, said = ended(capfd, *typed.format(tmp_path).split())
    assert status == ExitStatus.ENVIRONMENT
    assert said.startswith(f"error: {tmp_path}")
    assert "Transport endpoint is not connected\n" in said
    assert "mount it again" in said


def test_a_working_directory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, said = ended(capfd, "iotest", "--directory", "here")
    assert status == ExitStatus.ENVIRONMENT
    assert said == "error: the working directory is gone\n  go to a directory that is there: cd DIR\n"
