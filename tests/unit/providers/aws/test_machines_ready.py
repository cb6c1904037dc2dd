"""What `up` takes for a sign of life while it waits for machines."""

from __future__ import annotations

from dataclasses import replace

from gridwright.providers.boot.bundle import BootNews, BootReport

REPORT = BootReport(
    name="compute1", instance="i-1", state="running", bundle="b", tries=1, reason="", log="",
    at="2026-11-24T10:00:00Z",
)  # fmt: skip


def test_a_machine_that_goes_on_is_heard_and_nothing_is_said_of_it_twice() -> None:
    lines: list[str] = []
    news = BootNews(lines.append)
    assert news.hear([REPORT])
    assert not news.hear([REPORT])
    assert news.hear([replace(REPORT, at="2026-11-24T10:10:00Z")])
    assert news.hear([replace(REPORT, state="done", at="2026-11-24T10:20:00Z")])
    assert news.hear([replace(REPORT, state="done", at="2026-11-24T10:30:00Z")])
    assert lines == ["compute1: is set up"]
