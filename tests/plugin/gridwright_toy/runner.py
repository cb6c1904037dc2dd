"""Runs one job of the toy scheduler: `python -m gridwright_toy.runner DIRECTORY`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Run the command of job.json; what it printed and how it ended stay in the directory."""
    directory = Path(sys.argv[1])
    job = json.loads((directory / "job.json").read_text())
    with (directory / "output.log").open("wb") as log:
        try:
            ended = subprocess.run(
                job["command"],
                cwd=job["directory"],
                env=job["environment"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        except OSError as error:
            log.write(f"{error}\n".encode())
            ended = 127
    fresh = directory / "end.json.new"
    fresh.write_text(json.dumps({"status": ended, "at": time.time()}))
    fresh.rename(directory / "end.json")


if __name__ == "__main__":
    main()
