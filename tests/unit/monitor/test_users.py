"""However many jobs and users there are: few rows at each node, and sums by each counter that are exact."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.frame import frame_of
from gridwright.monitor.history.busiest import OTHERS, BusiestJobs, family_of
from gridwright.monitor.history.open_minute import MINUTE, OpenMinute
from gridwright.monitor.job_rows import THERE
from gridwright.monitor.user_rows import MOST_USERS
from gridwright.monitor.user_sums import OF_USERS, OWNER, UNKNOWN, user_values
from tests.unit.monitor.test_frame import MB, Counted, node

READ, WRITTEN, CPU = (
    f"gridwright_job_{each}_total" for each in ("read_bytes", "written_bytes", "cpu_seconds")
)
NAMES = st.sampled_from([*"abcdefghij", OTHERS, UNKNOWN])
AMOUNTS = st.integers(0, 1 << 16).map(float)
SECONDS = st.lists(
    st.dictionaries(NAMES, st.tuples(AMOUNTS, NAMES | st.none(), st.integers(0, 5)), max_size=12),
    min_size=1,
    max_size=8,
)
"""Of each second: of each job what it moved, whose it is, and for how many seconds before that stands."""


def values_of(jobs: dict[str, tuple[float, str | None, int]]) -> list[tuple[tuple[str, ...], float, int]]:
    found: list[tuple[tuple[str, ...], float, int]] = []
    for job, (moved, user, back) in jobs.items():
        found += [((metric, job), moved, back) for metric in (READ, WRITTEN, CPU)] + [((THERE, job), 1.0, 0)]
        if user is not None:
            found.append(((OWNER, job, user), 1.0, 0))
    return found


@given(SECONDS, st.integers(1, 4), st.integers(1, 3))
def test_sums_by_counter_are_those_of_all_jobs_whoever_is_left_out(
    seconds: list[dict[str, tuple[float, str | None, int]]], most: int, every: int
) -> None:
    """At most so many and the sum of others, chosen anew every few seconds: names and users, each."""
    chooses, minute = BusiestJobs(most), OpenMinute(0)
    moved = jobs_there = 0.0
    for number, jobs in enumerate(seconds, start=5):
        values = values_of(jobs)
        kept = list(chooses.fold([*values, *user_values(values)], number // every))
        for metric in {key[0] for key, _, _ in kept}:
            labels = {key[1:] for key, _, _ in kept if key[0] == metric}
            assert len(labels) <= most + 1
        minute.put(number, kept)
        moved += sum(rate * (1 + back) for rate, _, back in jobs.values())
        jobs_there += len(jobs)
    told: dict[str, float] = defaultdict(float)
    for key, column in minute.columns.items():
        told[key[0]] += sum(each for each in column if each == each)  # noqa: PLR0124 - NaN is not itself
    filled = {back for jobs in seconds for _, _, back in jobs.values()}
    for metric, of_user in OF_USERS.items():
        assert told[of_user] == (jobs_there if metric == THERE else moved), of_user
        if filled <= {0}:
            assert told[metric] == (jobs_there if metric == THERE else moved), metric
    assert 5 + len(seconds) < MINUTE


@given(
    st.dictionaries(st.integers(0, 400), st.tuples(AMOUNTS, st.integers(0, 300)), min_size=1, max_size=300)
)
def test_users_of_a_picture_are_few_and_have_all_that_jobs_moved(jobs: dict[int, tuple[float, int]]) -> None:
    counted: Counted = {(READ, str(job)): moved for job, (moved, _) in jobs.items()}
    quiet: Counted = {(WRITTEN, str(job)): 0.0 for job in jobs}
    runs: Counted = {(CPU, str(job)): 1.0 for job in jobs}
    gauges: Counted = {(THERE, str(job)): 1.0 for job in jobs}
    owners: Counted = {(OWNER, str(job), f"u{user}"): 1.0 for job, (_, user) in jobs.items()}
    frame = frame_of([node(counted=counted | quiet | runs, gauges=gauges | owners)])
    assert len(frame.users) <= MOST_USERS + 1
    assert sum(row.jobs for row in frame.users) == len(jobs)
    for told in ("read_bytes_per_s", "cpus"):
        whole = sum(getattr(row, told) for row in frame.users)
        assert whole == pytest.approx(sum(getattr(row, told) for row in frame.jobs))


def test_a_user_is_told_over_all_nodes_and_a_job_on_two_of_them_counts_once() -> None:
    there: Counted = {(THERE, "17"): 2.0, (OWNER, "17", "ann"): 1.0}
    moved: Counted = {(READ, "17"): 10 * MB, (WRITTEN, "17"): 0.0, (CPU, "17"): 1.0}
    frame = frame_of([node("n1", counted=moved, gauges=there), node("n2", counted=moved, gauges=there)])
    (ann,) = frame.users
    assert (ann.user, ann.jobs) == ("ann", 1)
    assert ann.cpus == pytest.approx(2.0)
    assert ann.read_bytes_per_s == pytest.approx(20 * MB)


def test_what_one_job_does_not_tell_is_not_told_of_its_user() -> None:
    """Bytes of a process of another user are root's to see: the sum would be too small."""
    there: Counted = {(THERE, job): 1.0 for job in ("17", "18")} | {
        (OWNER, job, "ann"): 1.0 for job in ("17", "18")
    }
    moved: Counted = {(READ, "17"): 10 * MB, (CPU, "17"): 1.0, (CPU, "18"): 1.0}
    (ann,) = frame_of([node(counted=moved, gauges=there)]).users
    assert (ann.jobs, ann.read_bytes_per_s) == (2, None)
    assert ann.cpus == pytest.approx(2.0)


def test_whose_the_jobs_of_a_sum_are_is_one_series() -> None:
    """A thousand users of jobs and of processes that are left out are not a thousand series."""
    chooses = BusiestJobs(most=3)
    values = [((OWNER, f"{job}", f"u{job}"), 1.0, 0) for job in range(1000)]
    values += [(("gridwright_process_moved_bytes_total", "sh", f"u{user}"), 1.0, 0) for user in range(1000)]
    told = [(key, value) for key, value, _ in chooses.fold(values, 0)]
    assert len(told) == 2 * (3 + 1)
    assert ((OWNER, OTHERS, OTHERS), 997.0) in told
    family = family_of("gridwright_process_moved_bytes_total")
    assert family is not None
    assert family.name(("sh", "u1")) == ("sh", "u1")
