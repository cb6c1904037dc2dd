"""Managed file systems: offers and own figures, reads and writes at once, one client, metadata, cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import Degradation
from gridwright.filesystems.resources import Resource, Route, Use
from gridwright.model.document import prediction_document
from gridwright.model.grid import grid_model
from gridwright.model.predict import Clients, mix, predict
from gridwright.model.prediction import Prediction, ServicePrediction
from gridwright.report.designs.page import prediction_page
from gridwright.report.terminal.prediction import prediction_text
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from gridwright.spec.warnings import warn

EXAMPLES = Path(__file__).parents[3] / "examples"
MIB = 2**20
OWN = {"limits": {"read": "4 GB/s", "write": "1 GB/s"}}


def spec_with(
    section: dict[str, Any], provider: str = "azure", nodes: int | dict[str, Any] = 4, **more: Any
) -> GridSpec:
    alike = {"compute": {"count": nodes, "cores": 8, "memory": "64 GiB"}}
    return parse_spec(
        json.dumps(
            {
                "name": "g",
                "provider": provider,
                "nodes": alike if isinstance(nodes, int) else nodes,
                "filesystems": {"shared": {"type": "managed", "path": "/shared", **section}},
                "libraries": {"data": {}},
                "scheduler": {"type": "slurm"},
                **more,
            }
        )
    )


def predicted(
    section: dict[str, Any], provider: str = "azure", nodes: int | dict[str, Any] = 4, **more: Any
) -> Prediction:
    return predict(grid_model(spec_with(section, provider, nodes, **more)))


def service(section: dict[str, Any], provider: str = "azure", nodes: int = 4) -> ServicePrediction:
    (found,) = predicted(section, provider, nodes).services
    return found


ON_AWS: dict[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "aws": {"zone": "us-east-1a", "ssh_from": ["192.0.2.0/24"]},
    "nodes": {"compute": {"instance": "m5n.4xlarge", "count": 4}},
}


def refused(section: dict[str, Any], provider: str = "azure", **more: Any) -> str:
    with pytest.raises(GridwrightError) as caught:
        grid_model(spec_with(section, provider, **more))
    return " | ".join(f"{each.field}: {each.what}; {each.remedy}" for each in caught.value.problems)


def test_one_netapp_volume_delivers_what_is_published_of_either_direction_and_not_the_sum() -> None:
    found = service({"offer": "azure-netapp-files-ultra", "capacity": "64 TiB"})
    assert found.service.read_bytes_per_s == pytest.approx(4500 * MIB)
    assert found.service.write_bytes_per_s == pytest.approx(1500 * MIB)
    mixed = found.service.mixed
    assert mixed.bytes_per_s < 4500 * MIB
    # 0.8/4500 + 0.2/1500 of the budget for each MiB.
    assert mixed.bytes_per_s == pytest.approx(MIB / (0.8 / 4500 + 0.2 / 1500))
    assert found.published is not None
    assert found.published.above == pytest.approx(0.0714, abs=1e-4), "docs/filesystems.md says 7.1 %"


def test_capacity_brings_throughput_up_to_what_a_volume_passes() -> None:
    small = service({"offer": "azure-netapp-files-ultra", "capacity": "4 TiB"})
    assert small.service.read_bytes_per_s == pytest.approx(512 * MIB)
    assert small.service.mixed.bytes_per_s == pytest.approx(512 * MIB)
    assert small.service.mixed.bound_by == "shared.bought"
    assert service({"offer": "google-managed-lustre-250", "capacity": "36000 GiB"}, "google").service.mixed


def test_reads_and_writes_share_a_budget_unless_they_are_said_to_be_separate() -> None:
    joint = service(OWN).service.mixed
    assert joint.bytes_per_s == pytest.approx(1e9 / (0.8 / 4 + 0.2 / 1))
    apart = service({"limits": {**OWN["limits"], "separate": True}}).service.mixed
    assert apart.bytes_per_s == pytest.approx(5e9), "reads of 4 GB/s bind at 80 %"
    stated = {**OWN["limits"], "budget": {"rate": "4 GB/s", "write_cost": 2}}
    budget = service({"limits": stated}).service
    assert (budget.read_bytes_per_s, budget.write_bytes_per_s) == pytest.approx((4e9, 1e9))
    assert budget.mixed.bytes_per_s == pytest.approx(4e9 / (0.8 + 0.4))
    reads = service({**OWN, "reads": 50}).service.mixed
    assert reads.read_bytes_per_s == pytest.approx(reads.write_bytes_per_s) == pytest.approx(0.8e9)


def test_a_client_is_bound_by_its_own_limits_and_by_its_connections() -> None:
    client = {"read": "2 GB/s", "write": "900 MB/s", "flow": "300 MB/s", "connections": 4}
    limits = {"read": "40 GB/s", "write": "40 GB/s", "client": client}
    found = service({"limits": limits}, nodes=4)
    assert found.one_client.read_bytes_per_s == pytest.approx(1.2e9), "four flows of 300 MB/s"
    assert found.one_client.write_bytes_per_s == pytest.approx(0.9e9)
    assert found.all_nodes.read_bytes_per_s == pytest.approx(4 * 1.2e9)
    assert found.service.read_bytes_per_s == pytest.approx(40e9)
    both = service({"limits": {**limits, "client": {"both": "1 GB/s"}}}).one_client
    assert (both.read_bytes_per_s, both.mixed.bytes_per_s) == pytest.approx((1e9, 1e9))


def test_a_burst_lasts_as_long_as_its_credit() -> None:
    limits = {**OWN["limits"], "burst": {"rate": "6 GB/s", "credit": "2 TB"}}
    (library,) = predicted({"limits": limits}).libraries
    burst = library.rates["read"].burst
    assert burst is not None
    assert (burst.bytes_per_s, burst.seconds) == pytest.approx((6e9, 1000))
    assert library.rates["read"].bytes_per_s == pytest.approx(4e9), "requirements go by what lasts"


def test_metadata_wait_for_each_other_in_a_stream_and_share_what_the_service_takes() -> None:
    slow = service({"limits": {**OWN["limits"], "metadata": {"latency": "2 ms"}}}).metadata
    assert slow is not None
    assert (slow.per_s_per_stream, slow.per_s) == pytest.approx((500, 500 * 4 * 8))
    capped = {**OWN["limits"], "metadata": {"latency": "2 ms", "operations": 1000}}
    found = service({"limits": capped}).metadata
    assert found is not None
    assert found.per_s == 1000
    assert service(OWN).metadata is None


def test_the_bill_has_capacity_fixed_price_and_nodes() -> None:
    priced = {**OWN, "capacity": "73 TiB", "storage_price": "0.10 USD/GiB/month", "price": "2 USD/h"}
    cost = 73 * 1024 * 0.10 / 730 + 2
    assert service(priced).usd_per_hour == pytest.approx(cost)
    whole = predicted(priced, azure={"machine": "big", "node_price": "3 USD/h"})
    assert whole.usd_per_hour == pytest.approx(cost + 4 * 3)
    by_tb = service({**priced, "storage_price": "100 USD/TB/month", "price": "2 USD/h"})
    assert by_tb.usd_per_hour == pytest.approx(73 * 2**40 / 1e12 * 100 / 730 + 2)


def test_a_price_that_nobody_knows_is_no_price_of_nothing() -> None:
    found = predicted(OWN, azure={"node_price": "3 USD/h"})
    assert found.usd_per_hour is None
    (finding,) = [each for each in found.findings if each.name == "no-price"]
    assert "storage_price:" in finding.remedy
    assert predicted({**OWN, "price": "1 USD/h"}).usd_per_hour is None, "nodes have none"


def test_an_offer_without_a_price_of_the_spec_is_reckoned_at_its_list_price() -> None:
    ultra = {"offer": "azure-netapp-files-ultra", "capacity": "36 TiB"}
    listed = predicted(ultra, azure={"node_price": "3 USD/h"}, region="eastus2")
    assert listed.usd_per_hour == pytest.approx(36 * 1024 * 0.39274 / 730 + 4 * 3)
    (finding,) = [each for each in listed.findings if each.name == "list-price"]
    assert finding.level == "info"
    assert "Azure NetApp Files price list" in finding.text
    elsewhere = predicted(ultra, azure={"node_price": "3 USD/h"}, region="westeurope")
    assert "an estimate for westeurope" in next(e.text for e in elsewhere.findings if e.name == "list-price")
    own = predicted({**ultra, "storage_price": "0.20 USD/GiB/month"}, azure={"node_price": "3 USD/h"})
    assert own.usd_per_hour == pytest.approx(36 * 1024 * 0.20 / 730 + 12)
    assert not [each for each in own.findings if each.name == "list-price"]
    openzfs = {"offer": "fsx-openzfs", "capacity": "10 TiB", "throughput": "2560 MB/s"}
    (found,) = predicted(openzfs, **ON_AWS).services
    assert found.usd_per_hour == pytest.approx((10 * 1024 * 0.09 + 2560 * 0.26) / 730)


def test_an_offer_that_asks_for_each_byte_moved_has_no_price_by_the_hour() -> None:
    found = predicted({"offer": "efs-elastic", "capacity": "10 TiB"}, **ON_AWS)
    assert found.services[0].usd_per_hour is None, "4.21 USD/h for the capacity alone would flatter"
    (warning,) = [each for each in found.findings if each.name == "list-price"]
    assert warning.level == "warning"
    assert "101 USD/h at 1 GB/s of reads and 201 USD/h at 1 GB/s of writes" in warning.text
    (stated,) = predicted(
        {"offer": "efs-elastic", "capacity": "10 TiB", "price": "40 USD/h"}, **ON_AWS
    ).services
    assert stated.usd_per_hour == 40


def test_throughput_that_is_bought_apart_has_to_be_said() -> None:
    openzfs = {"offer": "fsx-openzfs", "capacity": "10 TiB"}
    assert "Add throughput: 160 MB/s, or more" in refused(openzfs, **ON_AWS)
    assert "is sold up to 10.2 GB/s" in refused({**openzfs, "throughput": "20 GB/s"}, **ON_AWS)
    tiering = {"offer": "fsx-lustre-intelligent-tiering", "throughput": "6000 MB/s"}
    assert "in steps of 4 GB/s" in refused(tiering, **ON_AWS)


def test_an_offer_is_held_against_what_is_sold() -> None:
    ultra, lustre = "azure-netapp-files-ultra", "azure-managed-lustre-250"
    assert "nearest is azure-netapp-files-ultra" in refused({"offer": "azure-netapp-files-ulta"})
    assert "offer of azure, and the provider is google" in refused(
        {"offer": ultra, "capacity": "4 TiB"}, "google"
    )
    assert "goes by its capacity" in refused({"offer": ultra})
    assert "from 8 TiB on" in refused({"offer": lustre, "capacity": "4 TiB"})
    assert "up to 128 TiB" in refused({"offer": lustre, "capacity": "400 TiB"})
    both = refused({"offer": ultra}, "google")
    assert "the provider is google" in both
    assert "dd capacity" in both


def test_nothing_is_made_up_of_what_nobody_says() -> None:
    with pytest.raises(GridwrightError, match=r"nobody says what it delivers \(write;"):
        predicted({"limits": {"read": "4 GB/s"}})
    assert service({"limits": {"read": "4 GB/s"}, "throughput": "1 GB/s"}).service.write_bytes_per_s == 1e9


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "neither offer nor limits"),
        ({**OWN, "storage_price": "1 USD/GB/month"}, "no capacity"),
        ({**OWN, "capacity": "1 TiB", "storage_price": "1 EUR/GB/month"}, "not a price of storage"),
        (
            {"limits": {**OWN["limits"], "separate": True, "burst": {"rate": "9 GB/s"}}},
            "a burst lifts the budget",
        ),
        ({"limits": {**OWN["limits"], "separate": True, "budget": {"rate": "9 GB/s"}}}, "not separate"),
    ],
)
def test_what_contradicts_itself_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(GridwrightError, match=said):
        spec_with(section)


def test_nodes_of_a_cloud_without_machines_in_the_catalogue_need_cores() -> None:
    with pytest.raises(GridwrightError, match="no machines of google"):
        parse_spec(
            json.dumps(
                {
                    "provider": "google",
                    "nodes": {"compute": {"count": 2}},
                    "filesystems": {"shared": {"type": "managed", "path": "/s", **OWN}},
                    "scheduler": {"type": "slurm"},
                }
            )
        )


def test_the_example_shows_every_rate_on_the_terminal_the_page_and_as_json() -> None:
    path = EXAMPLES / "azure-netapp-files.yaml"
    found = predict(grid_model(parse_spec(path.read_text("utf-8"))))
    text = prediction_text(found)
    page = prediction_page(found)
    for each in ("read alone", "one client", "shared: azure-netapp-files-ultra of 36 TiB", "7.1% above it"):
        assert each in text
        assert each in page
    (document,) = prediction_document(found)["services"]
    assert json.loads(json.dumps(document)) == document
    assert document["one_client"]["read_bytes_per_s"] == pytest.approx(1.9e9)
    assert document["service"]["mixed"]["bound_by"] == "shared.throughput"


rates = st.floats(1e6, 1e12)


@given(read=rates, write=rates, reads=st.floats(0.01, 0.99), nodes=st.integers(1, 64), own=rates)
def test_a_mix_keeps_every_budget_and_uses_one_up(
    read: float, write: float, reads: float, nodes: int, own: float
) -> None:
    shared = Resource("s", "s", "grid", read, "")
    client = Resource("c", "c", "node", own, "")
    routes = {
        "read": Route((Use(client), Use(shared))),
        "write": Route((Use(client), Use(shared, read / write))),
    }
    found = mix([Clients(routes, nodes)], reads)  # type: ignore[arg-type]
    used = (
        found.read_bytes_per_s / read + found.write_bytes_per_s / write,
        found.bytes_per_s / (own * nodes),
    )
    assert max(used) == pytest.approx(1)
    # A mix is never more than the better direction alone, nor less than the worse.
    alone = [mix([Clients(routes, nodes)], part).bytes_per_s for part in (0.0, 1.0)]  # type: ignore[arg-type]
    assert min(alone) * (1 - 1e-9) <= found.bytes_per_s <= max(alone) * (1 + 1e-9)


# What an account may have of FSx for Lustre: said wherever a grid is judged, and only beyond the limit.

ONE = "  {name}: {{type: fsx-lustre, path: /{name}, capacity: {gib} GiB}}\n"


def names(*sizes: int) -> list[set[str]]:
    """Findings of check and of predict about a grid with file systems of these sizes."""
    filesystems = "".join(ONE.format(name=f"fs{number}", gib=gib) for number, gib in enumerate(sizes))
    spec = parse_spec(
        "name: large\nprovider: aws\nregion: us-east-1\n"
        "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}\n"
        "nodes: {compute: {instance: m5n.8xlarge, count: 2}}\n"
        f"filesystems:\n{filesystems}libraries: {{data: {{filesystem: fs0, requires: 100 MB/s/core}}}}\n"
        "scheduler: {type: slurm}\n"
    )
    predicted = predict(grid_model(spec, load_catalog())).findings
    return [{each.name for each in found} for found in (warn(spec), predicted)]


@pytest.mark.parametrize("sizes", [(100_800,), (50_400, 50_400)], ids=["one", "two"])
def test_what_an_account_has_is_no_finding(sizes: tuple[int, ...]) -> None:
    assert all("account-limit" not in found for found in names(*sizes))


@pytest.mark.parametrize("sizes", [(103_200,), (50_400, 50_400, 1200)], ids=["one", "together"])
def test_more_than_that_is_said_by_check_and_by_predict(sizes: tuple[int, ...]) -> None:
    assert all("account-limit" in found for found in names(*sizes))


# NFS and Lustre of a service: an offer or limits give them the rates and costs that `managed` has.

CATALOG = load_catalog()
MANAGED: dict[str, Any] = {"type": "managed", "path": "/shared"}
NFS: dict[str, Any] = {
    "type": "nfs",
    "path": "/shared",
    "server": "10.0.0.9",
    "export": "/vol",
    "version": "4.1",
}
LUSTRE: dict[str, Any] = {"type": "lustre", "path": "/shared", "source": "10.0.0.4@tcp:/fs"}
ULTRA: dict[str, Any] = {"offer": "azure-netapp-files-ultra", "capacity": "36 TiB"}
AMLFS: dict[str, Any] = {"offer": "azure-managed-lustre-250", "capacity": "16 TiB"}
OWN_RATES: dict[str, Any] = {
    "limits": {"read": "4 GB/s", "write": "2 GB/s", "client": {"flow": "500 MB/s"}},
    "price": "3 USD/h",
}


def spec(section: dict[str, Any]) -> GridSpec:
    return GridSpec.model_validate(
        {
            "name": "there",
            "provider": "azure",
            "azure": {"node_price": "2 USD/h"},
            "nodes": {"compute": {"count": 4, "cores": 16}},
            "filesystems": {"shared": section},
            "libraries": {"data": {"filesystem": "shared", "requires": "10 MB/s/core"}},
        },
        context={"base": Path("/")},
    )


def predicted_by_catalogue(section: dict[str, Any]) -> Prediction:
    return predict(grid_model(spec(section), CATALOG))


@pytest.mark.parametrize(
    ("kind", "figures"),
    [(NFS, ULTRA), (LUSTRE, AMLFS), (NFS, OWN_RATES), (LUSTRE, OWN_RATES), (LUSTRE, AMLFS | OWN_RATES)],
)
def test_the_same_figures_give_the_same_rates_and_cost(kind: dict[str, Any], figures: dict[str, Any]) -> None:
    here, there = predicted_by_catalogue(MANAGED | figures), predicted_by_catalogue(kind | figures)
    rates = [
        [each.rates[op].bytes_per_s for each in one.libraries for op in ("read", "write")]
        for one in (here, there)
    ]
    assert rates[0] == rates[1]
    assert here.usd_per_hour == there.usd_per_hour is not None
    assert there.services


def test_connections_of_the_mount_are_those_of_its_flows() -> None:
    one, four = (
        predicted_by_catalogue(NFS | OWN_RATES | {"connections": count}).services[0] for count in (1, 4)
    )
    assert (one.one_client.read_bytes_per_s, four.one_client.read_bytes_per_s) == (500e6, 2000e6)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        (NFS | AMLFS, "nodes reach azure-managed-lustre-250 by lustre, and this is of type nfs"),
        (LUSTRE | ULTRA, "nodes reach azure-netapp-files-ultra by nfs, and this is of type lustre"),
        (NFS | ULTRA | {"version": "4.2"}, "speaks NFS up to 4.1, and this is 4.2: mounts would fail"),
        (LUSTRE | AMLFS | {"capacity": "20 TiB"}, "is sold in steps of 8 TiB"),
    ],
)
def test_what_an_offer_cannot_be_is_refused(section: dict[str, Any], what: str) -> None:
    with pytest.raises(GridwrightError, match=what):
        predicted_by_catalogue(section)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        (NFS | ULTRA | {"delivers": {"read": "1 GB/s"}}, "offer and limits say what it delivers"),
        (
            {**LUSTRE, **AMLFS, "oss": {"instance": "m6i.large", "count": 1}},
            "offer is of a Lustre that is a service, and oss describes servers of one's own",
        ),
        (NFS | {"storage_price": "0.3 USD/GiB/month"}, "a price by capacity, and no capacity"),
        (
            LUSTRE | {"limits": OWN_RATES["limits"] | {"separate": True, "budget": {"rate": "1 GB/s"}}},
            "not separate",
        ),
    ],
)
def test_fields_that_contradict_are_refused(section: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        spec(section)


def test_a_price_counts_where_nothing_is_known_of_rates() -> None:
    section = NFS | {
        "delivers": {"read": "2 GB/s", "write": "1 GB/s"},
        "capacity": "10 TiB",
        "price": "3 USD/h",
    }
    found = predicted_by_catalogue(section)
    assert found.usd_per_hour == pytest.approx(4 * 2 + 3)


def test_a_service_replaces_its_server_and_one_server_dies() -> None:
    filesystem = spec(NFS | ULTRA).filesystems["shared"]
    model = grid_model(spec(NFS | ULTRA), CATALOG)
    kind = kind_of(filesystem)
    assert isinstance(kind, Degradation)
    assert not kind.parts(filesystem, model.contributions["shared"])
    own = spec(NFS | OWN_RATES)
    dies = own.filesystems["shared"]
    assert kind.parts(dies, grid_model(own, CATALOG).contributions["shared"])
