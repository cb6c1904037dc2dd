"""Copytools of Gridwright as processes, with the double of liblustreapi in the place of Lustre's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.hsm_double.coordinator import Coordinator

_PROGRAM = """
import json, sys
from pathlib import Path
from gridwright.errors import GridwrightError
from gridwright.repository.copytool import carrying, service, serving_lock
from gridwright.repository.copytool.service import CopytoolService, ServedRepository, serve_copytool
given = json.loads(sys.argv[1])
serving_lock.RUN_DIRECTORY = Path(given.pop("run"))
service.DIRECTORY = Path(given.pop("state"))
carrying.BEAT_S = given.pop("beat_s")
service.ANSWER_S = given.pop("answer_s")
given["mount"] = Path(given["mount"])
given["repositories"] = [
    ServedRepository(Path(directory), url, archive) for directory, url, archive in given["repositories"]
]
try:
    serve_copytool(CopytoolService(**given))
except GridwrightError as error:
    print(error, file=sys.stderr)
    raise SystemExit(int(error.status))
"""


@dataclass
class AgentProcess:
    """One agent."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Wait until its log has a text."""
        end = time.monotonic() + seconds
        while text not in self.said():
            assert time.monotonic() < end, self.said()
            assert self.process.poll() is None or text in self.said(), self.said()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a lost node ends."""
        self.process.kill()
        self.process.wait()


@contextmanager
def agent(
    coordinator: Coordinator,
    library: Path,
    store: dict[str, str],
    run: Path,
    *,
    repositories: Sequence[tuple[str, str, int]] = (),
    bucket_url: str = "s3://site/prod",
    archive_id: int = 1,
    directory: str = "",
    said: str = "; serving",
    **more: object,
) -> Iterator[AgentProcess]:
    """An agent until the end of the block. `run` stands for /run/gridwright of a node, which is a client.

    It has those repositories (directory, bucket and archive), or the one of the mount.
    """
    import json

    only = (directory or str(coordinator.mount), bucket_url, archive_id)
    given = {
        "mount": str(coordinator.mount), "repositories": repositories or [only], "run": str(run),
        "state": f"{run}-state", "beat_s": 0.2, "answer_s": 20, **more,
    }  # fmt: skip
    log = run.parent / f"{run.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                **store,
                **coordinator.environment,
                "LD_LIBRARY_PATH": str(library),
                "HSM_DOUBLE_CLIENT": run.name,
            },
        )
    made = AgentProcess(process, log)
    try:
        made.wait_for(said)
        yield made
    except BaseException as error:
        error.add_note(made.said())
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
