"""Each finding appears when it should, names both cause and remedy, and can be silenced."""

from pathlib import Path

import pytest

from gridwright.errors import Finding
from gridwright.spec import all_findings, parse_spec, unsilenced, warn
from gridwright.spec.findings import KNOWN
from gridwright.spec.warnings import published_requirements

FULL = (
    "filesystems:\n  fast: {type: local, path: %s}\n  slow: {type: local, path: %s}\n"
    "libraries:\n  data: {filesystem: slow, requires: %s}\n"
    "  work: {filesystem: fast, requires: 125 MB/s/core}\n  util: {filesystem: %s, requires: 125 MB/s/core}\n"
)
THIRD = (
    "filesystems:\n  a: {type: local, path: /a}\n  b: {type: local, path: /b}\n  c: {type: local, path: /c}\n"
)
QUIET = THIRD + (
    "libraries:\n  data: {filesystem: a, requires: 100 MB/s/core}\n"
    "  work: {filesystem: b, requires: 125 MB/s/core}\n  util: {filesystem: c, requires: 125 MB/s/core}\n"
)
CLOUD = (
    "provider: aws\nregion: us-east-1\nnodes: {compute: {instance: m5n.8xlarge}}\n"
    "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], owner: us, expires: 2030-01-01,"
    " images: {storage: ami-0123456789abcdef0}}\nscheduler: {type: slurm}\nfilesystems:\n"
    "  lustre: {type: lustre, path: /lustre, oss: {instance: m6i.large, disks: {type: gp3, count: 4}},"
    " mds: {instance: m6i.large, disks: {type: gp3}}}\n"
    "  fsx: {type: fsx-lustre, path: /fsx, capacity: 4800 GiB}\n"
    "  own: {type: local, path: /own, disks: {type: instance-store}}\n"
    "libraries:\n  data: {filesystem: fsx, requires: 100 MB/s/core}\n"
    "  work: {filesystem: lustre, requires: 125 MB/s/core}\n"
    "  util: {filesystem: own, requires: 125 MB/s/core}\n"
)
ORACLE = (
    "provider: oci\nregion: us-ashburn-1\nnodes: {compute: {instance: VM.Standard.E5.Flex(24)}}\n"
    "oci: {compartment: ocid1.compartment.oc1..aaaa, ssh_from: [203.0.113.0/24],"
    " ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKeyThatOpensNothing00000000000 us}\n"
    "filesystems:\n  lake: {type: oci-lustre, path: /lake, name: lake, capacity: 41.6 TB}\n"
    "libraries:\n  data: {filesystem: lake, requires: 100 MB/s/core}\n"
)
SCRATCH = CLOUD.replace("capacity: 4800 GiB", "capacity: 4800 GiB, deployment: scratch-2")
KEY = "kms_key: arn:aws:kms:us-east-1:111122223333:key/11111111-2222-3333-4444-555555555555"


def _nfs(servers: str, addresses: str) -> str:
    """A site whose Scale exports by NFS."""
    return (
        "provider: site\nsite: {head: login1}\nscheduler: {type: slurm}\nnodes: {compute: {hosts: c1}}\n"
        "filesystems:\n  lake: {type: scale, path: /gpfs/lake, pairs: [{servers: [nsd1, nsd2], disks: "
        f"[/dev/mapper/lake1]}}], nfs: {{servers: {servers}, addresses: {addresses}}}}}\n"
        "libraries:\n  data: {filesystem: lake, requires: 100 MB/s/core}\n"
    )


# Name of a finding, and a spec that has it.
HURTS = {
    "shared-disks": FULL % ("/fast", "/slow", "100 MB/s/core", "fast"),
    "no-requirement": QUIET.replace(", requires: 100 MB/s/core", ""),
    "unused-filesystem": QUIET.replace("filesystem: c", "filesystem: b"),
    "unusual-requirement": QUIET.replace("100 MB/s/core", "10 MB/s/core"),
    "missing-library": THIRD + "libraries:\n  work: {filesystem: a}\n",
    "overlapping-filesystems": QUIET.replace("path: /b", "path: /a/b"),
    "volatile-directory": QUIET.replace("path: /a", "path: /dev/shm/a"),
    "no-metadata-server": QUIET.replace(
        "a: {type: local, path: /a}", "a: {type: lustre, path: /a, oss: {instance: c5n.9xlarge}}"
    ),
    "managed-not-mounted": CLOUD.replace(
        "type: fsx-lustre, path: /fsx, capacity: 4800 GiB",
        "type: managed, path: /fsx, limits: {read: 4 GB/s, write: 2 GB/s}",
    ),
    "metadata-none": CLOUD.replace("4800 GiB", "4800 GiB, metadata: none"),
    "data-on-scratch": SCRATCH,
    "account-limit": CLOUD.replace("4800 GiB", "103200 GiB"),
    "key-not-used": SCRATCH.replace("owner: us", f"owner: us, {KEY}"),
    "no-server-image": CLOUD.replace(" images: {storage: ami-0123456789abcdef0}", ""),
    "distribution-without-image": CLOUD.replace("images: {", "images: {distribution: rocky-9, "),
    "no-scheduler-repository": CLOUD.replace(
        "images: {", "images: {compute: ami-0123456789abcdef1, distribution: amzn-2023, "
    ),
    "no-client-packages": ORACLE,
    "server-on-credits": CLOUD.replace("mds: {instance: m6i.large", "mds: {instance: t3.large"),
    "root-not-squashed": CLOUD.replace("type: lustre, path", "type: lustre, root_squash: none, path"),
    "volumes-not-made": CLOUD.replace("{type: instance-store}", "{type: gp3, size: 1 TiB}"),
    "no-owner": CLOUD.replace(" owner: us,", ""),
    "no-scheduler": CLOUD.replace("{type: slurm}", "{type: local}"),
    "scale-nfs-one-server": _nfs("[ces1]", "[10.1.0.51]"),
    "scale-nfs-few-addresses": _nfs("[ces1, ces2]", "[10.1.0.51]"),
    "scale-nfs-no-package": _nfs("[ces1, ces2]", "[10.1.0.51, 10.1.0.52]").replace(
        "nfs: {", "packages: [{path: gpfs.base-5.2.3-1.x86_64.rpm}], nfs: {"
    ),
    "scale-nfs-on-disk-servers": _nfs("[nsd1, nsd2]", "[10.1.0.51, 10.1.0.52]"),
    "scale-pool-unused": ORACLE.replace(
        "type: oci-lustre, path: /lake, name: lake, capacity: 41.6 TB",
        "type: scale, path: /lake, nsd: {instance: BM.Optimized3.36, count: 2, disks: {type: balanced, "
        "size: 1 TiB}}, pools: {archive: {disks: {type: lower-cost, size: 4 TiB}}}",
    ),
    "proxy-outside": CLOUD.replace("owner: us", "owner: us, proxy: 'http://10.30.0.5:3128'"),
}


def names(text: str) -> list[str]:
    return [finding.name for finding in warn(parse_spec(text, base=Path("/base")))]


def test_a_good_spec_has_no_findings() -> None:
    assert names(QUIET) == []


def test_a_good_spec_of_a_cloud_has_none_either() -> None:
    assert names(CLOUD) == []
    inside = CLOUD.replace("owner: us", "owner: us, proxy: 'http://10.20.0.5:3128'")
    assert names(inside) == [], "the proxy is within the grid's own network"
    moved = SCRATCH.replace("data: {filesystem: fsx", "data: {filesystem: lustre")
    assert "data-on-scratch" not in names(
        moved.replace("work: {filesystem: lustre", "work: {filesystem: fsx")
    )


def test_every_finding_of_the_room_has_a_sample() -> None:
    import csv

    import gridwright.spec

    rows = csv.DictReader(
        (Path(gridwright.spec.__file__).parent / "data/findings.csv").read_text().splitlines()
    )
    assert {row["name"] for row in rows if row["room"] == "spec"} == set(HURTS)


@pytest.mark.parametrize("name", HURTS)
def test_it_is_found_and_can_be_silenced(name: str) -> None:
    assert name in KNOWN
    assert name in names(HURTS[name])
    silenced = HURTS[name] + f"silence:\n  {name}: this is a test\n"
    assert name not in names(silenced)
    assert name in [each.name for each in all_findings(parse_spec(silenced))]


@pytest.mark.parametrize("data", ["100 MB/s/core", "75 MB/s/core"])
@pytest.mark.parametrize(
    ("requirements", "says"),
    [
        ("", "must deliver 125 MB/s/core, what the fastest of them requires alone"),
        (
            "requirements: {cores: 1, peak_factor: 0.8}\n",
            "must deliver 200 MB/s/core, 0.8 of the sum of their rates: they do not all peak together",
        ),
        (
            "requirements: {cores: 1, peak_factor: 1}\n",
            "must deliver 250 MB/s/core, 1 of the sum of their rates: all may peak together",
        ),
    ],
)
def test_shared_disks_reckons_with_those_that_share_and_the_peak_factor(
    data: str, requirements: str, says: str
) -> None:
    spec = parse_spec(FULL % ("/fast", "/slow", data, "fast") + requirements)
    (finding,) = warn(spec)
    assert "libraries work and util share file system fast" in finding.text
    assert says in finding.text


def test_shared_disks_reckons_with_all_three() -> None:
    (finding,) = [
        each
        for each in warn(
            parse_spec(
                FULL.replace("filesystem: fast", "filesystem: slow") % ("/f", "/s", "175 MB/s/core", "slow")
                + "requirements: {cores: 1, peak_factor: 0.6}\n"
            )
        )
        if each.name == "shared-disks"
    ]
    assert "libraries data, work and util share file system slow" in finding.text
    assert "255 MB/s/core" in finding.text


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        ("10 MB/s/core", "below"),
        ("37 MB/s/core", "below"),
        ("38 MB/s/core", ""),
        ("400 MB/s/core", ""),
        ("401 MB/s/core", "above"),
    ],
)
def test_unusual_requirements(rate: str, word: str) -> None:
    found = warn(parse_spec(QUIET.replace("100 MB/s/core", rate)))
    assert len(found) == bool(word)
    for finding in found:
        assert f"requires {rate}, far {word} the published 75 MB/s/core to 100 MB/s/core" in finding.text
        assert "4632-2020" in finding.text


def test_published_figures_have_a_source_and_a_date() -> None:
    published = published_requirements()
    assert set(published) == {"data", "work", "util"}
    assert all(each.source and each.published.isdigit() for each in published.values())


def test_an_error_cannot_be_silenced() -> None:
    error = Finding("error", "shared-disks", "text", "remedy")
    warning = Finding("warning", "shared-disks", "text", "remedy")
    assert unsilenced([error, warning], {"shared-disks": "reason"}) == [error]


def test_warnings_need_no_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(*_: object, **__: object) -> None:
        raise AssertionError("the file system was asked")

    monkeypatch.setattr(Path, "stat", touch)
    monkeypatch.setattr(Path, "exists", touch)
    warn(parse_spec(HURTS["volatile-directory"], base=Path("/base")))
