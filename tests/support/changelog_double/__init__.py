"""A double of liblustreapi for readers of changelogs, strict about handles and about what is given up."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

_SOURCE = Path(__file__).with_name("liblustreapi.c")


def build_library(directory: Path, source: Path = _SOURCE) -> Path:
    """Compile this double of the library, or another one, under its real name.

    Returns the directory for LD_LIBRARY_PATH.
    """
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,liblustreapi.so.1"]
    built = directory / "liblustreapi.so.1"
    subprocess.run(["cc", *options, "-o", built, source], check=True, timeout=60)
    return directory


def write_log(place: Path, mdt: str, records: Iterable[bytes]) -> None:
    """Have an MDT hand out these records."""
    log = b"".join(struct.pack("=I", len(each)) + each for each in records)
    (place / f"{mdt}.log").write_bytes(log)


def write_names(place: Path, fid: str, names: Iterable[bytes]) -> None:
    """Have a FID these names, relative to the mount."""
    (place / "fids").mkdir(exist_ok=True)
    (place / "fids" / fid).write_bytes(b"".join(each + b"\0" for each in names))
