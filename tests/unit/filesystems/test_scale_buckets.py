"""Directories that are caches of buckets are made once, in the order that Scale takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.desired import DesiredBucket, ScaleCluster
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.order import ScaleCommand
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of


def bucket(keys: Path, name: str, **fields: str) -> DesiredBucket:
    given = {"bucket": "lake-raw", "prefix": "", "endpoint": "https://s3.example.com:8443", "region": ""}
    return DesiredBucket(filesystem="lake", fileset=name, mode="ro", keys=str(keys), **{**given, **fields})


def bring(wanted: ScaleCluster, cluster: Cluster) -> list[tuple[str, ...]]:
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done)
    return [(each.name, *each.argv[1:]) for each in done]


def test_a_gateway_then_keys_then_the_directory_and_never_again(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("access:secret\\n")
    plain = wanted_of(tmp_path, 2, 1, 1)
    wanted = replace(plain, buckets=(bucket(keys, "raw"),))
    cluster = Cluster()
    assert bring(wanted, cluster)[-3:] == [
        ("mmchnode", "--gateway", "-N", "nsd1,nsd2"),
        ("mmafmcoskeys", "lake-raw:s3.example.com", "set", "--keyfile", str(keys)),
        (
            *("mmafmcosconfig", "lake", "raw", "--endpoint", "https://s3.example.com:8443", "--object-fs"),
            *("--bucket", "lake-raw", "--mode", "ro"),
        ),
    ]
    assert bring(wanted, cluster) == []
    # Another one beside it, of a region and a prefix.
    more = bucket(keys, "out", prefix="out/a", region="eu-central-1", bucket="lake-out")
    done = bring(replace(wanted, buckets=(*wanted.buckets, more)), cluster)
    assert done[1][1] == "lake-out:eu-central-1@s3.example.com"
    assert done[2][4] == "https://eu-central-1@s3.example.com:8443"
    assert done[2][-4:] == ("--prefix", "out/a", "--mode", "ro")
    assert set(cluster.filesets) == {"raw", "out"}
    assert not any("secret" in word for call in cluster.calls for word in call)
    # It left the spec: what is cached stays.
    assert bring(plain, cluster) == []
    assert set(cluster.filesets) == {"raw", "out"}


def test_what_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    plain, cluster = wanted_of(tmp_path, 1, 1, 1), Cluster()
    bring(plain, cluster)
    wanted = replace(plain, buckets=(bucket(tmp_path / "keys", "raw"),))
    found = run(wanted, InProcess(cluster), [], check=True)
    assert [each.name for each in found.commands] == ["mmchnode", "mmafmcoskeys", "mmafmcosconfig"]
    assert cluster.filesets == {}


def test_a_file_of_keys_that_is_none_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("nothing")
    wanted = replace(wanted_of(tmp_path, 1, 1, 1), buckets=(bucket(keys, "raw"),))
    with pytest.raises(ScaleError, match="the keys of bucket lake-raw"):
        bring(wanted, Cluster())
