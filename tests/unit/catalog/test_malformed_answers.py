"""Answers of clouds that are cut, mixed up or of other types: what can be read is kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.catalog.refresh import refresh
from gridwright.errors import GridwrightError

TYPE: Mapping[str, Any] = {
    "InstanceType": "m5n.large",
    "CurrentGeneration": True,
    "BareMetal": False,
    "BurstablePerformanceSupported": False,
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "VCpuInfo": {"DefaultVCpus": 2, "DefaultCores": 1},
    "MemoryInfo": {"SizeInMiB": 8192},
    "NetworkInfo": {
        "NetworkPerformance": "Up to 25 Gigabit",
        "NetworkCards": [{"BaselineBandwidthInGbps": 2.1, "PeakBandwidthInGbps": 25.0}],
    },
    "EbsInfo": {
        "EbsOptimizedSupport": "default",
        "EbsOptimizedInfo": {
            "BaselineThroughputInMBps": 81.25,
            "MaximumThroughputInMBps": 593.75,
            "BaselineIops": 3600,
            "MaximumIops": 18750,
        },
    },
    "InstanceStorageInfo": {
        "Disks": [{"Count": 1, "SizeInGB": 75, "Type": "ssd"}],
        "NvmeSupport": "required",
    },
    "GpuInfo": {"Gpus": [{"Count": 1}]},
}
PRODUCT: Mapping[str, Any] = {
    "product": {"attributes": {"instanceType": "m5n.large", "usagetype": "EBS:VolumeUsage.gp3"}},
    "publicationDate": "2026-11-20T00:00:00Z",
    "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "0.1"}}}}}},
}
ORACLE: Mapping[str, Any] = {
    "items": [
        {
            "partNumber": "B97384",
            "currencyCodeLocalizations": [
                {"currencyCode": "USD", "prices": [{"model": "PAY_AS_YOU_GO", "value": 0.03, "rangeMin": 0}]}
            ],
        }
    ]
}
JUNK = st.sampled_from([None, [], {}, "", "x", "nan", "1e999", -1, 0, 2.5, True, [None], {"a": 1}, '\n,"'])


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, the whole but for the root."""
    keys = (
        value.keys() if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
    )
    return [path for key in keys for path in [(*at, key), *paths(value[key], (*at, key))]]


@st.composite
def damaged(draw: st.DrawFn, whole: Mapping[str, Any]) -> Any:
    """A document with up to three places that are gone or hold something else."""
    found: Any = copy.deepcopy(dict(whole))
    for path in draw(st.lists(st.sampled_from(paths(whole)), max_size=3)):
        place = found
        for key in path[:-1]:
            try:
                place = place[key]
            except (KeyError, IndexError, TypeError):
                break
        else:
            if isinstance(place, dict) and draw(st.booleans()):
                place.pop(path[-1], None)
            elif isinstance(place, (dict, list)) and (
                isinstance(place, dict) or path[-1] in range(len(place))
            ):
                place[path[-1]] = copy.deepcopy(draw(JUNK))
    return found


class Answers:
    """A client whose pages are given."""

    def __init__(self, pages: list[Any]) -> None:
        self.pages = pages

    def get_paginator(self, _: str) -> Answers:
        return self

    def paginate(self, **_: object) -> list[Any]:
        return self.pages


texts = damaged(PRODUCT).map(json.dumps)


@given(
    types=st.lists(damaged(TYPE), max_size=2),
    products=st.lists(st.one_of(texts, texts.map(lambda text: text[:-9]), JUNK), max_size=3),
    page=st.one_of(st.none(), JUNK),
    oracle=st.one_of(damaged(ORACLE).map(json.dumps), st.just("<html>")),
)
def test_whatever_clouds_answer_is_read_or_said(
    types: list[Any], products: list[Any], page: Any, oracle: str
) -> None:
    good = {**TYPE, "InstanceType": "m5n.xlarge"}
    of_ec2 = Answers([{"InstanceTypes": [*types, good]}, page])
    of_prices = Answers([{"PriceList": [*products, json.dumps(PRODUCT)]}, page])
    with TemporaryDirectory() as name:
        out = Path(name) / "catalog.csv"
        done = refresh(
            out,
            ["us-east-1"],
            lambda service, _: of_prices if service == "pricing" else of_ec2,
            oracle=oracle.encode,
        )
        catalog = load_catalog(Path(name))
        assert catalog.instance("m5n.xlarge").cores == 1, "one bad type does not cost the others"
        assert done.types >= 1
        assert {each.name for each in Path(name).iterdir()} == {"catalog.csv", "catalog-prices.csv"}
        assert list(done.lines()), "what was not fetched is said"


@given(damaged(ORACLE).map(json.dumps))
def test_a_list_that_holds_nothing_known_is_an_error_or_nothing(oracle: str) -> None:
    with TemporaryDirectory() as name:
        try:
            done = refresh(Path(name) / "catalog.csv", [], providers=["oci"], oracle=oracle.encode)
        except GridwrightError as error:
            assert "no price list" in str(error)
        else:
            prices = load_catalog(Path(name)).prices.own_oci.values()
            assert all(price.usd >= 0 for each in prices for price in each.values())
            assert done.oracle in (0, 2)
