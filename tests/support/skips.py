"""Why a test may be skipped: there are four reasons, and any other one fails the run.

A package that is missing is no reason: `tools/debian-packages.sh` installs what tests need.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import NoReturn

import pytest

NOT_AS_ROOT = "not as root"
NO_SUCH_KERNEL = "no such kernel"
NO_SUCH_PYTHON = "no such Python"
"""Of a release of Ansible that runs on others than this system has; no package brings one."""
NO_LUSTRE = "no Lustre"
"""No scripts that make a virtual machine with one."""
ALLOWED = (NOT_AS_ROOT, NO_SUCH_KERNEL, NO_SUCH_PYTHON, NO_LUSTRE)

root_only = pytest.mark.skipif(os.geteuid() != 0, reason=NOT_AS_ROOT)


def no_such_kernel(lacking: str) -> NoReturn:
    """Skip the test, since this machine's kernel lacks something."""
    pytest.skip(f"{NO_SUCH_KERNEL}: {lacking}")


def no_such_python(lacking: str) -> NoReturn:
    """Skip the test, since this machine has no Python for it."""
    pytest.skip(f"{NO_SUCH_PYTHON}: {lacking}")


def needs(*programs: str) -> None:
    """Fail the test where a program is not installed."""
    missing = [each for each in programs if shutil.which(each) is None]
    if missing:
        pytest.fail(f"not installed here: {', '.join(missing)}; tools/debian-packages.sh test installs it")


def is_allowed(reason: str) -> bool:
    """Whether a test may be skipped for a reason."""
    return reason.removeprefix("Skipped: ").startswith(ALLOWED)


def unlawful(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """The skipped tests whose reason is no good one, each with its reason."""
    found = []
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not is_allowed(reason):
            found.append(f"{report.nodeid}: {reason}")
    return found
