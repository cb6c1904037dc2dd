"""One Python on the grid that head node and nodes share, with packages that are not brought along."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright import __version__
from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.grid.fanout import on_nodes
from gridwright.grid.node_part import PACKAGES, node_part
from gridwright.grid.node_python import UNPACK_S, last_line, script
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.ssh_head import UNREACHABLE, why_no_ssh
from gridwright.spec.hosts import fold_hosts
from gridwright.trusted import untrusted

FIND_S = 60.0
"""For a few Pythons to start from a shared file system, and to look for a dozen modules."""
_LACKING = """\
import sys
from importlib.util import find_spec
def lacks(name):
    try:
        return find_spec(name) is None
    except ImportError:
        return True
places = [each for each in sys.path if each.endswith("-packages")]
print("python", sys.executable, ":".join(places), " ".join(filter(lacks, sys.argv[1:])), sep="\\t")
"""
_RUNS = "import gridwright._native\n"


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that a program on the grid needs beside Gridwright's own part."""

    what: str
    """What they are there for, such as "packages that the workload needs"."""
    modules: Mapping[str, str]
    """Name of each package, by the module that tells that it is there."""
    install: str
    """What pip is asked for to have them all."""
    otherwise: str
    """What can be done without them."""


@dataclass(frozen=True, slots=True)
class _Interpreter:
    python: str
    places: str
    """Directories of its packages, joined by colons."""
    lacking: Sequence[str]


class SharedPython:
    """The Python of one grid; see the module.

    Packages are taken from the environment `python` in the state directory, which an administrator makes
    once, or from a Python that the machines have. Gridwright's own part is brought into the state directory,
    so that it is of this very version.
    """

    def __init__(self, head: HeadNode, state: Path, extensions: tuple[str, ...]) -> None:
        """`state` is the same directory on all machines of the grid; it need not be seen from here."""
        self._head = head
        self._state = state
        self._part = node_part(extensions, PACKAGES)

    def path(self, packages: Packages, nodes: Collection[str]) -> str:
        """Its path on the grid.

        Nodes that do not answer are not judged. Raises GridwrightError (ENVIRONMENT) that says what the grid
        lacks, on which machines, and how it gets that.
        """
        found = self._find(packages)
        python = self._brought(found)
        self._check(python, packages, nodes)
        return python

    @property
    def _environment(self) -> Path:
        return self._state / "python"

    def _find(self, packages: Packages) -> _Interpreter:
        asked = (str(self._environment), str(sys.version_info.minor), _LACKING, *packages.modules)
        answer = self._head.run(script("find_modules.sh", *asked), timeout_s=FIND_S)
        interpreters = _parse_interpreters(answer.stdout)
        machine = last_line(answer.stdout)
        if machine != platform.machine():
            raise environment_error(
                f"it is {machine or 'of unknown kind'}, and this Gridwright is for {platform.machine()}",
                where=self._head.name,
                remedy=f"run it from a machine that is {machine or 'like it'}; {packages.otherwise}",
            )
        if (error := _untrusted(answer.stdout)) is not None:
            raise error
        for interpreter in interpreters:
            if not interpreter.lacking:
                return interpreter
        least = min(interpreters, key=lambda each: len(each.lacking), default=None)
        lacking = (
            packages.modules.values() if least is None else map(packages.modules.__getitem__, least.lacking)
        )
        what = f"{packages.what} are not on the grid: {', '.join(lacking)}"
        raise GridwrightError(self._lacks(what, self._head.name, packages), status=ExitStatus.ENVIRONMENT)

    def _lacks(self, what: str, where: str, packages: Packages) -> Problem:
        environment = self._environment
        return Problem(
            what,
            where,
            remedy=f"once, as root on {self._head.name}: python3 -m venv {environment} && "
            f"{environment}/bin/pip install '{packages.install}'; {packages.otherwise}",
        )

    def _does_not_run(self, why: str, where: str, packages: Packages) -> Problem:
        return Problem(
            f"the Python that is in {self._state} does not run there: {why}",
            where,
            remedy=f"all nodes have to see {self._state}, and to have the Python of {self._head.name}; "
            f"{packages.otherwise}",
        )

    def _brought(self, interpreter: _Interpreter) -> str:
        """The path of a Python with those packages and our part, which is copied where it is not there."""
        digest = hashlib.sha256(f"{interpreter.python}\n{interpreter.places}".encode()).hexdigest()[:8]
        name = f"{self._part.name}-{digest}"
        home = self._state / "parts"
        asked = (name, interpreter.python, str(home), interpreter.places)
        answer = self._head.run(script("unpack_part.sh", *asked, "look"), timeout_s=FIND_S)
        if answer.status != 0:
            command = script("unpack_part.sh", *asked)
            answer = self._head.run(command, stdin=self._part.content, timeout_s=UNPACK_S)
        if answer.status != 0:
            raise environment_error(
                f"gridwright {__version__} cannot be brought to the grid: {_why(answer)}",
                where=f"{self._head.name}: {home}",
                remedy="name a directory that all nodes share, and that you may write to, with `state:` in "
                "the grid spec",
            )
        return last_line(answer.stdout)

    def _check(self, python: str, packages: Packages, nodes: Collection[str]) -> None:
        """Raise GridwrightError where a node cannot run it, or lacks something that the head node has."""
        command = [python, "-P", "-c", _RUNS + _LACKING, *packages.modules]
        failing: dict[str, list[str]] = {}
        lacking: dict[str, list[str]] = {}
        for node, answer in on_nodes(self._head, nodes, command, timeout_s=FIND_S).items():
            if answer is None or answer.status == UNREACHABLE:
                continue
            interpreters = _parse_interpreters(answer.stdout)
            if answer.status != 0 or not interpreters:
                failing.setdefault(_why(answer), []).append(node)
            elif interpreters[0].lacking:
                lacking.setdefault(
                    ", ".join(map(packages.modules.__getitem__, interpreters[0].lacking)), []
                ).append(node)
        problems = [self._does_not_run(why, fold_hosts(where), packages) for why, where in failing.items()]
        problems += [
            self._lacks(f"{packages.what} are not all there: {names}", fold_hosts(where), packages)
            for names, where in lacking.items()
        ]
        if problems:
            raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)


def _parse_interpreters(output: bytes) -> list[_Interpreter]:
    found = []
    for line in output.decode(errors="replace").splitlines():
        word, _, rest = line.partition("\t")
        if word == "python" and rest.count("\t") == 2:
            python, places, lacking = rest.split("\t")
            found.append(_Interpreter(python, places, lacking.split()))
    return found


def _untrusted(output: bytes) -> GridwrightError | None:
    """The error of an environment that is not run; None where nothing was said of it."""
    for line in output.decode(errors="replace").splitlines():
        word, _, rest = line.partition("\t")
        if word == "untrusted":
            path, _, whose = rest.partition("\t")
            return untrusted(path, f"it belongs to {whose}; only what is root's or yours is run")
    return None


def _why(answer: CommandOutput) -> str:
    return why_no_ssh(answer.stderr.decode(errors="replace")) or f"exit status {answer.status}"
