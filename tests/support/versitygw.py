"""versitygw, an S3 server on a directory: built once, outside of the checkout, where Go is there.

`python -m tests.support.versitygw` builds it. Where there is no Go, tests use moto alone, and say so.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import go
from tests.support.cache import cache, made_once

RELEASE = "1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{RELEASE}"
_NAME = f"versitygw-{RELEASE}"
_BUILD_S = 900.0


def binary() -> Path:
    """Where it is, or would be."""
    return cache() / _NAME / "versitygw"


def make() -> None:
    """Build it where it is not; say why where that cannot be."""
    if binary().exists():
        return
    if go.compiler() is None:
        print("no Go here: versitygw is not built, and tests of repositories use moto alone")  # noqa: T201
        return
    try:
        made_once(_NAME, lambda part: go.build(["install", MODULE], part, _BUILD_S, GOBIN=str(part)))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"versitygw was not built: {error}")  # noqa: T201


if __name__ == "__main__":
    make()
