"""up, status and down of a grid on OCI, by the real SDK against a double that runs what it is given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path
from urllib.parse import unquote

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers import provider_of
from gridwright.providers.oci.down import down, look
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.oci.provider import status
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.terraform.boot import PARTS, BootReports
from gridwright.providers.oci.up import OciMachinesReady, OciUp, up
from gridwright.providers.provider import Caller, comparison_of
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_cloud.buckets import PAGE
from tests.support.oci_cloud.server import OciDouble
from tests.support.oci_cloud.signed_in import signed_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "oci-scale.yaml"


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    with signed_in(tmp_path, monkeypatch) as double:
        yield double


@pytest.fixture(scope="module")
def spec() -> Iterator[GridSpec]:
    """The grid; what is rendered of it is the same each time, and is rendered once."""
    found = load_spec(EXAMPLE)
    rendered = oci_files(found)

    def once(spec: GridSpec) -> object:
        return rendered if spec is found else oci_files(spec)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("up", "provider"):
            patch.setattr(f"gridwright.providers.oci.{module}.oci_files", once)
        yield found


def raise_up(spec: GridSpec, said: list[str] | None = None, names: frozenset[str] = frozenset()) -> OciUp:
    return up(spec, Caller(said.append if said is not None else print), names, poll_s=0.01)


def test_up_twice_status_and_down(cloud: OciDouble, spec: GridSpec) -> None:
    assert status(spec).state == "not-up"
    assert raise_up(spec).made
    assert {each["displayName"] for each in cloud.stacks.values()} == {
        "gridwright-oci-scale-storage",
        "gridwright-oci-scale-grid",
    }
    found = status(spec)
    assert found.whole, found.text()
    assert all(len(each.attached) == 2 for each in found.volumes)
    before = set(cloud.resources)
    again = raise_up(spec)
    assert not again.changes
    assert "nothing is changed" in again.text()
    assert set(cloud.resources) == before

    gone = cloud.of("oci_core_volume_attachment")[0]["shown"]
    del cloud.resources[gone["id"]]
    hurt = status(spec)
    assert hurt.state == "broken"
    assert gone["displayName"] in hurt.text()

    result = down(look(spec, frozenset()), Caller(), poll_s=0.01)
    assert not cloud.of("oci_core_instance")
    assert cloud.of("oci_core_volume")
    # Logs of machines are in the bucket, which outlives them.
    assert cloud.of("oci_objectstorage_bucket")
    cloud.buckets.objects |= {f"boot-logs/{number}.gz": "a log" for number in range(7)}
    assert result.kept
    assert status(spec).state == "storage-only"
    assert "nothing of it is left" in down(look(spec, frozenset({"lake"})), Caller(), poll_s=0.01).text()
    assert not cloud.resources
    assert not cloud.stacks
    assert not cloud.buckets.objects


def test_a_change_that_loses_data_is_refused(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    volumes = {each["shown"]["id"] for each in cloud.of("oci_core_volume")}
    # As if the spec had another availability domain: volumes cannot follow.
    for stack in cloud.stacks.values():
        for address, each in stack["state"].items():
            if address.startswith("oci_core_volume."):
                each["values"]["availability_domain"] = "another"
    with pytest.raises(GridwrightError, match="Instance cannot be destroyed") as raised:
        raise_up(spec)
    assert "--replace" in str(raised.value)
    assert {each["shown"]["id"] for each in cloud.of("oci_core_volume")} == volumes
    with pytest.raises(GridwrightError, match="no file system lak"):
        raise_up(spec, names=frozenset({"lak"}))
    assert {each["shown"]["id"] for each in cloud.of("oci_core_volume")} == volumes
    said: list[str] = []
    raise_up(spec, said, names=frozenset({"lake"}))
    # The double deletes no volume that is attached, as OCI.
    assert "detaching 40 volumes from their servers" in said
    assert status(spec).whole
    assert not {each["shown"]["id"] for each in cloud.of("oci_core_volume")} & volumes


def test_faults_are_told_with_a_remedy(cloud: OciDouble, spec: GridSpec) -> None:
    cloud.expired = True
    with pytest.raises(GridwrightError, match="does not accept the credentials"):
        raise_up(spec)
    cloud.expired, cloud.limit = False, 3
    with pytest.raises(GridwrightError, match="LimitExceeded") as raised:
        raise_up(spec)
    assert "ask for a higher limit" in str(raised.value)
    assert status(spec).state == "broken"
    cloud.limit, cloud.throttled = 100, 2
    raise_up(spec)
    assert status(spec).whole


def test_a_grid_whose_state_is_elsewhere_is_not_made_twice(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    before = set(cloud.resources)
    cloud.stacks.clear()
    with pytest.raises(GridwrightError, match="is there already") as raised:
        raise_up(spec)
    assert "another name" in str(raised.value)
    assert set(cloud.resources) == before


def test_machines_that_fail_or_stay_silent_are_named(cloud: OciDouble, spec: GridSpec) -> None:
    log = "TASK [packages]\nfatal: no space left on device"
    cloud.buckets.set_ups["compute2"] = {
        "state": "failed", "tries": 3, "reason": "no space left on device", "log": log,
    }  # fmt: skip
    said: list[str] = []
    with pytest.raises(GridwrightError, match="1 of 10 machines are not set up") as raised:
        raise_up(spec, said)
    assert "compute2: no space left on device" in str(raised.value)
    assert "gridwright-oci-scale" in str(raised.value)
    assert "boot-logs/" in str(raised.value)
    assert "compute2 | fatal: no space left on device" in said
    assert "compute1: is set up" in said
    assert status(spec).state == "broken"
    assert "failed, try 3" in status(spec).text()

    # What was told by another machine of the name, or of another bundle, does not count.
    cloud.buckets.set_ups = {
        "compute2": {"instance": "ocid1.instance.of.before"},
        "login1": {"bundle": "old"},
    }
    assert status(spec).state == "setting-up"
    instances = {each["shown"]["displayName"]: each["shown"] for each in cloud.of("oci_core_instance")}
    bundles = {part: cloud.buckets.contents(cloud.resources)[f"bundles/current/{part}"] for part in PARTS}
    ready = OciMachinesReady(
        OciCloud("us-ashburn-1"), Caller(said.append), oci_layout(spec), bundles,
        {name: each["id"] for name, each in instances.items()}, "tenant", "gridwright-oci-scale",
        poll_s=0.01, quiet_s=0.1,
    )  # fmt: skip
    with pytest.raises(GridwrightError, match="2 of 10 machines") as raised:
        ready.wait()
    assert "compute2" in str(raised.value)
    assert "login1" in str(raised.value)
    assert "told nothing" in str(raised.value)

    # One that somebody has stopped is not waited for.
    cloud.buckets.set_ups = {"compute2": {}}
    instances["compute2"]["lifecycleState"] = "STOPPED"
    assert not raise_up(spec, said).changes


def test_reports_are_listed_at_once_and_fetched_where_they_changed(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    names = {each.name for each in oci_layout(spec).machines}
    reports = BootReports(OciCloud("us-ashburn-1"), "tenant", "gridwright-oci-scale")

    def fetched() -> list[str]:
        found = [unquote(each.rpartition("/o/")[2]) for each in cloud.asked if "/o/" in each]
        lists = sum(each.endswith("/o") for each in cloud.asked)
        assert lists == -(-len(names) // PAGE), "a page of the double has few"
        cloud.asked.clear()
        return found

    cloud.asked.clear()
    assert {each.state for each in reports.look(names).values()} == {"done"}
    assert len(fetched()) == len(names)
    reports.look(names)
    assert fetched() == []
    cloud.buckets.set_ups["compute3"] = {"state": "running", "reason": "packages"}
    assert reports.look(names)["compute3"].text == "packages"
    assert fetched() == ["boot/compute3.json"]
    cloud.buckets.objects["boot/compute1.json"] = '{"of": "another release"}'
    cloud.buckets.objects["boot/stranger.json"] = "{}"
    assert set(reports.look(names)) == names - {"compute1"}
    cloud.buckets.set_ups["compute3"] = {}
    assert "compute3" not in reports.look(names)


def test_drift_is_named(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    provider = provider_of(spec)
    whole = status(spec, drift=True, poll_s=0.01)
    assert whole.drift == ()
    assert "as the state has them: none" in whole.text()
    cloud.drifted = {"oci_core_instance.compute1": "MODIFIED", "oci_core_subnet.fs": "DELETED"}
    found = status(spec, drift=True, poll_s=0.01)
    assert not found.whole
    assert "oci_core_instance.compute1 is changed (gridwright-oci-scale-grid)" in found.text()
    assert "oci_core_subnet.fs is gone (gridwright-oci-scale-storage)" in found.text()
    assert status(spec).whole
    assert comparison_of(provider).drifted(spec, Caller()).state == "broken"
    cloud.look_ends = "FAILED"
    with pytest.raises(GridwrightError, match="look for drift failed"):
        comparison_of(provider).drifted(spec, Caller())


def test_leftovers_end_down_with_an_error(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    cloud.leaves = "oci_core_instance"
    with pytest.raises(GridwrightError, match="is left, and may be billed") as raised:
        down(look(spec, frozenset()), Caller(), poll_s=0.01)
    assert int(raised.value.status) == 3


def test_an_order_to_stop_ends_the_waiting(cloud: OciDouble, spec: GridSpec) -> None:
    cloud.never_ends = True
    said: list[str] = []
    caller = Caller(said.append)

    def say(line: str) -> None:
        said.append(line)
        caller.stop.set()

    with pytest.raises(KeyboardInterrupt):
        up(spec, changed(caller, say=say), frozenset(), poll_s=30)
    assert re.search("goes on at OCI", " ".join(said))
    assert not cloud.resources
    assert os.environ["GRIDWRIGHT_OCI_ENDPOINT"] not in " ".join(said)


def test_a_lustre_of_the_grids_own_comes_up_and_its_volumes_are_guarded(cloud: OciDouble) -> None:
    spec = load_spec(EXAMPLE.with_name("oci-lustre.yaml"))
    for name in ("clients", "servers"):
        cloud.account.images[f"ocid1.image.oc1.iad.aaaaaaaa{name}"] = {"shapes": []}
    assert raise_up(spec).made
    found = status(spec)
    assert found.whole, found.text()
    assert len(found.volumes) == 25
    assert all(len(each.attached) == 1 for each in found.volumes)
    assert not raise_up(spec).changes
    shared = spec.filesystems["shared"]
    fewer = shared.model_copy(update={"oss": shared.server_groups["oss"].model_copy(update={"count": 5})})
    smaller = spec.model_copy(update={"filesystems": {"shared": fewer}})
    with pytest.raises(GridwrightError) as raised:
        raise_up(smaller)
    assert (
        sum(
            "would destroy the data on oci-lustre-shared-oss6-v" in str(each)
            for each in raised.value.problems
        )
        == 4
    )
    assert len(cloud.of("oci_core_volume")) == 25
    raise_up(smaller, names=frozenset({"shared"}))
    assert len(cloud.of("oci_core_volume")) == 21


def test_machines_are_shut_down_before_volumes_leave_them_servers_last(
    cloud: OciDouble, spec: GridSpec
) -> None:
    """What a running server has not written yet would be lost with its volume."""
    raise_up(spec)
    names = {each["shown"]["id"]: each["shown"]["displayName"] for each in cloud.of("oci_core_instance")}
    servers = {each for each in names.values() if each.startswith("lake-nsd")}
    cloud.asked.clear()
    said: list[str] = []
    down(look(spec, frozenset()), Caller(said.append), poll_s=0.01)
    order = [names[each] for each in cloud.stopped]
    assert set(order) == set(names.values())
    assert set(order[-len(servers) :]) == servers
    stops = [at for at, each in enumerate(cloud.asked) if "/instances/" in each]
    jobs = [at for at, each in enumerate(cloud.asked) if each.startswith("POST") and "/jobs" in each]
    assert len(stops) == len(names)
    assert max(stops) < min(jobs)
    assert [each for each in said if each.startswith("shutting")] == [
        f"shutting nodes down: {len(names) - len(servers)}",
        f"shutting servers of file systems down: {len(servers)}",
    ]


def test_who_gives_the_data_up_waits_for_no_machine(cloud: OciDouble, spec: GridSpec) -> None:
    raise_up(spec)
    down(look(spec, frozenset({"lake"})), Caller(), poll_s=0.01)
    assert cloud.stopped == []
    assert not cloud.resources


def test_a_machine_that_does_not_shut_down_keeps_its_volumes(
    cloud: OciDouble, spec: GridSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_up(spec)
    monkeypatch.setattr("gridwright.providers.oci.down.LONGEST_S", 0.05)
    monkeypatch.setattr(cloud, "_stop", lambda instance, _: (200, {"id": instance}))
    with pytest.raises(GridwrightError, match="so no volume was detached"):
        down(look(spec, frozenset()), Caller(), poll_s=0.01)
    assert status(spec).whole


def test_a_server_that_is_made_anew_is_shut_down_first_and_nobody_else(
    cloud: OciDouble, spec: GridSpec
) -> None:
    raise_up(spec)
    names = {each["shown"]["id"]: each["shown"]["displayName"] for each in cloud.of("oci_core_instance")}
    for stack in cloud.stacks.values():
        for address, each in stack["state"].items():
            if address in ("oci_core_instance.lake-nsd2", "oci_core_instance.compute1"):
                each["values"]["availability_domain"] = "another"
    said: list[str] = []
    raise_up(spec, said)
    assert [names[each] for each in cloud.stopped] == ["compute1", "lake-nsd2"]
    assert "shutting nodes down: 1" in said
    assert status(spec).whole
