"""The root file system that nodes of labs begin with: made once by debootstrap, and kept.

A scheduler whose packages are not among `PACKAGES` has an image of its own: see `SchedulerKind.lab_packages`.

Finds where debootstrap fetches packages from: the mirror that this machine's own apt uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import gridwright
from gridwright import schedulers
from gridwright.commands import CommandError, run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import cache_home
from gridwright.providers.provider import Caller
from gridwright.services.service import ServiceNode
from gridwright.spec.model import GridSpec
from gridwright.trusted import open_directory

# What nodes need of this machine to run the same Gridwright: its Python, read-only at the same paths.

_OF_THE_IMAGE = ("/usr", "/lib", "/bin", "/sbin", "/etc", "/var")
"""What every node has of its own: the system's Python there is that of the image."""

_ROOTS_HOME = Path("/root")
OPEN_PYTHON = (
    "install Gridwright where all may read it, such as below /opt, with a Python there; or let users pass on "
    "each node: gridwright lab exec NODE -- chmod 711 /root"
)


def python_directories() -> list[Path]:
    """Directories that `sys.executable` and this package need, none within another."""
    desired = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.exec_prefix),
        Path(sys.executable).parent,
        Path(sys.executable).resolve().parent,
        Path(gridwright.__file__).parent,
        *map(Path, _search_path()),
    }
    found: list[Path] = []
    for path in sorted(desired, key=lambda each: len(each.parts)):
        if not path.is_absolute() or not path.is_dir() or _in_image(path):
            continue
        if not any(path.is_relative_to(outer) for outer in found):
            found.append(path)
    return found


def closed_python() -> str | None:
    """Why users of a lab cannot run Gridwright on its nodes; None where they can.

    Nodes have this machine's Python at its path, and root's home of the image there, which is closed.
    """
    closed = [path for path in python_directories() if path.is_relative_to(_ROOTS_HOME)]
    if not closed:
        return None
    return (
        f"users of the lab cannot run gridwright on nodes: {closed[0]} is below {_ROOTS_HOME}, root's alone"
    )


def other_installation(node: int) -> str | None:
    """Why nodes of a lab cannot run this Gridwright, by the first process of one; None where they can.

    Nodes have the Python of what made the lab at its path, and that of another installation is not there.
    """
    root = Path(f"/proc/{node}/root")
    needed = (Path(sys.executable), Path(gridwright.__file__).parent)
    absent = [path for path in needed if not os.path.lexists(f"{root}{path}")]
    if not absent or not root.exists():
        return None
    why = f"its nodes lack {absent[0]}, which this Gridwright runs from: another installation made the lab"
    makers = (Path(point, "bin/gridwright") for point in _mount_points(node))
    maker = next((each for each in makers if os.path.lexists(f"{root}{each}")), None)
    return f"{why}, {maker}" if maker else why


def _mount_points(process: int) -> Iterator[str]:
    """Where file systems are mounted for a process, by the paths that it has for them (proc(5))."""
    try:
        lines = Path(f"/proc/{process}/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        yield re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4])


@cache
def _search_path() -> tuple[str, ...]:
    """Where `sys.executable -P` looks for modules: without what this program or its caller added.

    Raises GridwrightError (ENVIRONMENT) where it cannot be started.
    """
    answer = run_bounded([sys.executable, "-P", "-c", "import sys; print(*sys.path, sep='\\0', end='')"])
    return tuple(os.fsdecode(entry) for entry in answer.stdout.split(b"\0") if entry)


def _in_image(path: Path) -> bool:
    if path == Path("/"):
        return True
    local = Path("/usr/local")
    if path.is_relative_to(local):
        return False
    return any(path.is_relative_to(own) for own in _OF_THE_IMAGE)


def check_python(node: ServiceNode) -> None:
    """Raise GridwrightError (ENVIRONMENT) where a node cannot run this machine's Python."""
    done = node.run([sys.executable, "-P", "-c", "import gridwright"], timeout_s=30)
    if done.status:
        why = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise environment_error(
            f"nodes cannot run the Python of this machine, {sys.executable}: {why}",
            where=node.name,
            remedy="nodes have Debian 12: install Gridwright into a Python that brings its own libraries, "
            "such as one of uv or pyenv, or work on Debian 12",
        )


VARIABLE = "GRIDWRIGHT_LAB_MIRROR"
"""Environment variable that names a mirror."""


def mirror(suite: str, apt: Path = Path("/etc/apt")) -> str | None:
    """The mirror of Debian to use; None is debootstrap's default."""
    if chosen := os.environ.get(VARIABLE):
        return chosen
    for uri, suites, components in _sources(apt):
        parts = urlsplit(uri)
        is_debian = "debian" in parts.path and "security" not in parts.path
        if (
            is_debian
            and suite in suites
            and "main" in components
            and parts.scheme in ("http", "https", "file")
        ):
            return uri
    return None


def environment() -> dict[str, str]:
    """The environment of debootstrap: that of this process, with the proxy of apt where it has one."""
    found = dict(os.environ) | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    for scheme in ("http", "https"):
        if f"{scheme}_proxy" not in found and (proxy := _apt_proxy(scheme)):
            found[f"{scheme}_proxy"] = proxy
    return found


def _apt_proxy(scheme: str) -> str | None:
    name = f"Acquire::{scheme}::Proxy"
    try:
        printed = run_bounded(["apt-config", "dump", name], timeout_s=10).stdout.decode(errors="replace")
    except CommandError:
        return None
    found = re.search(rf'^{name} "([^"]+)";', printed, re.MULTILINE | re.IGNORECASE)
    return found[1] if found and found[1].upper() != "DIRECT" else None


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """URI, suites and components of every source, in both forms of sources.list(5)."""
    lists = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]
    for file in lists:
        for line in _text(file).splitlines():
            found = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)", line.strip())
            if found:
                yield found[1], [found[2]], found[3].split("#")[0].split()
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for paragraph in re.split(r"\n\s*\n", _text(file)):
            fields = _fields(paragraph)
            if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
                for uri in fields.get("uris", []):
                    yield uri, fields.get("suites", []), fields.get("components", [])


def _fields(paragraph: str) -> dict[str, list[str]]:
    """Words of each field; comments are left out, and lines that begin with a space go on (deb822(5))."""
    lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
    pairs = (line.partition(":") for line in joined.splitlines() if ":" in line)
    return {name.strip().lower(): value.split() for name, _, value in pairs}


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


SUITE = "bookworm"
"""The release of Debian, with Slurm 22.05 and MooseFS 3.0."""
RECIPE = 1
"""To be counted up when `_finish` changes."""
PACKAGES = (
    "catatonit",
    "fuse",
    "iproute2",
    "iputils-ping",
    "mariadb-server-core",
    "moosefs-chunkserver",
    "moosefs-cli",
    "moosefs-client",
    "moosefs-master",
    "munge",
    "netbase",
    "nftables",
    "openssh-client",
    "openssh-server",
    "procps",
    "python3",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "sssd-ldap",
    "util-linux",
    # What a Python of the machine's own may be linked against.
    "libbz2-1.0",
    "libexpat1",
    "libffi8",
    "libgomp1",
    "liblzma5",
    "libreadline8",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "zlib1g",
)
NEEDED_BYTES = 1_500_000_000
"""Free space that making it needs: 0.5 GB with the packages it is made from, and some to spare."""
LIMIT_S = 30 * 60.0
ATTEMPTS = 2
"""Mirrors drop connections; packages that are there already are not fetched again."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
_TRIMMED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")
_ONE_OF_ITS_OWN = ("etc/munge/munge.key", "etc/ssh/ssh_host_*", "etc/machine-id")
"""What must differ between labs: made by the services of each."""
_NO_DAEMONS = "#!/bin/sh\n# Installing a package starts no daemon.\nexit 101\n"
_STAGES = {"I: Retrieving": "fetching packages", "I: Unpacking": "unpacking", "I: Configuring": "configuring"}


def architecture() -> str:
    """The architecture of this machine in Debian's word."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def lab_packages(spec: GridSpec) -> Sequence[str]:
    """The packages that the nodes of a lab have for their scheduler, beside `PACKAGES`."""
    return schedulers.scheduler_kind(spec.scheduler).lab_packages


def recipe_hash(more: Sequence[str] = ()) -> str:
    """What tells images of different content apart; `more` are packages beside `PACKAGES`."""
    packages = sorted({*PACKAGES, *more})
    recipe = {"recipe": RECIPE, "suite": SUITE, "architecture": architecture(), "packages": packages}
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def image_directory(more: Sequence[str] = ()) -> Path:
    """Where the image is kept, with what belongs to it."""
    return cache_home() / "gridwright" / "lab" / recipe_hash(more)


def root_filesystem(more: Sequence[str] = ()) -> Path:
    """The root file system of the image; there is none before it is made whole."""
    return image_directory(more) / "rootfs"


def ensure_image(caller: Caller, more: Sequence[str] = ()) -> Path:
    """Return the root file system, and make it first where there is none yet.

    Raises GridwrightError (ENVIRONMENT) where it cannot be made; nothing is left then but the log.
    """
    directory, root = image_directory(more), root_filesystem(more)
    # Its programs run as root, and so do those of the nodes that are made of it.
    os.close(open_directory(directory, make=0o755))
    if root.is_dir():
        return root
    with _only_builder(directory, caller):
        if not root.is_dir():
            _build(directory, root, (*PACKAGES, *more), caller)
    return root


@contextmanager
def _only_builder(directory: Path, caller: Caller) -> Iterator[None]:
    """Wait for another command that makes the same image."""
    # Who may read a file may lock it.
    with os.fdopen(
        os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    ) as lock:
        os.fchmod(lock.fileno(), 0o600)
        deadline, told = time.monotonic() + LIMIT_S, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise environment_error(
                        "another command has been making the node image for too long",
                        where=str(directory),
                        remedy="end it, and run gridwright up again",
                    ) from None
            caller.go_on()
            if not told:
                caller.say("waiting for another command that makes the node image")
                told = True
            time.sleep(0.2)
        yield


def _build(directory: Path, root: Path, packages: Sequence[str], caller: Caller) -> None:
    part, fetched = directory / "rootfs.part", directory / "packages"
    caller.say(f"making the node image, once: Debian {SUITE} in {root}")
    started = time.monotonic()
    fetched.mkdir(exist_ok=True)
    try:
        for attempt in range(1, ATTEMPTS + 1):
            _remove(part)
            part.mkdir()
            why = _debootstrap(part, fetched, packages, directory / "build.log", caller)
            if why is None:
                break
            if attempt == ATTEMPTS:
                raise _failure(why, directory / "build.log")
            caller.say(f"node image: {why}; trying once more")
        _finish(part)
        part.rename(root)
    finally:
        _remove(part)
        _remove(fetched)
    caller.say(f"node image: made in {time.monotonic() - started:.0f} s")


def _debootstrap(part: Path, fetched: Path, packages: Sequence[str], log: Path, caller: Caller) -> str | None:
    """Run debootstrap; None when all went well, else what went wrong."""
    from_mirror = mirror(SUITE)
    # In namespaces of its own, so that neither its mounts nor its processes outlive it.
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["debootstrap", "--variant=minbase", f"--arch={architecture()}", f"--cache-dir={fetched}"]
    command += [f"--include={','.join(packages)}", SUITE, str(part), *([from_mirror] if from_mirror else [])]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )
        try:
            status = _watch(process, log, caller)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
            raise
    if status is None:
        return f"debootstrap was not done after {LIMIT_S / 60:.0f} min"
    return None if status == 0 else f"debootstrap failed with status {status}"


def _watch(process: subprocess.Popen[bytes], log: Path, caller: Caller) -> int | None:
    """Tell each stage once; the exit status, or None when it took too long and was killed."""
    deadline, told = time.monotonic() + LIMIT_S, set()
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        for mark, stage in _STAGES.items():
            if mark in text and stage not in told:
                told.add(stage)
                caller.say(f"node image: {stage}")
        caller.go_on()
        try:
            return process.wait(0.3)
        except subprocess.TimeoutExpired:
            continue
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    return None


def _failure(why: str, log: Path) -> GridwrightError:
    last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:]
    return environment_error(
        "the node image cannot be made: " + "; ".join([why, *last]),
        where=str(log),
        remedy="see whether this machine reaches the mirror; GRIDWRIGHT_LAB_MIRROR names another one",
    )


def _finish(root: Path) -> None:
    """Make it the same for every lab and every machine. `RECIPE` counts changes."""
    for name in _TRIMMED:
        shutil.rmtree(root / name, ignore_errors=True)
    for pattern in _ONE_OF_ITS_OWN:
        for path in root.glob(pattern):
            path.unlink()
    (root / "var/lib/apt/lists").mkdir(parents=True, exist_ok=True)
    # debootstrap takes these two from this machine.
    (root / "etc/resolv.conf").write_text("")
    (root / "etc/hostname").write_text("node\n")
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(_NO_DAEMONS)
    policy.chmod(0o755)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
