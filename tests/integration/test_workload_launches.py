"""What the workload does with single launches: their limits, their ends, their accounts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gridwright.workload.imports.sas_log import read_sas_log
from gridwright.workload.private_directories import PREFIX
from tests.support.command import Command
from tests.support.workload import Grid, running, sh, wait_for, wait_until_gone

MIB = 1 << 20
KEYS = {
    *("test", "class", "stream", "node", "real_s", "user_s", "system_s", "peak_memory_bytes"),
    *("read_bytes", "written_bytes", "cpu_real_ratio", "bound_by", "ok"),
}
SUMMARY_KEYS = {
    *("real_s", "user_s", "system_s", "ratio_mean", "ratio_stdev", "ratio_min", "ratio_max"),
    *("ratio_of_sums", "mean_concurrency"),
}


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


def python(program: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    return {"command": [sys.executable, "-S", "-E", "-c", program, *arguments], "name": "python"} | fields


def only(document: Any) -> Any:
    (launch,) = document["launches"]
    return launch


def test_one_that_fails_does_not_stop_the_rest_and_all_of_it_is_on_record(grid: Grid) -> None:
    streams: list[list[Any]] = [
        [["true"], sh("echo first; echo 'no licence' >&2; exit 3", name="sad"), sh("sleep 1.2", name="nap")],
        [["true"]],
    ]
    ended = grid.run(*streams)
    assert ended.status == 1, ended.err
    document = ended.json
    launches = document["launches"]
    assert [(launch["number"], launch["test"], launch["stream"], launch["ok"]) for launch in launches] == [
        (1, "true", 1, True),
        (2, "sad", 1, False),
        (3, "nap", 1, True),
        (4, "true", 2, True),
    ]
    assert launches[1]["reason"] == "ended with exit status 3: no licence"
    assert launches[1]["exit_status"] == 3
    assert all(launch.keys() >= KEYS and launch["class"] == "command" for launch in launches)
    assert document["summary"].keys() >= SUMMARY_KEYS
    assert document["met"] is False
    assert document["status"] == "complete"
    assert document["summary"]["failed"] == 1
    assert 1.2 <= launches[2]["real_s"] < 10
    assert launches[2]["bound_by"] == "other"
    assert launches[2]["cpu_real_ratio"] < 0.5
    run = Path(document["run"])
    assert {path.name for path in run.iterdir()} == {
        *("run.json", "workload.json", "launches.parquet", "samples.parquet", "report.html", "logs"),
    }
    assert json.loads((run / "workload.json").read_text()) == document
    table = pq.read_table(run / "launches.parquet").to_pylist()
    assert [row["test"] for row in table] == [launch["test"] for launch in launches]
    assert [row["real_s"] for row in table] == [launch["real_s"] for launch in launches]
    assert {row["library"] for row in pq.read_table(run / "samples.parquet").to_pylist()} == {
        "data",
        "work",
        "util",
    }
    assert "no licence" in (run / "report.html").read_text()
    for launch in launches:
        read, _ = read_sas_log(run / launch["log"], number=1, node="n")
        assert read.real_s == pytest.approx(launch["real_s"], abs=0.006)
        assert read.ok == launch["ok"]
    assert "+ no licence" in (run / launches[1]["log"]).read_text()
    assert grid.left() == []


REASONS = {
    "signal": (sh("kill -SEGV $$"), "killed by SIGSEGV"),
    "unnamed": (sh("kill -40 $$"), "killed by signal 40"),
    "kill": (sh("kill -KILL $$"), "killed by SIGKILL"),
    "not-found": ({"command": ["no-such"]}, "could not be started: No such file or directory: no-such"),
    "no-program": ({"command": ["/etc/passwd"]}, "could not be started: Permission denied: /etc/passwd"),
    "nul": ({"command": ["echo", "a\0b"]}, "could not be started: embedded null byte"),
    "status": (sh("exit 7"), "ended with exit status 7"),
    "no-text": (sh("printf 'caf\\351 \\377' >&2; exit 1"), "ended with exit status 1: caf\ufffd \ufffd"),
    "time": (sh("sleep 60", time_limit=0.5), "did not end within its time limit of 0.5 s"),
}  # fmt: skip


def test_the_reasons_of_failures(grid: Grid) -> None:
    ended = grid.run(*([entry | {"name": name}] for name, (entry, _) in REASONS.items()), [["true"]])
    assert ended.status == 1, ended.err
    found = {launch["test"]: launch for launch in ended.json["launches"]}
    assert found.pop("true")["ok"]
    assert {name: launch["reason"] for name, launch in found.items()} == {
        name: reason for name, (_, reason) in REASONS.items()
    }
    assert not any(launch["ok"] for launch in found.values())
    assert grid.left() == []


STUBBORN = """
trap '' TERM
(trap '' TERM; setsid sh -c 'trap "" TERM; sleep 61 & sleep 61; true' TOKEN) &
sleep 61
sleep 61
"""


def test_a_time_limit_ends_the_whole_tree_also_what_ignores_sigterm(grid: Grid, tmp_path: Path) -> None:
    token = f"stubborn-{tmp_path.name}"
    entry = sh(STUBBORN.replace("TOKEN", token), time_limit=1.0)
    ended = grid.run([entry, ["true"]])
    assert ended.status == 1
    stubborn, after = ended.json["launches"]
    assert stubborn["reason"] == "did not end within its time limit of 1 s"
    assert 1.0 <= stubborn["real_s"] < 10
    assert after["ok"]
    assert running(token) == []
    assert grid.left() == []


def test_sigterm_comes_first_so_that_a_job_can_tidy_up(grid: Grid, tmp_path: Path) -> None:
    tidy = tmp_path / "tidy"
    grid.run([sh(f"trap 'echo tidy > {tidy}; exit 0' TERM; sleep 60 & wait", time_limit=0.5)])
    assert tidy.read_text() == "tidy\n"


HOG = """
import time
held = bytearray(200 << 20)
held[::4096] = b"1" * len(held[::4096])
time.sleep(30)
"""


def test_a_memory_limit_ends_a_launch_and_only_it(grid: Grid) -> None:
    ended = grid.run([python(HOG, memory="100MiB")], [sh("sleep 1", name="nap")])
    assert ended.status == 1
    hog, nap = ended.json["launches"]
    assert (
        "of memory, above its limit of 105 MB" in hog["reason"]
        or "above its limit of 100 MiB" in hog["reason"]
    )
    assert hog["bound_by"] == "memory"
    assert hog["peak_memory_bytes"] > 100 * MIB
    assert hog["memory_limit_bytes"] == 100 * MIB
    assert nap["ok"]


def test_the_memory_of_all_processes_of_a_launch_counts_together(grid: Grid) -> None:
    half = HOG.replace("200 <<", "80 <<").replace("30)", "1)")
    pair = f"import os; os.fork()\n{half}"
    both, one = grid.run([python(pair)], [python(half)]).json["launches"]
    assert both["peak_memory_bytes"] > 150 * MIB
    assert 75 * MIB < one["peak_memory_bytes"] < 120 * MIB


def test_what_a_launch_leaves_running_is_ended(grid: Grid, tmp_path: Path) -> None:
    token = f"daemon-{tmp_path.name}"
    daemon = f"setsid sh -c 'trap \"\" TERM HUP; sleep 61; true' {token} > /dev/null 2>&1 & sleep 0.2"
    launch = only(grid.run([sh(daemon)]).json)
    assert launch["ok"]
    assert launch["real_s"] < 10
    assert running(token) == []


BURN = "import time; until = time.process_time() + 0.6\nwhile time.process_time() < until: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {BURN!r}])"
LEFT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], start_new_session=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.05)
"""
COPIES = "dd if=/dev/zero of=big bs=1M count=20 2>&-; cat big > /dev/null; (cat big > $GRIDWRIGHT_UTIL/big2)"


def test_each_launch_is_charged_with_what_all_its_processes_used(grid: Grid, tmp_path: Path) -> None:
    done = tmp_path / "done"
    burn = f"{BURN}\nopen({str(done)!r}, 'w').write('x')\ntime.sleep(60)"
    document = grid.run(
        [{"command": ["sleep", "0.5"], "name": "small"}],
        [python(CHILD) | {"name": "grandchild"}],
        [python(LEFT, burn, str(done)) | {"name": "left-behind"}],
        [sh(COPIES, name="copies")],
    ).json
    found = {launch["test"]: launch for launch in document["launches"]}
    assert all(launch["ok"] for launch in found.values()), found
    # Not with the memory of what started it.
    assert found["small"]["peak_memory_bytes"] < 10 * MIB
    for name in ("grandchild", "left-behind"):
        launch = found[name]
        cpu_s = launch["user_s"] + launch["system_s"]
        assert cpu_s >= 0.6, name
        assert launch["cpu_real_ratio"] == pytest.approx(cpu_s / launch["real_s"])
    # /dev/zero is read, too, and cat copies without reading where it can.
    assert found["copies"]["read_bytes"] >= 20 * MIB
    assert 40 * MIB <= found["copies"]["written_bytes"] < 90 * MIB


def test_a_launch_is_told_where_its_libraries_and_limits_are(grid: Grid, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = (
        "printf '%s\\n' $GRIDWRIGHT_DATA $GRIDWRIGHT_WORK $GRIDWRIGHT_UTIL $GRIDWRIGHT_CORES "
        f"$GRIDWRIGHT_MEMORY $GRIDWRIGHT_BLOCK $TMPDIR $(pwd) $HOME > {told}; "
        "touch $GRIDWRIGHT_WORK/a $GRIDWRIGHT_UTIL/b"
    )
    launch = only(grid.run([sh(script, cores=2, memory="64MiB", name="asks")]).json)
    assert launch["ok"], launch
    data, work, util, cores, memory, block, temporary, here, home = told.read_text().splitlines()
    assert Path(data) == grid.library("data")
    assert Path(work).parent.parent == grid.library("work")
    assert Path(util).parent.parent == grid.library("util")
    assert (cores, memory, block) == ("2", str(64 * MIB), "65536")
    assert temporary == here == work
    assert home
    assert not Path(work).parent.exists()
    assert not Path(util).parent.exists()


def test_launches_do_not_see_each_others_files_and_leave_none(grid: Grid) -> None:
    look = 'test -z "$(ls -A)" || exit 9; mkdir -p a/b; touch a/b/c; sleep 0.3'
    locked = "mkdir -p deep/er; touch deep/er/file; chmod 000 deep/er deep"
    ended = grid.run([sh(look), sh(look), sh(locked)], [sh(look), sh(look)])
    assert ended.status == 0, ended.json["launches"]
    assert grid.left() == []


def test_directories_are_kept_on_request_and_the_next_run_leaves_them(grid: Grid) -> None:
    ended = grid.run([sh("echo mine > table", name="job")], flags=["--keep"])
    assert ended.status == 0
    (finding,) = ended.findings
    assert finding["name"] == "workload-kept"
    (table,) = grid.library("work").glob(f"{PREFIX}*/0001-job/table")
    assert str(table.parent.parent) in finding["text"]
    assert grid.run([["true"]]).status == 0
    assert table.read_text() == "mine\n"


def test_arguments_arrive_byte_for_byte(grid: Grid, tmp_path: Path) -> None:
    words = [
        "a b",
        "",
        "'\"\\",
        "new\nline\ttab",
        "grün 表 \U0001f600",
        "$HOME `x` *",
        "-x",
        "#: {[",
        "010",
        "true",
    ]
    told = tmp_path / "told"
    program = (
        "import os, sys\n"
        "with open(os.fsencode(sys.argv[1]), 'wb') as told:\n"
        "    told.write(b'\\0'.join(map(os.fsencode, sys.argv[2:])))"
    )
    launch = only(grid.run([python(program, str(told), *words)]).json)
    assert launch["ok"], launch
    assert told.read_bytes().split(b"\0") == [word.encode() for word in words]


def test_a_launch_has_no_input_and_the_usual_signals(grid: Grid) -> None:
    program = (
        "import signal, sys; assert sys.stdin.read() == ''; "
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL; "
        "import os; assert sorted(map(int, os.listdir('/proc/self/fd')))[:3] == [0, 1, 2]; "
        "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    ended = grid.command(
        *grid.arguments([python(program)]), prefix=("sh", "-c", 'ulimit -S -n 300; exec "$@"', "sh")
    )
    launch = only(ended.json)
    assert launch["ok"], launch
    assert "+ 300\n" in (Path(ended.json["run"]) / launch["log"]).read_text()


def test_a_chatty_launch_does_no_harm(grid: Grid) -> None:
    ended = grid.run(
        [sh("yes 0123456789012345678901234567890123456789 | head -c 100000000; echo; echo the end")]
    )
    launch = only(ended.json)
    assert launch["ok"], launch
    log = Path(ended.json["run"]) / launch["log"]
    assert log.stat().st_size < 100_000
    assert "+ the end" in log.read_text()


def test_more_streams_than_files_may_be_open(grid: Grid) -> None:
    arguments = grid.arguments([["true"]], flags=["--streams", "60"])
    ended = grid.command(*arguments, prefix=("sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"))
    assert ended.status == 0, ended.err
    assert len(ended.json["launches"]) == 60


def test_a_matrix_of_a_thousand_launches_begins_at_once(grid: Grid, tmp_path: Path) -> None:
    first = tmp_path / "first"
    many = [sh(f"echo n{number}>{first};sleep 30", name=f"n{number}") for number in range(1000)]
    with grid.start(many, flags=["--time-limit", "60s"]) as started:
        assert wait_for(first) == "n0\n"
        started.process.terminate()
        assert started.end(30).status == 130


def test_launches_of_a_stream_run_one_after_the_other_and_streams_at_once(grid: Grid) -> None:
    nap = sh("sleep 0.4", name="nap")
    document = grid.run([nap, nap], [nap, nap]).json
    first, second, third, fourth = document["launches"]
    assert first["ended"] <= second["started"] + 0.01
    assert third["ended"] <= fourth["started"] + 0.01
    assert third["started"] < first["ended"]
    assert 1.2 < document["summary"]["mean_concurrency"] <= 2.0


def test_streams_can_be_chosen_and_no_launch_is_lost(grid: Grid) -> None:
    document = grid.run([["true"]], [["false"]], [["true"]], flags=["--streams", "2"]).json
    assert sorted(launch["test"] for launch in document["launches"]) == ["false", "true", "true"]
    assert document["streams"] == 2


def test_a_process_that_is_ended_leaves_nothing_behind_it(grid: Grid, tmp_path: Path) -> None:
    token = f"forks-{tmp_path.name}"
    forks = f"for n in 1 2 3 4 5 6 7 8; do sh -c 'while :; do sleep 0.01; done' {token} & done; sleep 60"
    assert not only(grid.run([sh(forks, time_limit=0.7)]).json)["ok"]
    wait_until_gone(token, 1.0)
