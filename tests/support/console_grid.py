"""A grid with trouble, as the console shows it: for the pictures of its documents, and for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gridwright.cli.watch.console import explaining
from gridwright.monitor.console.watching import (
    HourlyCost,
    JobFacts,
    OpenFinding,
    RepositoryFacts,
    TimeMark,
    Watching,
)
from tests.support.console_page import ConsolePage
from tests.support.pretend_histories import END_S, LIBRARIES, TROUBLE_S, PretendHistories

SLOW_TARGET, JOB = "scratch-OST0002", "4711"
PROOF = TimeMark(
    kind="run", name="20260921-1319-proof", text="iotest demo: met, proof, 138 read", state="good",
    start_s=END_S - 3300, end_s=END_S - 2500,
)  # fmt: skip
FINDING = TimeMark(
    kind="finding", name="target-slow", text="target-slow opened: OST0002 answers late", state="bad",
    start_s=END_S - TROUBLE_S + 120, end_s=END_S - TROUBLE_S + 120,
)  # fmt: skip

OPEN = OpenFinding(
    level="warning", name="target-slow", where=SLOW_TARGET, found="requests take 90 ms",
    since_s=END_S - TROUBLE_S + 120,
)  # fmt: skip


def troubled(
    histories: PretendHistories, *, job_name: str = "risk-nightly.py", name: str = "demo"
) -> Watching:
    """All that is known of the grid."""
    marks = (PROOF, FINDING)
    return Watching(
        name=name,
        histories=histories,
        libraries=LIBRARIES,
        marks=lambda start, end: [
            each for each in marks if each.start_s <= end and (each.end_s or end) >= start
        ],
        jobs=lambda: [
            JobFacts(job=JOB, user="ann", name=job_name, state="running", started=END_S - TROUBLE_S),
            JobFacts(job="4712", user="bob", name="etl", state="running", started=END_S - 7000),
        ],
        cost=HourlyCost(12.34, "listed prices of 2026-10 in us-east-1"),
        findings=lambda: [OPEN],
        explain=explaining(histories, LIBRARIES, Path("runs")),
        repositories=[RepositoryFacts("archive", "data", "s3://bucket/prefix", "gridwright repo")],
        clock=lambda: END_S + 1,
    )


def steps_to_the_job(seen: ConsolePage) -> Iterator[tuple[str, Any]]:
    """From "something is slow" to the job on the target: a name for each step, and what is clicked next."""
    page = seen.page
    library = page.get_by_role("link", name="data, work", exact=True)
    yield "1-overview", library
    library.click()
    seen.settle("storage")
    target = page.locator("section", has_text="Targets").get_by_role("rowheader").first.get_by_role("link")
    assert target.inner_text() == SLOW_TARGET
    yield "2-targets", target
    target.click()
    seen.settle("storage?")
    assert f"target={SLOW_TARGET}" in page.url
    job = page.locator("section", has_text="Jobs").get_by_role("rowheader").first.get_by_role("link")
    assert job.inner_text() == JOB
    yield "3-target", job
    job.click()
    seen.settle("jobs")
    assert page.get_by_role("heading", name=f"Job {JOB}").is_visible()
    yield "4-job", page.get_by_role("link", name=SLOW_TARGET).first
