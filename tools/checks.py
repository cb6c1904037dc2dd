"""Runs all checks of `make check`, `make test` or `make test-thorough`, and says how long each part took.

Parts of one stage run side by side; what follows a stage that failed is left out. The output of each part
is kept in build/checks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

BIN = Path(sys.executable).parent
KEPT = Path("build/checks")
LIMIT_S = 3600
"""A part that takes longer hangs."""
TESTS_FAILED = 1
"""The exit status of pytest when it ran to its end and tests failed."""
CARGO = ("--manifest-path", "native/Cargo.toml")
AGAIN = ("--last-failed", "--last-failed-no-failures", "none")
AGAIN_MOST = 8
"""So many failed tests may be run once more; more than that say that something is wrong."""
SLOWEST = 10
BY_TEST = "--dist worksteal"
BY_FILE = "--dist loadfile --no-loadscope-reorder"
"""Tests of a file share its lab; files begin in the order of `tests/machine/conftest.py`."""
ONE_BY_ONE = "--dist load --maxschedchunk 1"
"""For few tests that take long: none waits behind another while a worker has nothing to do."""
THOROUGH = "--thorough"
AROUND = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Tests start the command some thousand times: it is compiled once, whatever the caller keeps."""


@dataclass
class Part:
    """Some commands, run one after the other, and what came of them."""

    name: str
    commands: list[tuple[str, ...]]
    again: tuple[str, ...] = ()
    """What runs the failed tests once more: apart, with labs and daemons that no other test has touched."""
    by_file: bool = False
    """Whether whole files are run once more, as their tests go on from one another."""
    seconds: float = 0.0
    cpu_s: float = 0.0
    failed: bool = False
    ran: bool = False
    tests: list[tuple[float, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Tests that were not run, by their reasons."""
    rerun: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """Where its output is kept."""
        return KEPT / f"{self.name}.log"

    @property
    def results(self) -> Path:
        """Where pytest says how long each test took."""
        return KEPT / f"{self.name}.xml"

    def run(self, *, shown: bool) -> None:
        """Run the commands up to the first that fails; their output is shown at once, or kept for later."""
        self.ran = True
        started = time.monotonic()
        with self.log.open("wb") as log:
            for command in self.commands:
                status = self._one(command, log.fileno(), shown=shown)
                if status:
                    self.failed = not self._passes_apart(status, log.fileno(), shown=shown)
                    break
        self.seconds = time.monotonic() - started
        self._read_results()

    def _passes_apart(self, status: int, log: int, *, shown: bool) -> bool:
        if status != TESTS_FAILED or not self.again:
            return False
        self.rerun = sorted({_place(case) for case in self._cases() if _failed(case)})
        files = sorted({place.partition("::")[0] for place in self.rerun}) if self.by_file else []
        return len(self.rerun) <= AGAIN_MOST and self._one((*self.again, *files), log, shown=shown) == 0

    def _one(self, command: tuple[str, ...], log: int, *, shown: bool) -> int:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=AROUND)
        watch = threading.Timer(LIMIT_S, process.terminate)
        watch.start()
        try:
            for line in process.stdout or ():
                os.write(log, line)
                if shown:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
            _, status, used = os.wait4(process.pid, 0)
        finally:
            watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s += used.ru_utime + used.ru_stime
        return process.returncode

    def _cases(self) -> list[ElementTree.Element]:
        if not self.results.exists():
            return []
        return list(ElementTree.parse(self.results).iter("testcase"))  # noqa: S314 - pytest's own file

    def _read_results(self) -> None:
        """Read what pytest wrote of each test."""
        for case in self._cases():
            self.tests.append((float(case.get("time", 0)), _place(case)))
            if (skipped := case.find("skipped")) is not None:
                self.skipped[skipped.get("message", "").removeprefix("Skipped: ")] += 1


def _place(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


def _failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def pytest(name: str, *arguments: str) -> Part:
    """Make a part of tests."""
    command = (str(BIN / "pytest"), "-q", f"--junitxml={KEPT / name}.xml", *arguments)
    return Part(name, [command])


def daemons(name: str, *arguments: str, marked: str, workers: int = 0, spread: str = BY_TEST) -> Part:
    """Make a part of tests with real daemons, browsers or labs, which a busy machine can make fail."""
    chosen = (*arguments, "-m", marked)
    part = pytest(name, *chosen, *(("-n", str(workers), *spread.split()) if workers else ()))
    part.by_file = spread == BY_FILE
    part.again = (str(BIN / "pytest"), "-q", *(("-m", marked) if part.by_file else (*chosen, *AGAIN)))
    return part


def between(name: str, commands: list[tuple[str, ...]]) -> Part:
    """Make a part that waits for nobody: it has what tests beside it leave idle."""
    return Part(name, [("nice", *each) for each in commands])


def check(*more: str) -> list[list[Part]]:
    """The inner loop."""
    ruff, cargo = str(BIN / "ruff"), "cargo"
    style = [(ruff, "format", "--check", "."), (ruff, "check", "."), (sys.executable, "tools/words.py")]
    clippy = (cargo, "clippy", *CARGO, "--locked", "--all-targets", "--quiet", "--", "--deny", "warnings")
    rust = [
        (cargo, "fmt", *CARGO, "--all", "--check"),
        clippy,
        (cargo, "test", *CARGO, "--locked", "--quiet"),
    ]
    unit = pytest("unit", "tests/unit", "-n", "2", *BY_TEST.split(), *more)
    # Types take one core, and cargo waits for its linker: beside each other they leave no core idle.
    return [[Part("style", style)], [between("types", [(str(BIN / "mypy"),)]), between("rust", rust), unit]]


def test(*more: str, machines: str = "not qemu") -> list[list[Part]]:
    """All that a release must pass."""
    made = (
        "tests.support.ansible_releases",
        "tests.support.versitygw",
        "tests.support.prometheus",
        "tests.machine.image",
        "tests.vm.images",
        "tests.vm.boot_image",
        "tests.support.lustre_vm",
        *(("tests.support.tofu",) if THOROUGH in more else ()),
    )
    images = between("images", [(sys.executable, "-m", each) for each in made])
    lint = [
        between("playbook", [("make", "lint-playbook")]),
        between("templates", [("make", "lint-templates")]),
        between("docs", [("make", "docs"), (sys.executable, "tools/site.py", "build/site", "--search")]),
    ]
    here = ("tests/integration", "tests/plugin")
    busy = "not alone"
    style, code = check(*more)
    # Labs have the machine for themselves: a node whose health is asked too late is drained.
    return [
        style,
        [*code, *lint, images],
        [daemons("machine", "tests/machine", *more, marked=busy, workers=4, spread=BY_FILE)],
        [daemons("integration", *here, *more, marked=busy, workers=4)],
        [daemons("alone", "tests/integration", "tests/machine", *more, marked="alone")],
        [daemons("vm", "tests/vm", *more, marked=machines, workers=2, spread=ONE_BY_ONE)],
        # The guest takes both cores. Where no such machine is, its tests are named as not run.
        [daemons("lustre", "tests/lustre", *more, marked=busy)],
    ]


WANTED = {
    "check": check,
    "test": test,
    "test-thorough": lambda: test(THOROUGH, machines="vm"),
}


def report(stages: list[list[Part]]) -> None:
    """Print the time of each part and the slowest tests."""
    parts = [part for stage in stages for part in stage if part.ran]
    print(f"\n{'part':12} {'seconds':>8} {'CPU':>7} {'tests':>6} {'skipped':>8} {'run again':>10}")
    for part in parts:
        counts = f"{len(part.tests) or '':>6} {part.skipped.total() or '':>8} {len(part.rerun) or '':>10}"
        said = " failed" if part.failed else ""
        print(f"{part.name:12} {part.seconds:8.1f} {part.cpu_s:7.1f} {counts}{said}")
    for part in parts:
        for why, count in part.skipped.items():
            print(f"not run: {count} of {part.name}: {why}")
    for place in (each for part in parts for each in part.rerun):
        print(f"run again: {place}")
    tests = sorted((each for part in parts for each in part.tests), reverse=True)
    if tests:
        print("the slowest tests, in seconds")
    for seconds, place in tests[:SLOWEST]:
        print(f"{seconds:8.1f}  {place}")


def carry_out(stages: list[list[Part]]) -> bool:
    """Run the stages up to the first that failed; whether all passed."""
    for stage in stages:
        alone = len(stage) == 1
        threads = [threading.Thread(target=part.run, kwargs={"shown": alone}) for part in stage]
        for thread in threads:
            thread.start()
        for part, thread in zip(stage, threads, strict=True):
            thread.join()
            if not alone:
                sys.stdout.write(part.log.read_text(errors="replace"))
            print(f"{part.name}: {'failed' if part.failed else 'passed'}, {part.seconds:.1f} s", flush=True)
        if any(part.failed for part in stage):
            return False
    return True


def main() -> int:
    """Run what the one argument names."""
    # What starts this may ignore them, as shells do for jobs in the background, and so would what is tested.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    stages = WANTED[sys.argv[1]]()
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    started = time.monotonic()
    try:
        passed = carry_out(stages)
    finally:
        report(stages)
    print(f"{'all' if passed else 'up to the failure'}: {time.monotonic() - started:.1f} s")
    return not passed


if __name__ == "__main__":
    sys.exit(main())
