"""Jobs of a link with Object Storage: one at a time, once each, followed to an end, and stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.linked_repository import LONGEST_TURN_S, LONGEST_WAIT_S
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.object_links import (
    EXPORT,
    IMPORT,
    LONGEST_STILL_S,
    LinkJobs,
    work_request_errors,
)
from gridwright.providers.oci.session import OciCloud
from gridwright.spec import parse_spec
from tests.support.oci_cloud.lustre import FILE_SYSTEM, make_rendered
from tests.support.oci_cloud.server import OciDouble
from tests.support.oci_cloud.signed_in import signed_in

EXAMPLE = Path(__file__).parents[4] / "examples" / "oci-managed-lustre.yaml"
COMPARTMENT = "ocid1.compartment.oc1..aaaaaaaaexamplecompartment"
TWO = '- {bucket: "oci://raw-data@mynamespace/2026", directory: /raw, imports: 1}\n'
ROOT = json.loads(
    oci_files(
        parse_spec(
            EXAMPLE.read_text().replace(
                TWO, TWO + '      - {bucket: "oci://out@mynamespace", directory: /out}\n'
            ),
            base=EXAMPLE.parent,
        )
    )[0]["storage/main.tf.json"]
)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    with signed_in(tmp_path, monkeypatch) as double:
        make_rendered(double.resources, ROOT)
        double.lustre.root = tmp_path / "lake"
        (tmp_path / "lake/raw").mkdir(parents=True)
        (tmp_path / "lake/raw/a").write_text("a", "utf-8")
        double.lustre.buckets = {("mynamespace", "raw-data"): {}, ("mynamespace", "out"): {}}
        yield double


def jobs(
    double: OciDouble, waits: list[float], said: list[str] | None = None, *, link: int = 1, fast: float = 1
) -> LinkJobs:
    filesystem = next(each["shown"]["id"] for each in double.of(FILE_SYSTEM))
    return LinkJobs(
        OciCloud("us-ashburn-1"),
        COMPARTMENT,
        filesystem,
        f"ocid1.filestorageobjectstoragelink.oc1..shared-link{link}",
        said.append if said is not None else print,
        waits.append,
        lambda: fast * sum(waits),
    )


def test_a_job_begins_once_though_its_answer_is_lost_and_another_one_began(cloud: OciDouble) -> None:
    said: list[str] = []
    waits: list[float] = []
    cloud.lustre.races, cloud.lustre.lost = 1, 1
    done = jobs(cloud, waits, said).run(EXPORT)

    assert (done.state, done.transferred, done.transferred_bytes, done.failed) == ("SUCCEEDED", 1, 1, 0)
    assert len(cloud.lustre.jobs) == 1
    assert sum("waiting for another job" in each for each in said) == 1
    assert cloud.lustre.buckets["mynamespace", "raw-data"] == {"2026/a": b"a"}


def test_links_of_one_file_system_take_turns(cloud: OciDouble) -> None:
    """A job of the other link is waited for, and its end is seen though nobody else looks at it."""
    cloud.lustre.held = True
    waits: list[float] = []

    def end(seconds: float) -> None:
        waits.append(seconds)
        cloud.lustre.held = len(waits) < 3

    other = jobs(cloud, [], link=2)
    other.cloud.call(
        "lustre_file_storage", "LustreFileStorageClient", "start_import_from_object", other.link_id
    )
    mine = jobs(cloud, waits)
    mine.wait = end
    assert mine.run(IMPORT).state == "SUCCEEDED"
    assert [each["jobType"] for each in cloud.lustre.jobs.values()] == ["IMPORT", "IMPORT"]
    assert waits[:3] == [0.5, 1.0, 2.0]


def test_a_turn_that_never_comes_and_a_job_that_stands_still_are_errors_in_the_end(cloud: OciDouble) -> None:
    cloud.lustre.held = True
    waits: list[float] = []
    said: list[str] = []
    with pytest.raises(GridwrightError, match="told nothing new for an hour"):
        jobs(cloud, waits, said, fast=1000).run(EXPORT)
    assert LONGEST_STILL_S <= 1000 * sum(waits) < LONGEST_STILL_S + 1000 * LONGEST_WAIT_S
    assert any("OCI goes on with it" in each for each in said)
    waits.clear()
    with pytest.raises(GridwrightError, match="another job works"):
        jobs(cloud, waits, said, link=2, fast=1000).run(EXPORT)
    assert LONGEST_TURN_S <= 1000 * sum(waits) < LONGEST_TURN_S + 1000 * LONGEST_WAIT_S
    assert len(cloud.lustre.jobs) == 1


def test_an_interrupt_stops_the_job_and_no_other(cloud: OciDouble) -> None:
    cloud.lustre.held = True
    mine = jobs(cloud, [])

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    mine.wait = stop
    with pytest.raises(KeyboardInterrupt):
        mine.run(EXPORT)
    (job,) = mine.all()
    assert job.state == "CANCELING"
    # One that ended meanwhile is left alone: its link may have the next one by now.
    before = len([each for each in cloud.asked if "/actions/stop" in each])
    cloud.lustre.held = False
    done = mine._job(mine.link_id, job.id)
    assert done.state == "CANCELED"
    mine._cancel(EXPORT, done)
    assert len([each for each in cloud.asked if "/actions/stop" in each]) == before


def test_an_interrupt_before_the_answer_stops_the_job_that_begins(
    cloud: OciDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.lustre.held = True
    said: list[str] = []
    mine, call = jobs(cloud, [], said), OciCloud.call

    def cut_off(self: OciCloud, *words: Any, **more: Any) -> Any:
        found = call(self, *words, **more)
        if "start_export_to_object" in words:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(OciCloud, "call", cut_off)
    with pytest.raises(KeyboardInterrupt):
        mine.run(EXPORT)
    assert [each.state for each in mine.all()] == ["CANCELING"]
    assert "stopped; files that were done stay" in said[-1]
    # While another link's job is waited for, nothing of this one is stopped.
    monkeypatch.setattr(OciCloud, "call", call)
    assert mine._job(mine.link_id, next(mine.all()).id).state == "CANCELED"
    mine._start(EXPORT)
    waiting = jobs(cloud, [], said, link=2)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    waiting.wait = stop
    before = len([each for each in cloud.asked if "/actions/stop" in each])
    with pytest.raises(KeyboardInterrupt):
        waiting.run(EXPORT)
    assert len([each for each in cloud.asked if "/actions/stop" in each]) == before


def test_expired_credentials_end_the_command_and_not_the_job(cloud: OciDouble) -> None:
    cloud.lustre.held = True
    said: list[str] = []
    mine = jobs(cloud, [], said)

    def expire(_: float) -> None:
        cloud.expired = True

    mine.wait = expire
    with pytest.raises(GridwrightError, match="does not accept the credentials"):
        mine.run(EXPORT)
    assert not any("/actions/stop" in each for each in cloud.asked)
    assert any("OCI goes on with it" in each for each in said)


def test_a_link_that_is_not_active_takes_no_job_and_why_is_asked_for(cloud: OciDouble) -> None:
    link = "ocid1.filestorageobjectstoragelink.oc1..shared-link1"
    cloud.lustre.complaints[link] = ["the policy lacks manage objects"]
    assert work_request_errors(OciCloud("us-ashburn-1"), COMPARTMENT, link) == [
        "the policy lacks manage objects"
    ]
    assert work_request_errors(OciCloud("us-ashburn-1"), COMPARTMENT, "another") == []
