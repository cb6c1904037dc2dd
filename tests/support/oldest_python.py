"""Whether a program for nodes runs on the oldest Python that a node may have."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path


def beyond_python_3_9(program: bytes, directory: Path) -> str:
    """What a zip application uses that Python 3.9 lacks, in words and in its library; empty: nothing."""
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        assert archive.namelist()
        archive.extractall(directory)
    vermin = Path(sys.executable).with_name("vermin")
    done = subprocess.run(
        [vermin, "--target=3.9-", "--violations", "--no-tips", str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""
