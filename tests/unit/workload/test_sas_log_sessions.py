"""Sessions of SAS/CONNECT within the log of a job, and sessions one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.workload.test_sas_log import names, read


def note(subject: str, real_s: float, cpu_s: float) -> str:
    times = f"      real time           {real_s:.2f} seconds\n      cpu time            {cpu_s:.2f} seconds\n"
    return f"NOTE: {subject} used:\n{times}\n"


def start(cpu_s: float = 0.5) -> str:
    return note("SAS initialization", 1.0, cpu_s)


def step(real_s: float, cpu_s: float, name: str = "SORT") -> str:
    return note(f"PROCEDURE {name}", real_s, cpu_s)


def close(real_s: float, cpu_s: float) -> str:
    return note("The SAS System", real_s, cpu_s)


def remote(what: str, name: str, within: str = "") -> str:
    word = "from" if what == "signoff" else "to"
    release = " (SAS Release 9.04.01M6P110718)" if what == "signon" else ""
    return (
        f"41   {what} {name};\nNOTE: Remote {what} {word} {name} commencing{release}.\n{within}"
        f"NOTE: Remote {what} {word} {name} complete.\n"
    )


def connected(name: str, steps: str, closing: str = "") -> str:
    """A session that is signed on to, used and, with its closing note, signed off from."""
    log = remote("signon", name, start()) + remote("submit", name, steps)
    return log + (remote("signoff", name, closing) if closing else "")


def test_cpu_time_of_a_nested_session_is_the_jobs(tmp_path: Path) -> None:
    log = (
        start()
        + step(60, 50)
        + connected("TASK1", step(600, 500), close(610, 505))
        + step(30, 20)
        + close(720, 75)
    )
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (720.0, 580.0)
    assert [(each.procedure, each.session) for each in launch.steps] == [
        ("SAS initialization", None),
        ("SORT", None),
        ("SAS initialization", "TASK1"),
        ("SORT", "TASK1"),
        ("SORT", None),
    ]


def test_a_nested_session_without_a_closing_note_counts_by_its_steps(tmp_path: Path) -> None:
    log = start() + step(60, 50) + connected("TASK1", step(600, 500)) + step(30, 20) + close(720, 75)
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-nested-session-open", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (720.0, 575.5)


def test_a_nested_session_after_one_that_closed_loses_nothing(tmp_path: Path) -> None:
    first = connected("TASK1", step(600, 500), close(610, 505))
    log = start() + step(60, 50) + first + connected("TASK2", step(300, 200)) + step(30, 20) + close(1030, 75)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s, len(launch.steps)) == (1030.0, 505 + 200.5 + 75, 7)


def test_where_the_log_is_cut_the_nested_closing_note_is_not_the_jobs(tmp_path: Path) -> None:
    log = start() + step(600, 500) + connected("TASK1", step(60, 50), close(70, 52)) + step(30, 20)
    launch, findings = read(tmp_path, log)
    assert "sas-log-truncated" in names(findings)
    assert (launch.real_s, launch.user_s) == (1 + 600 + 70 + 30, 0.5 + 500 + 52 + 20)


def test_sessions_in_the_background_speak_when_their_log_is_fetched(tmp_path: Path) -> None:
    begun = "".join(
        remote("signon", name, start())
        + f"NOTE: Remote submit to {name} commencing.\n"
        + f"NOTE: Background remote submit to {name} in progress.\n"
        for name in ("A", "B")
    )
    fetched = remote("submit", "B", step(100, 90, "REG")) + remote("submit", "A", step(120, 110, "GLM"))
    log = start() + begun + step(50, 40) + fetched + remote("signoff", "A", close(130, 111)) + close(140, 41)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s) == (140.0, 41 + 111 + 90.5)
    assert [(each.procedure, each.session) for each in launch.steps][-3:] == [
        ("SORT", None),
        ("REG", "B"),
        ("GLM", "A"),
    ]


def test_a_session_within_a_nested_one(tmp_path: Path) -> None:
    inner = connected("INNER", step(100, 90), close(105, 92))
    log = start() + connected("OUTER", step(50, 40) + inner + step(20, 10), close(190, 52)) + close(200, 1)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s) == (200.0, 92 + 52 + 1)


@pytest.mark.parametrize("closing", ["", close(620, 502)])
def test_sessions_that_no_note_names(tmp_path: Path, closing: str) -> None:
    log = start() + step(60, 50) + start() + step(600, 500) + closing
    whole, _ = read(tmp_path, log + step(30, 20) + close(720, 75) if closing else log + close(720, 75))
    assert (whole.real_s, whole.user_s) == (720.0, 75 + (502 if closing else 500.5))
    cut, findings = read(tmp_path, log)
    assert "sas-log-truncated" in names(findings)
    assert cut.real_s == (1 + 60 + 620 if closing else 1 + 60 + 1 + 600)


def test_a_new_first_page_begins_another_job_even_after_one_that_was_cut(tmp_path: Path) -> None:
    header = "1                     The SAS System        06:58 Saturday, November 21, 2026\n\n"
    launch, findings = read(tmp_path, header + start() + step(600, 500) + header + start() + close(20, 2))
    assert names(findings) == ["sas-log-several-sessions", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (20.0, 2.0)


def test_notes_of_another_name_are_no_sessions(tmp_path: Path) -> None:
    log = start() + "NOTE: Remote library MYLIB commencing to be used.\n" + step(6, 5) + close(9, 6)
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (9.0, 6.0)
