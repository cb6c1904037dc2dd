"""The walk of docs/repository.md: runs its commands on this machine, and prints them with what they say.

A file system of its own on a loop device, a store of its own, one file of 1 GiB and 200 small ones. It needs
root, and 4 GB of disk.

    python bench/repository_walk.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.disks import loop_mount
from tests.support.object_store import BUCKET, store_server

SPEC = f"""\
name: site
filesystems: {{disk: {{type: local, path: .}}}}
libraries: {{data: {{}}}}
repositories:
  archive: {{library: data, bucket: s3://{BUCKET}/prod}}
"""
LARGE = "data/claims.sas7bdat"
WALK = (
    f"sha256sum {LARGE}",
    "gridwright repo export archive --dry-run",
    "gridwright repo export archive",
    "gridwright repo release archive claims.sas7bdat",
    "du -sk data",
    "gridwright repo ls archive claims.sas7bdat 2026/rows-000.csv",
    "gridwright repo status",
    "gridwright repo import archive claims.sas7bdat",
    f"sha256sum {LARGE}",
    "gridwright repo verify archive",
)
LIMIT_S = 900


def make_files(data: Path) -> None:
    """One file of 1 GiB that differs in every block, and small ones."""
    with (data.parent / LARGE).open("wb") as file:
        for _ in range(1024):
            file.write(os.urandom(1 << 20))
    (data / "2026").mkdir()
    for each in range(200):
        (data / "2026" / f"rows-{each:03}.csv").write_bytes(os.urandom(1 << 16))


def say(command: str, place: Path, environment: Mapping[str, str]) -> None:
    """Print a command and all that it says. Fails where it does."""
    print(f"$ {command}", flush=True)
    words = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(
        words, cwd=place, env=environment, timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise SystemExit(f"exit status {done.returncode}")


def main() -> None:
    """Walk."""
    beside = str(Path(sys.executable).parent)
    with (
        tempfile.TemporaryDirectory() as directory,
        store_server(Path(directory) / "store") as server,
        loop_mount(Path(directory), mib=1536) as place,
    ):
        (place / "grid.yaml").write_text(SPEC, "utf-8")
        (place / "data").mkdir()
        make_files(place / "data")
        environment = {**os.environ, **server.environment, "PATH": f"{beside}:{os.environ['PATH']}"}
        for each in WALK:
            say(each, place, environment)


if __name__ == "__main__":
    main()
