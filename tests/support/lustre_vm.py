"""A real Lustre in a virtual machine, where this Gridwright runs.

A directory, which the environment names or which lies beside the project, has `make-vm.sh`, `run-vm.sh` and
`stop-vm.sh`: they make, boot and stop a guest whose Lustre is mounted at `/mnt/lustre` and, as another
client, at `/mnt/lustre2`. `python -m tests.support.lustre_vm` makes its image before tests wait for it.
"""

from __future__ import annotations

import compileall
import json
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gridwright
from tests.support.cache import cache, only_builder
from tests.support.command import Ended
from tests.support.skips import NO_LUSTRE, NOT_AS_ROOT

VARIABLE = "GRIDWRIGHT_LUSTRE_VM"
BASE_VARIABLE = "GRIDWRIGHT_LUSTRE_VM_BASE"
"""Where the guest's image is kept between runs; in the cache of the tests where it is not set."""
BESIDE = Path(__file__).parents[3] / "shared/lustre-vm"
PACKAGES = "/opt/gridwright"
"""Where Gridwright and what it needs are in the guest."""
_LABEL = "gridwright"
_LEFT_OUT = ("ansible-core",)
"""Large, and no command that runs in the guest imports it."""
_COMMANDS = Path(__file__).with_name("lustre_commands.py")
_OF_GUEST = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
_MAKE_S, _BOOT_S, _STOP_S, _RUN_S = 1800.0, 900.0, 240.0, 300.0


def kit() -> Path:
    """The directory with the scripts, there or not."""
    return Path(os.environ.get(VARIABLE) or BESIDE)


def why_not() -> str | None:
    """Why no such machine can run here; None where it can."""
    if not (kit() / "make-vm.sh").exists():
        return f"{NO_LUSTRE}: no make-vm.sh in {kit()}; CONTRIBUTING.md says how it is made"
    return f"{NOT_AS_ROOT}: a root file system is built" if os.geteuid() != 0 else None


def ensure_base() -> Path:
    """The directory of the guest's image, which is made where it is not there, or is of another kit."""
    base = Path(os.environ.get(BASE_VARIABLE) or cache() / "lustre-vm")
    base.mkdir(parents=True, exist_ok=True)
    with only_builder(base):
        _done([kit() / "make-vm.sh", base], _MAKE_S, base / "make.log")
    return base


def until_there(*files: str) -> str:
    """A script that waits for files, half a minute at most for each."""
    return "; ".join(
        f"for i in $(seq 150); do [ -e {each} ] && break; sleep 0.2; done; [ -e {each} ] || exit 1"
        for each in files
    )


@dataclass(frozen=True, slots=True)
class Forks:
    """An interpreter in the guest that forks what is run there, one after the other."""

    process: subprocess.Popen[bytes]

    def start(
        self, environment: Mapping[str, str], *words: str, script: str | None = None, given: bytes = b"",
        seconds: float = _RUN_S, background: str = "",
    ) -> Ended:  # fmt: skip
        """Run something to its end, or with the name of a log until somebody ends it."""
        request = {
            "arguments": words, "environment": environment, "script": script, "seconds": seconds,
            "given": given.decode("latin-1"), "background": background,
        }  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answers = select.select([self.process.stdout], [], [], seconds + _RUN_S)[0]
        assert answers, f"no answer from the guest to {request}"
        return Ended(**json.loads(self.process.stdout.readline()))


@dataclass(frozen=True, slots=True)
class LustreMachine:
    """The guest, while it runs."""

    directory: Path
    environment: Mapping[str, str]
    """What Gridwright has in the guest, such as where its store is."""
    commands: Forks
    scripts: Forks

    def run(
        self, script: str, *, seconds: float = _RUN_S, given: bytes | None = None, ok: bool = True
    ) -> Ended:
        """Run a script of sh as root in the guest, which ends within its time there, too."""
        found = self.scripts.start(_OF_GUEST, script=script, seconds=seconds, given=given or b"")
        assert not ok or found.status == 0, (script, found)
        return found

    def background(self, script: str, name: str) -> None:
        """Run a script until it ends or `end` is called, with its output in `/tmp/NAME.log`."""
        self.run(
            f"setsid sh -c {shlex.quote(script)} >/tmp/{name}.log 2>&1 </dev/null & echo $! >/tmp/{name}.pid"
        )

    def end(self, name: str) -> None:
        """End such a script, and all that it has started, and wait until they have."""
        # No `--`: kill of dash takes it for a number.
        self.run(
            f"group=$(cat /tmp/{name}.pid); kill -TERM -$group || exit 0; "
            "for i in $(seq 200); do pgrep -g $group >/dev/null || exit 0; sleep 0.1; done; exit 1"
        )

    def command(self, *words: str) -> str:
        """A command line of Gridwright for the guest's sh."""
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.environment.items())
        return f"{given} exec python3 -c 'import gridwright.cli.start as m; m.run()' {shlex.join(words)}"

    def gridwright(self, *words: str, ok: bool = True) -> Ended:
        """Run Gridwright in the guest."""
        found = self.commands.start({**_OF_GUEST, **self.environment}, *words)
        assert not ok or found.status == 0, (words, found)
        return found

    def python(self, script: str, *words: str) -> str:
        """What a script of Python prints that uses Gridwright in the guest."""
        found = self.commands.start({**_OF_GUEST, **self.environment}, *words, script=script)
        assert found.status == 0, (words, found)
        return found.out

    def start(self, name: str, *words: str) -> None:
        """Run Gridwright as `background` runs scripts."""
        found = self.commands.start({**_OF_GUEST, **self.environment}, *words, background=name)
        assert found.status == 0, (words, found)


@contextmanager
def lustre_machine(place: Path, store: Mapping[str, str]) -> Iterator[LustreMachine]:
    """Boot the guest in `place`, with this Gridwright, and stop it in the end.

    `store` is how commands reach an object store of this machine. What makes and boots it tells on failure.
    """
    base, log = ensure_base(), place / "vm.log"
    directory, packages = place / "vm", place / "packages.img"
    _pack(packages)
    # A disk: through a directory that is shared by 9p a command would read 1.5 MB/s.
    disk = f"-drive if=none,id=packages,file={packages},format=raw,read-only=on"
    extra = f"{disk} -device virtio-blk-pci,drive=packages"
    try:
        _done([kit() / "run-vm.sh", directory, base], _BOOT_S, log, QEMU_EXTRA=extra)
        with entered(directory, store, f"mount -o ro LABEL={_LABEL} {PACKAGES}") as machine:
            yield machine
    finally:
        if directory.exists():
            _done([kit() / "stop-vm.sh", directory, "--kill"], _STOP_S, log)


@contextmanager
def entered(directory: Path, store: Mapping[str, str], packages: str) -> Iterator[LustreMachine]:
    """A guest that runs; it reaches the store, and starts commands once `packages` was run."""
    ssh: list[str | Path] = [directory / "ssh", "-S", "none"]
    port = urlsplit(store["AWS_ENDPOINT_URL"]).port
    prepare = f"mkdir -p {PACKAGES} && {packages} && cat >/root/commands.py"
    with _COMMANDS.open("rb") as program:
        subprocess.run([*ssh, prepare], stdin=program, timeout=_RUN_S, check=True)
    python = f"PYTHONPATH={PACKAGES} exec python3 /root/commands.py"
    with ExitStack() as stack:

        def started(*more: str, pipe: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([*ssh, *more], stdin=pipe, stdout=pipe)
            stack.enter_context(process)
            stack.callback(process.terminate)
            return process

        commands, scripts = Forks(started(python)), Forks(started(f"{python} scripts"))
        # A store without TLS has to be on the machine of the command.
        started("-N", "-R", f"{port}:127.0.0.1:{port}", pipe=subprocess.DEVNULL)
        yield LustreMachine(directory, {**store, "PYTHONPATH": PACKAGES}, commands, scripts)


def _pack(image: Path) -> None:
    """Put this Gridwright and all packages into a file system, of which the guest reads what it needs.

    They are compiled here: the processor of the guest is emulated.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        copied = shutil.copytree(Path(gridwright.__file__).parent, place / "gridwright")
        compileall.compile_dir(copied, quiet=2, workers=1)
        for each in _distributions("gridwright", "repository"):
            for file in each.files or ():
                if ".." not in file.parts and (found := Path(str(each.locate_file(file)))).is_file():
                    (place / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(found, place / file)
        mib = sum(each.stat().st_blocks for each in place.rglob("*")) // 2048 * 6 // 5 + 32
        made: list[str | Path] = [
            "-L",
            _LABEL,
            "-O",
            "^has_journal",
            "-m",
            "0",
            "-d",
            place,
            image,
            f"{mib}M",
        ]
        command = ["mke2fs", "-q", "-t", "ext4", *made]
        subprocess.run(command, check=True, timeout=_MAKE_S, stdin=subprocess.DEVNULL)


def _distributions(name: str, extra: str) -> list[metadata.Distribution]:
    """A distribution, and all that it requires with an extra."""
    found: dict[str, metadata.Distribution] = {}
    left = [(name, extra)]
    while left:
        name, extra = left.pop()
        if canonicalize_name(name) in found or name in _LEFT_OUT:
            continue
        found[canonicalize_name(name)] = distribution = metadata.distribution(name)
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                left.append((requirement.name, next(iter(requirement.extras), "")))
    return list(found.values())


def _done(command: list[Path | str], seconds: float, log: Path, **environment: str) -> None:
    """Run a program of this machine to its end. What it leaves running holds no pipe of ours."""
    with log.open("ab") as out:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=seconds, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
    assert ended.returncode == 0, f"{command}: {log.read_text(errors='replace')[-4000:]}"


def main() -> None:
    """Make the image before tests have to wait for it, where such a machine can run."""
    started = time.monotonic()
    why = why_not()
    said = f"no Lustre machine here: {why}" if why else f"{ensure_base()}"
    print(f"{said} ({time.monotonic() - started:.0f} s)")  # noqa: T201 - what make shows


if __name__ == "__main__":
    main()
