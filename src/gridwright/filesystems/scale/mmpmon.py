"""What a client of Spectrum Scale moved, as `mmpmon` counts it by file system.

Written from IBM's manual (mmpmon command, request fs_io_s with -p) and from what other monitors show of its
output; never run against a Spectrum Scale. One mmpmon runs for as long as it is asked: it answers each line
on its input, so that no reading starts a process. It ends with its input.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.filesystems.counters import Counts, FigureSource, ReadCounts, TrafficCount
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import mount_of, read_mounts

MMPMON = ("/usr/lpp/mmfs/bin/mmpmon", "-p")
_ORDERS = b"fs_io_s\nver\n"
"""The counters, and a question whose answer says that all of them have come."""
_END = "_ver_"
LIMIT_S = 5.0
"""mmpmon answers out of the memory of the daemon."""
AGAIN_S = 60.0
"""How long one that failed is left alone: each start is a process."""
_MOST_BYTES = 1 << 20


class Mmpmon:
    """One mmpmon that is asked again and again, by whichever thread."""

    def __init__(self, command: Sequence[str] = MMPMON) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._failed_s = -AGAIN_S
        self._why = ""

    def counts(self) -> Mapping[str, TrafficCount]:
        """By the name of the file system, as far as its daemon has it mounted; takes root.

        Raises GridwrightError (status ENVIRONMENT) where mmpmon is not there, or does not answer.
        """
        with self._lock:
            if time.monotonic() - self._failed_s < AGAIN_S:
                raise self._error()
            try:
                return parse_fs_io(self._query())
            except OSError as error:
                self._why = error.strerror or str(error) or "it does not answer"
                self._failed_s = time.monotonic()
                self.close()
                raise self._error() from None

    def _error(self) -> Exception:
        return environment_error(
            f"mmpmon does not tell what is moved: {self._why}", remedy="run mmpmon -p as root, and mmgetstate"
        )

    def _query(self) -> str:
        if self._process is None:
            self._process = subprocess.Popen(
                list(self._command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        orders, answers = self._process.stdin, self._process.stdout
        if orders is None or answers is None:
            raise OSError("it has no input")
        os.write(orders.fileno(), _ORDERS)
        deadline, said = time.monotonic() + LIMIT_S, b""
        while not any(line.startswith(_END.encode()) for line in said.splitlines(keepends=True)[-1:]):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([answers], [], [], left)[0]:
                raise TimeoutError
            chunk = os.read(answers.fileno(), 1 << 16)
            if not chunk or len(said) > _MOST_BYTES:
                raise OSError("it has ended")
            said += chunk
        return said.decode(errors="replace")

    def close(self) -> None:
        """End it; it is started again where it is asked again."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def parse_fs_io(text: str) -> dict[str, TrafficCount]:
    """Out of rows `_fs_io_s_ _n_ 10.0.0.1 _nn_ node1 _rc_ 0 _t_ 1 _tu_ 2 _fs_ gpfs0 _br_ 3 _bw_ 4 ...`.

    Rows that cannot be understood, and those of an error (_rc_ is not 0), are passed over.
    """
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] != ["_fs_io_s_"]:
            continue
        told = dict(zip(words[1::2], words[2::2], strict=False))
        figures = [told.get(f"_{name}_", "") for name in ("t", "tu", "br", "bw", "rdc", "wc")]
        if told.get("_rc_") != "0" or not all(figure.isdecimal() for figure in figures) or "_fs_" not in told:
            continue
        seconds, microseconds, read, written, reads, writes = map(int, figures)
        found[told["_fs_"]] = TrafficCount(
            at_s=seconds + microseconds / 1e6,
            read_bytes=read,
            written_bytes=written,
            reads=reads,
            writes=writes,
        )
    return found


class ScaleWatcher:
    """Answers a monitor for clients; see `FileSystemKind`."""

    def __init__(self, mmpmon: Mmpmon) -> None:
        self._mmpmon = mmpmon

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts | None:
        """What programs of this node moved; None on another node, where each reading would be a process."""
        if root is None:
            return None

        def counts() -> Counts:
            mount = mount_of(mount_point, read_mounts(run))
            device = mount.source.removeprefix("/dev/") if mount else ""
            found = self._mmpmon.counts().get(device)
            return {} if found is None else {device: found._replace(target=mount_point)}

        return counts

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """Nothing: nsd_ds of mmpmon is not read."""
        return {}


WATCHER = ScaleWatcher(Mmpmon())
