"""NFS and Lustre of a service: an offer or limits give them the rates and costs that `managed` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.capabilities import Degradation
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.model.prediction import Prediction
from gridwright.spec.model import GridSpec

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
OWN: dict[str, Any] = {
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


def predicted(section: dict[str, Any]) -> Prediction:
    return predict(grid_model(spec(section), CATALOG))


@pytest.mark.parametrize(
    ("kind", "figures"), [(NFS, ULTRA), (LUSTRE, AMLFS), (NFS, OWN), (LUSTRE, OWN), (LUSTRE, AMLFS | OWN)]
)
def test_the_same_figures_give_the_same_rates_and_cost(kind: dict[str, Any], figures: dict[str, Any]) -> None:
    here, there = predicted(MANAGED | figures), predicted(kind | figures)
    rates = [
        [each.rates[op].bytes_per_s for each in one.libraries for op in ("read", "write")]
        for one in (here, there)
    ]
    assert rates[0] == rates[1]
    assert here.usd_per_hour == there.usd_per_hour is not None
    assert there.services


def test_connections_of_the_mount_are_those_of_its_flows() -> None:
    one, four = (predicted(NFS | OWN | {"connections": count}).services[0] for count in (1, 4))
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
        predicted(section)


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
            LUSTRE | {"limits": OWN["limits"] | {"separate": True, "budget": {"rate": "1 GB/s"}}},
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
    found = predicted(section)
    assert found.usd_per_hour == pytest.approx(4 * 2 + 3)


def test_a_service_replaces_its_server_and_one_server_dies() -> None:
    filesystem = spec(NFS | ULTRA).filesystems["shared"]
    model = grid_model(spec(NFS | ULTRA), CATALOG)
    kind = kind_of(filesystem)
    assert isinstance(kind, Degradation)
    assert not kind.parts(filesystem, model.contributions["shared"])
    own = spec(NFS | OWN)
    dies = own.filesystems["shared"]
    assert kind.parts(dies, grid_model(own, CATALOG).contributions["shared"])
