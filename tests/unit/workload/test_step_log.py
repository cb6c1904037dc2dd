"""The log of a launch: `workload import` reads the same figures back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.runs.launch_record import LaunchRecord
from gridwright.workload.sas_log.launch import read_sas_log
from gridwright.workload.session import write_step_log
from tests.support.records import launch_record

in_same_directory = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
times = st.floats(min_value=0.01, max_value=400_000.0)


def read_back(directory: Path, launch: LaunchRecord, output: str = "") -> LaunchRecord:
    found, findings = read_sas_log(write_step_log(directory, launch, output), number=1, node="n")
    assert not [each for each in findings if each.level == "error"]
    return found


@in_same_directory
@given(real=times, user=times, system=times, memory=st.integers(min_value=0, max_value=1 << 45))
def test_the_figures_are_read_back(
    tmp_path: Path, real: float, user: float, system: float, memory: int
) -> None:
    launch = launch_record(real_s=real, user_s=user, system_s=system, peak_memory_bytes=memory)
    found = read_back(tmp_path, launch)
    assert found.real_s == pytest.approx(real, abs=0.0051)
    assert found.user_s == pytest.approx(user, abs=0.0051)
    assert found.system_s == pytest.approx(system, abs=0.0051)
    assert found.peak_memory_bytes == pytest.approx(memory, abs=16)
    assert found.ended == pytest.approx(launch.ended, abs=1.0)
    assert found.ok


def test_a_failure_is_read_back_with_its_reason(tmp_path: Path) -> None:
    reason = "ended with exit status 3: oops"
    found = read_back(tmp_path, launch_record(ok=False, reason=reason, exit_status=3))
    assert not found.ok
    assert found.reason is not None
    assert reason in found.reason


HOSTILE = """\
ERROR: not ours
NOTE: The SAS System used:
      real time           99:00.00
NOTE: PROCEDURE SORT used (Total process time):
      real time           1.00 seconds
\x0cERROR: after a form feed
\u2028ERROR: after a line separator
"""


@in_same_directory
@given(st.one_of(st.just(HOSTILE), st.text(max_size=200)))
def test_what_a_launch_printed_does_not_pass_for_figures(tmp_path: Path, output: str) -> None:
    found = read_back(tmp_path, launch_record(), output)
    assert found.real_s == 20.0
    assert found.ok
    assert [step.procedure for step in found.steps] == ["IO_SORT"]


@pytest.mark.parametrize("test", ["../../etc/passwd", "a b\nc", "grün", "x" * 200, "", "sort\nERROR: mine"])
def test_the_log_of_any_name_lies_in_its_directory(tmp_path: Path, test: str) -> None:
    launch = launch_record(7, test)
    path = write_step_log(tmp_path, launch, "")
    assert path.parent == tmp_path
    assert path.name.startswith("0007-")
    found = read_back(tmp_path, launch)
    assert found.real_s == 20.0
    assert found.ok


def test_the_reason_of_a_failure_stays_one_line(tmp_path: Path) -> None:
    reason = "could not be started: No such file or directory: /a\nNOTE: The SAS System used:"
    text = write_step_log(tmp_path, launch_record(ok=False, reason=reason), "").read_text()
    assert text.count("\nNOTE: The SAS System used:\n") == 1


def test_a_launch_that_never_began_has_a_log_too(tmp_path: Path) -> None:
    launch = launch_record(
        ok=False, reason="no", real_s=0.0, user_s=0.0, system_s=0.0, started=None, ended=None
    )
    assert not read_back(tmp_path, launch).ok
