"""What a machine reads and runs: labels, volumes, the claim file, and what AWS says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.lustre_targets import (
    BLANK,
    FOREIGN,
    TARGET,
    UNCLEAR,
    UNREADABLE,
    ClaimError,
    DesiredTarget,
    ManagementSilentError,
    device_of,
    format_command,
    lustre_label,
)
from gridwright.node_programs.scratch.disks import Content, inspect
from gridwright.providers.aws.claim.configuration import parse_configuration
from gridwright.providers.aws.claim.deciding import device_name
from gridwright.providers.aws.claim.this_machine import ThisMachine, explained
from tests.support.skips import needs

MIB = 1 << 20


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("MGS", ("MGS", True)),
        ("shared:OST0003", ("shared-OST0003", False)),
        ("shared-OST0003", ("shared-OST0003", True)),
        ("shared=MDT0000", ("shared-MDT0000", True)),
        ("payroll", None),
        ("", None),
        ("shared-OST3", None),
    ],
)
def test_labels_of_targets_are_read(label: str, found: tuple[str, bool] | None) -> None:
    assert lustre_label(label) == found


def volume(tmp_path: Path, *mkfs: str) -> str:
    path = tmp_path / "volume"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    if mkfs:
        needs(mkfs[0])
        subprocess.run([*mkfs, str(path)], check=True, capture_output=True)
    return str(path)


@pytest.mark.parametrize("features", ["", "^extents,^64bit"])
def test_real_file_systems_with_labels_of_targets_are_targets(tmp_path: Path, features: str) -> None:
    """A metadata target is made without extents, so that it is no ext4 to who looks at features."""
    path = volume(tmp_path, "mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-L", "shared:MDT0000")
    device = device_of(path, inspect(path))
    assert (device.holds, device.label, device.registered) == (TARGET, "shared-MDT0000", False)


@pytest.mark.parametrize(
    ("mkfs", "said"),
    [
        (("mke2fs", "-q", "-F", "-t", "ext4", "-L", "payroll"), "ext4 labelled 'payroll'"),
        (("mkswap",), "swap"),
    ],
)
def test_real_file_systems_of_others_are_foreign(tmp_path: Path, mkfs: tuple[str, ...], said: str) -> None:
    path = volume(tmp_path, *mkfs)
    device = device_of(path, inspect(path))
    assert device.holds == FOREIGN
    assert said in device.what


def test_zeros_are_blank_and_bytes_without_a_signature_are_not(tmp_path: Path) -> None:
    path = volume(tmp_path)
    assert device_of(path, inspect(path)).holds == BLANK
    with Path(path).open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"a database without a signature")
    assert device_of(path, inspect(path)).holds == UNCLEAR


def test_what_cannot_be_read_or_is_in_use_is_not_blank() -> None:
    assert device_of("/dev/x", Content(error="Input/output error")).holds == UNREADABLE
    assert device_of("/dev/x", Content(zero_ends=True, busy=True)).holds == FOREIGN


def target(kind: str, index: int = 0, with_mgt: bool = False) -> DesiredTarget:
    return DesiredTarget("x", kind, index, "shared", with_mgt, Path("/srv/x"))


@pytest.mark.parametrize(
    ("configuration", "mgs", "arguments"),
    [
        (target("mgt"), None, "--mgs"),
        (target("mdt", with_mgt=True), None, "--mgs --mdt --fsname=shared --index=0"),
        (target("mdt", 1), "10.0.0.1@tcp", "--mdt --fsname=shared --index=1 --mgsnode=10.0.0.1@tcp"),
        (target("ost", 17), "10.0.0.1@tcp", "--ost --fsname=shared --index=17 --mgsnode=10.0.0.1@tcp"),
    ],
)
def test_targets_are_formatted_as_what_they_are(
    configuration: DesiredTarget, mgs: str | None, arguments: str
) -> None:
    argv = format_command("/dev/nvme1n1", configuration, mgs)
    assert " ".join(argv) == f"mkfs.lustre --backfstype=ldiskfs {arguments} /dev/nvme1n1"


def test_each_volume_of_a_server_has_a_device_name_of_its_own() -> None:
    names = [device_name(number) for number in range(60)]
    assert len(set(names)) == 60
    assert names[0] == "/dev/sdf"
    assert names[10:12] == ["/dev/sdp", "/dev/xvdba"]


def claim_file(**changes: Any) -> dict[str, Any]:
    one = {"name": "shared-OST0000", "kind": "ost", "index": 0, "fsname": "shared", "mount": "/srv/a"}
    slot = {"name": "shared-oss1", "address": "10.20.64.11", "targets": [one]}
    return {
        **{"schema": 1, "grid": "demo", "region": "us-east-1", "table": "gridwright-demo-claims"},
        **{"role": "oss", "mgs": "10.20.64.10@tcp", "slots": [slot]},
        **changes,
    }


def test_targets_are_taken_up_in_the_order_in_which_they_need_each_other() -> None:
    names = (("shared-OST0000", "ost", 0), ("shared-MDT0001", "mdt", 1), ("MGS", "mgt", 0))
    given = [
        {"name": name, "kind": kind, "index": index, "fsname": "shared", "mount": f"/srv/{name}"}
        for name, kind, index in names
    ]
    slot = {"name": "a", "address": "10.20.64.11", "targets": given}
    (read,) = parse_configuration(claim_file(slots=[slot])).slots
    assert [each.name for each in read.targets] == ["MGS", "shared-MDT0001", "shared-OST0000"]


def test_all_that_is_wrong_with_a_claim_file_is_told_at_once() -> None:
    slot = claim_file()["slots"][0]
    wrong = claim_file(
        role="king", mgs="somewhere", slots=[slot, {**slot, "address": "10.20.64.300"}], more=1
    )
    with pytest.raises(ClaimError) as error:
        parse_configuration(wrong)
    assert error.value.status == 2
    said = str(error.value)
    for each in (
        '"king"',
        '"somewhere"',
        "slots[1].address",
        '"more"',
        "slots: name",
        "slots: targets: name",
    ):
        assert each in said
    assert len(error.value.troubles) >= 6


def test_a_target_without_a_way_to_its_management_server_is_refused() -> None:
    with pytest.raises(ClaimError, match="the management server of the targets of shared-oss1"):
        parse_configuration(claim_file(mgs=None))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(claim_file())), json_values)
def test_whatever_stands_in_a_claim_file_is_read_or_refused(key: str, value: object) -> None:
    try:
        parse_configuration(json.loads(json.dumps(claim_file(**{key: value}))))
    except ClaimError as error:
        assert error.status == 2


def client_error(code: str, said: str = "said by AWS") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": said}}, "UpdateItem")


@pytest.mark.parametrize(
    ("error", "what", "remedy"),
    [
        (client_error("AccessDeniedException"), "may not call UpdateItem", "its role has to allow that"),
        (client_error("UnauthorizedOperation"), "may not call UpdateItem", "its role has to allow that"),
        (client_error("ResourceNotFoundException"), "table-of-claims, is not there", "gridwright up"),
        (client_error("ExpiredTokenException"), "does not take the credentials", "clock"),
        (client_error("ThrottlingException"), "AWS answers ThrottlingException", "no more requests through"),
        (client_error("AttachmentLimitExceeded"), "said by AWS", "more volumes can be attached"),
        (client_error("InternalError"), "AWS answers InternalError: said by AWS", "mend what it says"),
        (NoCredentialsError(), "there are no credentials", "instance profile"),
        (EndpointConnectionError(endpoint_url="https://ec2"), "Could not connect", "NAT gateway"),
    ],
)
def test_what_aws_says_leads_on(error: Exception, what: str, remedy: str) -> None:
    trouble = explained(error, "slot shared-oss1", "table-of-claims")
    assert trouble.what.startswith("slot shared-oss1: ")
    assert what in trouble.what
    assert trouble.remedy is not None
    assert remedy in trouble.remedy


def this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> ThisMachine:
    """This machine, with these programs before its own."""
    for name, text in commands.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return object.__new__(ThisMachine)


@pytest.mark.parametrize(
    ("failing", "recorded", "said"),
    [
        # What mkfs.lustre and tunefs.lustre 2.17.0 print with Debian's mke2fs, and without their plug-in.
        (
            "mkfs.lustre",
            "mkfs.lustre FATAL: Unable to build fs /dev/loop1 (256)\n\nmkfs.lustre FATAL: mkfs failed 256\n\n"
            "   Permanent disk data:\nTarget:     trial:MDT0000\n\tkilobytes     65536\n"
            "   Invalid filesystem option set: uninit_bg,extents,dirdata,dir_nlink,quota",
            "mkfs.lustre FATAL: Unable to build fs /dev/loop1 (256); mkfs.lustre FATAL: mkfs failed 256; "
            "Invalid filesystem option set: uninit_bg,extents,dirdata,dir_nlink,quota",
        ),
        (
            "tunefs.lustre",
            "\ntunefs.lustre FATAL: Device t has not been formatted with mkfs.lustre\n"
            "tunefs.lustre: exiting with 19 (No such device)\nchecking for existing Lustre data: not found",
            "tunefs.lustre FATAL: Device t has not been formatted with mkfs.lustre; "
            "checking for existing Lustre data: not found",
        ),
    ],
)
def test_the_tool_that_cannot_make_or_read_a_target_says_why(
    failing: str, recorded: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = {"mkfs.lustre": "exit 0", "tunefs.lustre": "exit 0"}
    assert this_machine(tmp_path, monkeypatch, **tools).cannot_make("mdt") is None
    (tmp_path / "recorded").write_text(recorded)
    tools[failing] = f"cat {tmp_path}/recorded; exit 1"
    assert this_machine(tmp_path, monkeypatch, **tools).cannot_make("mdt") == said


@pytest.mark.parametrize(
    ("status", "said", "silent"),
    [
        # As recorded in 730b-err-mount-wrong-nid-full of a client: status and text.
        (110, "mount.lustre: mount /dev/sdf at /srv/target failed: Connection timed out", True),
        (
            5,
            "mount.lustre: mount /dev/sdf at /srv/target failed: Input/output error\nIs the MGS running?",
            True,
        ),
        (17, "mount.lustre: mount /dev/sdf at /srv/target failed: File exists", False),
    ],
)
def test_a_mount_that_finds_no_management_server_is_told_from_others(
    status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    target = DesiredTarget("shared-OST0000", "ost", 0, "shared", False, tmp_path / "target")
    machine = this_machine(tmp_path, monkeypatch, mount=f"printf '%s\\n' '{said}' >&2; exit {status}")
    with pytest.raises(ClaimError, match=f"ended with status {status}") as caught:
        machine.mount("/dev/sdf", target)
    assert isinstance(caught.value, ManagementSilentError) is silent
