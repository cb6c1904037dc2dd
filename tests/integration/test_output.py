"""The output of the real command, where stdout or the locale is not what one would wish."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path

import pytest

from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus
from tests.support.command import GRIDWRIGHT

LIST = "catalog", "list", "--family", "m5n"
SPEC = """name: demo
filesystems: {disk: {type: local, path: /tmp}}
libraries: {data: {filesystem: disk}, work: {filesystem: disk}, util: {filesystem: disk}}
silence: {shared-disks: "größer wird es nicht: 日本"}
"""
COMMANDS = [
    LIST,
    (*LIST, "--json"),
    ("schema",),
    ("--help",),
    ("catalog", "--help"),
    ("init", "made.yaml"),
    ("--version",),
]


def run(
    arguments: tuple[str, ...], directory: Path, *, stdout: int, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [GRIDWRIGHT, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=directory,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_below_stdout_fails_the_environment_in_one_line(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(arguments, tmp_path, stdout=full.fileno())
    assert done.returncode == ExitStatus.ENVIRONMENT
    assert done.stderr == b"error: stdout: cannot be written: No space left on device\n"


@pytest.mark.few(2)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_pipe_that_nobody_reads_fails_the_environment_in_one_line(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(arguments, tmp_path, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == ExitStatus.ENVIRONMENT
    assert done.stderr == b"error: stdout: cannot be written: Broken pipe\n"


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)


def test_a_reader_that_goes_away_in_the_middle_of_a_document_is_told_of() -> None:
    """The document is larger than a pipe, so the command still writes when the reader goes."""
    done = shell(f"{GRIDWRIGHT} catalog list --json | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stdout) == (ExitStatus.ENVIRONMENT, "{")
    assert done.stderr == "error: stdout: cannot be written: Broken pipe\n"


def test_a_pipe_that_was_set_not_to_block_gets_all_of_a_document(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen([GRIDWRIGHT, "schema"], stdout=writer, cwd=tmp_path) as process:
        os.close(writer)
        assert select.select([reader], [], [], 60)[0], "nothing came"
        time.sleep(0.5)  # until it is full
        with os.fdopen(reader, "rb") as pipe:
            assert json.loads(pipe.read())["title"]
    assert process.returncode == ExitStatus.DONE


def test_a_stdout_that_is_closed_fails_the_environment_and_becomes_no_other_file(tmp_path: Path) -> None:
    done = shell(f"cd {tmp_path} && {GRIDWRIGHT} init made.yaml >&-")
    assert done.returncode == ExitStatus.ENVIRONMENT
    assert done.stderr == "error: stdout: cannot be written: Bad file descriptor\n"
    assert "\nname:" in (tmp_path / "made.yaml").read_text()


@pytest.mark.few(1)
@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_messages_that_nobody_can_read_stop_nothing(stderr: str, tmp_path: Path) -> None:
    done = shell(f"cd {tmp_path} && {GRIDWRIGHT} runs list --runs . {stderr} && {GRIDWRIGHT} schema {stderr}")
    assert done.returncode == ExitStatus.DONE
    assert json.loads(done.stdout)["title"]
    iotest = "iotest --directory . --streams 1 --size 64KiB --phases write --json"
    done = shell(f"cd {tmp_path} && {GRIDWRIGHT} {iotest} {stderr}")
    assert json.loads(done.stdout)["status"] == "complete"


def test_what_is_wrong_stays_wrong_where_stdout_takes_no_document() -> None:
    done = shell(f"{GRIDWRIGHT} check /nowhere.yaml --json > /dev/full")
    assert done.returncode == ExitStatus.ENVIRONMENT
    done = shell(f"{GRIDWRIGHT} plan /nowhere.yaml --json > /dev/full")
    assert done.returncode == ExitStatus.INPUT
    assert "/nowhere.yaml" in done.stderr
    assert "Traceback" not in done.stderr


LOCALES = {
    "C": {"LC_ALL": "C"},
    "C without UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "ascii, surrogates": {"PYTHONIOENCODING": "ascii:surrogateescape"},
    "latin-1": {"PYTHONIOENCODING": "latin-1:strict"},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("locale", LOCALES)
def test_every_locale_gets_the_result(locale: str, tmp_path: Path) -> None:
    spec = tmp_path / "größer-日本.yaml"
    spec.write_text(SPEC, "utf-8")
    name = os.fsencode(spec).decode("utf-8", "surrogateescape")
    text = run(("check", name), tmp_path, stdout=subprocess.PIPE, **LOCALES[locale])
    assert (text.returncode, text.stderr) == (0, b"")
    assert b"valid. Grid demo" in text.stdout
    if locale in {"C without UTF-8", "ascii", "ascii, surrogates"}:
        assert text.stdout.isascii()
        assert b"?" in text.stdout
    document = run(("check", name, "--json"), tmp_path, stdout=subprocess.PIPE, **LOCALES[locale])
    assert json.loads(document.stdout)["ok"] is True


def test_a_document_says_first_which_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    answer = LazyResult(document=lambda: {"b": 1, "a": "é"}, text=lambda: "one\ntwo")
    Output("runs list", json=True).show(answer, following="nothing")
    assert capsys.readouterr().out == (
        '{\n  "schema": 1,\n  "command": "runs list",\n  "b": 1,\n  "a": "\\u00e9"\n}\n'
    )
    Output("runs list").show(answer, following="gridwright prove")
    assert capsys.readouterr().out == "one\ntwo\n\nnext: gridwright prove\n"


def test_a_note_never_mixes_with_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    Output("plan", json=True).note("page: plan.html")
    Output("plan").note("page: other.html")
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == ("page: plan.html\n", "page: other.html\n")
