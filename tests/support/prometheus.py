"""Prometheus, promtool and VictoriaMetrics of Debian: unpacked once, outside of the checkout, not installed.

`python -m tests.support.prometheus` fetches them. Installing would start services.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.cache import cache

PACKAGES = ("prometheus", "victoria-metrics")
_FETCH_S = 300.0


def directory() -> Path:
    """Where they are, or would be."""
    return cache() / "prometheus"


def program(name: str) -> Path:
    """One of their programs; the test fails where it is not there."""
    found = directory() / "usr/bin" / name
    if not found.exists():
        pytest.fail(f"{name} is not here: python -m tests.support.prometheus fetches it")
    return found


def make() -> None:
    """Fetch and unpack them where they are not there; say why where that cannot be."""
    if directory().exists():
        return
    if shutil.which("apt-get") is None:
        print("no apt-get here: Prometheus and VictoriaMetrics are not fetched")  # noqa: T201
        return
    directory().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory().parent) as name:
        here, parts = Path(name), Path(name, "parts")
        fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES]
        try:
            subprocess.run(fetch, cwd=here, timeout=_FETCH_S, check=True)
            for package in here.glob("*.deb"):
                subprocess.run(["dpkg", "-x", package, parts], timeout=_FETCH_S, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"Prometheus and VictoriaMetrics were not fetched: {error}")  # noqa: T201
            return
        parts.rename(directory())


if __name__ == "__main__":
    make()
