"""The Python that runs Gridwright's parts on each node: the node's own, a shared one, or a copied part.

Nodes that lack this version are given one archive of it and of what it imports there, with the site's own
packages that the spec uses (extensions).
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import platform
import re
import sys
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from gridwright import __version__
from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.grid.nodes import on_nodes
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.ssh_head import UNREACHABLE, why_no_ssh
from gridwright.spec import FILESYSTEMS, PROVIDERS, SCHEDULERS, GridSpec
from gridwright.spec.hosts import fold_hosts
from gridwright.trusted import untrusted

FIND_S = 20.0
"""For a node to say which Pythons it has."""
_UNPACK_S = 120.0
"""For 6 MB over a slow line, and a start of Python from a shared home directory."""
_HERE = Path(__file__).parent


class NodePythons:
    """The Python of each node, looked up once; nodes without this Gridwright are given their part of it.

    Nothing is copied to nodes that have the same version at the same path, as where it is shared.
    """

    def __init__(self, head: HeadNode, extensions: tuple[str, ...] = ()) -> None:
        """`extensions` are names of the site's own packages that nodes need, too."""
        self._head = head
        self._extensions = extensions
        self._found: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    def of(self, nodes: Collection[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The path of the Python of each node, and in words why others have none.

        A node that does not answer is in neither: it may answer later. Raises GridwrightError where the head
        node is not there.
        """
        if self._head.nodes_share_python:
            return dict.fromkeys(nodes, sys.executable), {}
        unknown = [node for node in nodes if node not in self._found and node not in self._lost]
        lacking, losses = self._find(unknown)
        for python in sorted(set(lacking.values())):
            losses |= self._bring([node for node, each in lacking.items() if each == python], python)
        self._lost |= losses
        return (
            {node: self._found[node] for node in nodes if node in self._found},
            {node: self._lost[node] for node in nodes if node in self._lost},
        )

    def _find(self, nodes: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Ask nodes; returns the Pythons of those that lack their part, and losses."""
        lacking: dict[str, str] = {}
        losses: dict[str, str] = {}
        same = " ".join([__version__, *extension_versions(self._extensions)])
        own = (sys.executable, same, str(sys.version_info.minor))
        asked = script("find_python.sh", node_part(self._extensions).name, *own, *self._extensions)
        for node, answer in on_nodes(self._head, nodes, asked, timeout_s=FIND_S).items():
            if answer is None:
                continue
            word, _, rest = _last_line(answer.stdout).partition(" ")
            machine, _, python = rest.partition(" ")
            if word == "has":
                self._found[node] = rest
            elif word == "lacks" and machine == platform.machine():
                lacking[node] = python
            elif word == "lacks":
                losses[node] = (
                    f"it is {machine}, and this Gridwright is for {platform.machine()}: install gridwright "
                    f"{__version__} there as {sys.executable}"
                )
            elif word == "old":
                losses[node] = f"it has {rest}, and Gridwright needs Python 3.11: install python3.11"
            else:
                losses[node] = _why(answer)
        return lacking, losses

    def _bring(self, nodes: Collection[str], python: str) -> dict[str, str]:
        """Copy their part to nodes; returns losses."""
        part = node_part(self._extensions)
        command = script("unpack_part.sh", part.name, python)
        answers = on_nodes(self._head, nodes, command, stdin=part.content, timeout_s=_UNPACK_S)
        losses = {}
        for node, answer in answers.items():
            if answer is not None and answer.status == 0:
                self._found[node] = _last_line(answer.stdout)
            else:
                losses[node] = f"gridwright {__version__} cannot be brought to it: {_why(answer)}"
        return losses


def script(name: str, *arguments: str) -> Sequence[str]:
    """The command that runs one of our scripts on another machine; all begin with what trusted.sh defines."""
    return ["sh", "-c", (_HERE / "trusted.sh").read_text() + (_HERE / name).read_text(), "sh", *arguments]


def _why(answer: CommandOutput | None) -> str:
    if answer is None:
        return f"no end within {_UNPACK_S:.0f} s"
    return why_no_ssh(answer.stderr.decode(errors="replace")) or f"exit status {answer.status}"


def _last_line(text: bytes) -> str:
    """The last line: what a login prints on its way comes before."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def with_python(python: str, command: Sequence[str]) -> list[str]:
    """A command of this Python as one of another Python; other commands as they are."""
    return [python, *command[1:]] if command[0] == sys.executable else list(command)


PACKAGES = ("gridwright", "psutil", "tenacity")
"""All that the programs import which run on nodes; compiled parts are for any Python from 3.11 on."""
OF_THIS_PYTHON = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions")
"""What the doctor looks at file systems with, as their client; compiled for the Python that asks alone."""


@dataclass(frozen=True, slots=True)
class NodePart:
    """An archive, and the name of the directory that it becomes on a node."""

    name: str
    """Version and digest: parts of different content never meet in one directory."""
    content: bytes
    """A gzipped tar of packages."""


@cache
def node_part(
    extensions: tuple[str, ...] = (), packages: tuple[str, ...] = PACKAGES + OF_THIS_PYTHON
) -> NodePart:
    """The part of this Gridwright; the same files give the same bytes. About 6 MB, made in two seconds.

    `extensions` are names of the site's own packages that go with it.
    """
    files = {name: path.read_bytes() for package in packages for name, path in files_of(package)}
    for extension in extensions:
        files = extension_files(extension) | files
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name.endswith(".so") else 0o644
            archive.addfile(entry, io.BytesIO(content))
    content = gzip.compress(raw.getvalue(), compresslevel=6, mtime=0)
    digest = hashlib.sha256(raw.getvalue()).hexdigest()[:16]
    return NodePart(f"part-{__version__}-{digest}", content)


LOOK_S = 60.0
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
    """One Python on the grid that head node and nodes share, with packages that are not brought along.

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
        answer = self._head.run(script("find_modules.sh", *asked), timeout_s=LOOK_S)
        interpreters = _parse_interpreters(answer.stdout)
        machine = _last_line(answer.stdout)
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
        answer = self._head.run(script("unpack_part.sh", *asked, "look"), timeout_s=LOOK_S)
        if answer.status != 0:
            command = script("unpack_part.sh", *asked)
            answer = self._head.run(command, stdin=self._part.content, timeout_s=_UNPACK_S)
        if answer.status != 0:
            raise environment_error(
                f"gridwright {__version__} cannot be brought to the grid: {_why(answer)}",
                where=f"{self._head.name}: {home}",
                remedy="name a directory that all nodes share, and that you may write to, with `state:` in "
                "the grid spec",
            )
        return _last_line(answer.stdout)

    def _check(self, python: str, packages: Packages, nodes: Collection[str]) -> None:
        """Raise GridwrightError where a node cannot run it, or lacks something that the head node has."""
        command = [python, "-P", "-c", _RUNS + _LACKING, *packages.modules]
        failing: dict[str, list[str]] = {}
        lacking: dict[str, list[str]] = {}
        for node, answer in on_nodes(self._head, nodes, command, timeout_s=LOOK_S).items():
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


MOST_BYTES = 32 << 20
"""Of one package and what it needs: every node gets them, over a line that may be slow."""
BESIDE = frozenset(
    {
        *("gridwright", "psutil", "tenacity"),
        *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    }
)
"""Distributions that the part has already."""
_COMPILED = re.compile(r"\.(so|pyd|dylib)(\.|$)")
_LEFT_OUT = frozenset({"__pycache__", "tests"})


class _NotBrought(Exception):
    """Why a package cannot be brought to nodes, in words that follow its name."""


@dataclass
class _Collected:
    """Files by their name in the archive, and the distributions they are of."""

    files: dict[str, bytes] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


def extensions_of(spec: GridSpec) -> tuple[str, ...]:
    """Names of the site's packages that add what a spec uses, in order."""
    used = [PROVIDERS.extension(spec.provider), SCHEDULERS.extension(spec.scheduler.type)]
    used += [FILESYSTEMS.extension(filesystem.type) for filesystem in spec.filesystems.values()]
    return tuple(sorted({name for name in used if name is not None}))


def extension_versions(names: Sequence[str]) -> list[str]:
    """Each as NAME=VERSION: a node that has the same is given nothing."""
    return [f"{name}={distribution(name).version}" for name in names]


def extension_files(name: str) -> dict[str, bytes]:
    """The files of a package and of what it needs, by their names where packages are installed.

    What has compiled parts, or is too large, stands there with its entry points alone, and with a reason
    that whoever asks for its kinds on a node is told.
    """
    found = distribution(name)
    collected = _Collected()
    try:
        _collect(found, collected)
        if (size := sum(map(len, collected.files.values()))) > MOST_BYTES:
            raise _NotBrought(f"it takes {size >> 20} MiB with what it needs")
    except _NotBrought as reason:
        told = (
            f"{name} {found.version} is not brought to nodes: {reason}; install it there, beside Gridwright"
        )
        modules = {entry.module.partition(".")[0] for entry in found.entry_points}
        stub = f"raise ImportError({told!r})\n".encode()
        return {f"{module}/__init__.py": stub for module in sorted(modules)} | dict(_metadata(found))
    return collected.files


def _collect(found: Distribution, into: _Collected) -> None:
    """Add a distribution and what it needs. Raises _NotBrought."""
    into.names.add(_plain(found.name))
    into.files |= dict(_metadata(found))
    for place, path in _modules(found):
        if _COMPILED.search(path.name):
            raise _NotBrought(f"{place} of {found.name} is compiled for this Python")
        into.files[place] = path.read_bytes()
    for needed in _needs(found):
        if _plain(needed.name) not in into.names | BESIDE:
            _collect(needed, into)


def _needs(found: Distribution) -> Iterator[Distribution]:
    """What it needs that is here; extras, and what is for other systems, are not."""
    for requirement in found.requires or ():
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name is None or re.search(r";.*\bextra\b", requirement):
            continue
        try:
            yield distribution(name[0])
        except PackageNotFoundError:
            continue


def _modules(found: Distribution) -> Iterator[tuple[str, Path]]:
    """Its files where packages are installed; of one that is installed for editing, its packages."""
    listed = False
    for file in found.files or ():
        path = Path(str(file.locate()))
        inside = not {"..", *_LEFT_OUT}.intersection(file.parts) and file.suffix not in {".pyc", ".pth"}
        if inside and not file.parts[0].endswith((".dist-info", ".egg-info")) and path.is_file():
            listed = True
            yield file.as_posix(), path
    if listed:
        return
    for module in sorted({entry.module.partition(".")[0] for entry in found.entry_points}):
        yield from files_of(module)


def files_of(package: str) -> Iterator[tuple[str, Path]]:
    """Every file of an installed package, or of a module, by its name in the archive."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    if not spec.submodule_search_locations:
        yield Path(spec.origin).name, Path(spec.origin)
        return
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and not _LEFT_OUT.intersection(inside.parts):
            yield f"{package}/{inside}", path


def _metadata(found: Distribution) -> Iterator[tuple[str, bytes]]:
    """What makes its entry points and its version known."""
    home = f"{_plain(found.name).replace('-', '_')}-{found.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        if (text := found.read_text(name)) is not None:
            yield f"{home}/{name}", text.encode()


def _plain(name: str) -> str:
    """A name as package indices compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
