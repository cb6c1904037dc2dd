"""Which kernel a node is to start for its Lustre client, what GRUB calls it, and what is held then."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gridwright.filesystems import lustre_client
from gridwright.filesystems.lustre_client.client import values

ROLE = Path(lustre_client.__file__).parent / "roles" / "lustre_client"
MENU = (Path(__file__).parents[2] / "fixtures" / "lustre" / "grub.cfg").read_text()
"""As grub-mkconfig of GRUB 2.06 wrote it for three kernels."""
UUID = "0f4c6d12-1b1f-4f8e-9d3a-3f6a2b7c9e10"
# As apt-cache search prints it: AWS has modules for kernels of Ubuntu 24.04 up to 6.17, the image has 7.0,
# and the archive of Ubuntu has let go of most kernels.
LISTED = """\
linux-image-6.17.0-1019-aws - Signed kernel image AWS
linux-image-6.8.0-1057-aws - Signed kernel image AWS
linux-image-6.8.0-1063-aws - Signed kernel image AWS
linux-image-7.0.0-1012-aws - Signed kernel image AWS
linux-image-6.17.0-1020-generic - Signed kernel image generic
lustre-client-modules-6.8.0-1009-aws - Lustre Linux kernel module (kernel 6.8.0-1009-aws)
lustre-client-modules-6.8.0-1057-aws - Lustre Linux kernel module (kernel 6.8.0-1057-aws)
lustre-client-modules-6.14.0-1018-aws - Lustre Linux kernel module (kernel 6.14.0-1018-aws)
lustre-client-modules-6.17.0-1019-aws - Lustre Linux kernel module (kernel 6.17.0-1019-aws)
lustre-client-modules-6.17.0-1021-aws-64k - Lustre Linux kernel module (kernel 6.17.0-1021-aws-64k)
lustre-client-modules-6.17.0-1020-generic - Lustre Linux kernel module (kernel 6.17.0-1020-generic)
"""


def load() -> ModuleType:
    path = ROLE / "filter_plugins" / "gridwright_kernels.py"
    specification = importlib.util.spec_from_file_location("gridwright_kernels", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


FILTERS = load()


@pytest.mark.parametrize(
    ("running", "wanted"),
    [
        # Its own module is best, whatever newer ones there are.
        ("6.8.0-1057-aws", "6.8.0-1057-aws"),
        # That of the same series is older than the newest one.
        ("6.8.0-1063-aws", "6.17.0-1019-aws"),
        ("7.0.0-1012-aws", "6.17.0-1019-aws"),
        # Another page size or platform is another kernel, also where it is newer.
        ("7.0.0-1012-aws-64k", ""),
        ("7.0.0-1001-generic", "6.17.0-1020-generic"),
        ("6.1.0-28-cloud-amd64", ""),
        # A kernel that somebody built is of no flavour.
        ("6.17.0", ""),
    ],
)
def test_the_kernel_is_the_newest_that_can_be_installed_with_its_module(running: str, wanted: str) -> None:
    assert FILTERS.lustre_kernel(LISTED, running) == wanted


def test_numbers_of_kernels_are_compared_and_not_their_letters() -> None:
    listed = "".join(
        f"{each}-6.8.0-{number}-aws\n"
        for number in (999, 1000)
        for each in ("linux-image", "lustre-client-modules")
    )
    assert FILTERS.lustre_kernel(listed, "6.8.0-1063-aws") == "6.8.0-1000-aws"
    listed = listed.replace("6.8.0-999", "6.17.0-3")
    assert FILTERS.lustre_kernel(listed, "6.8.0-1063-aws") == "6.17.0-3-aws"


@pytest.mark.parametrize("listed", ["", "linux-image-6.8.0-1057-aws - Signed kernel image AWS\n"])
def test_an_archive_without_modules_offers_none(listed: str) -> None:
    assert FILTERS.lustre_kernel(listed, "7.0.0-1012-aws") == ""


def test_a_module_whose_kernel_the_archive_let_go_of_is_no_way_out() -> None:
    listed = LISTED.replace("linux-image-6.17.0-1019-aws", "linux-image-unsigned-6.17.0-1019-aws")
    assert FILTERS.lustre_kernel(listed, "7.0.0-1012-aws") == "6.8.0-1057-aws"


def test_an_entry_of_grub_is_named_from_its_menu_on() -> None:
    found = FILTERS.boot_entry(MENU, "6.17.0-1019-aws")
    assert found == f"gnulinux-advanced-{UUID}>gnulinux-6.17.0-1019-aws-advanced-{UUID}"
    # 6.8.0-105 begins like 6.8.0-1057, and a recovery mode is none to start.
    for other in ("6.8.0-105", "6.17.0-1018-aws", ""):
        assert FILTERS.boot_entry(MENU, other) == ""
    recovery = MENU.replace("gnulinux-6.17.0-1019-aws-advanced", "gnulinux-6.17.0-1019-aws-other")
    assert FILTERS.boot_entry(recovery, "6.17.0-1019-aws") == ""
    flat = "\n".join(each.lstrip("\t") for each in MENU.splitlines() if not each.startswith("submenu"))
    assert FILTERS.boot_entry(flat, "6.8.0-1057-aws") == f"gnulinux-6.8.0-1057-aws-advanced-{UUID}"


def test_what_brings_another_kernel_is_held_and_nothing_else() -> None:
    listed = """\
ii  linux-aws
ii  linux-base
ii  linux-firmware
ii  linux-headers-aws
hi  linux-image-aws
ii  linux-image-6.8.0-1057-aws
ii  linux-image-7.0.0-1012-aws
rc  linux-image-6.8.0-1009-aws
un  linux-image-generic
ii  linux-libc-dev
ii  linux-modules-6.8.0-1057-aws
ii  linux-tools-common
ii  lustre-client-modules-6.8.0-1057-aws:amd64
ii  lustre-client-modules-aws
ii  lustre-client-utils
"""
    assert FILTERS.kernel_packages(listed, "6.8.0-1057-aws") == [
        *("linux-aws", "linux-headers-aws", "linux-image-6.8.0-1057-aws", "linux-image-aws"),
        *("linux-modules-6.8.0-1057-aws", "lustre-client-modules-6.8.0-1057-aws"),
        "lustre-client-modules-aws",
    ]
    debian = "ii  linux-image-cloud-amd64\nii  linux-image-amd64\nii  linux-image-6.1.0-28-cloud-amd64\n"
    assert FILTERS.kernel_packages(debian, "6.1.0-28-cloud-amd64") == [
        *("linux-image-6.1.0-28-cloud-amd64", "linux-image-cloud-amd64")
    ]


def test_a_newer_kernel_that_is_installed_is_seen() -> None:
    listed = """\
ii  linux-image-6.8.0-999-aws
ii  linux-image-6.8.0-1057-aws
hi  linux-image-unsigned-6.8.0-1063-aws
ii  linux-image-6.17.0-3-generic
rc  linux-image-7.0.0-1012-aws
ii  linux-image-aws
"""
    found = FILTERS.newer_kernels(listed, "6.8.0-1057-aws")
    assert found == ["6.17.0-3-generic", "6.8.0-1063-aws"]
    assert FILTERS.newer_kernels(listed, "6.17.0-3-generic") == []


KERNELS = "kernel kernel-core kernel-modules kernel-modules-core kernel-modules-extra kernel6.*"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[main]\ngpgcheck=1\n", f"[main]\nexcludepkgs={KERNELS}\ngpgcheck=1\n"),
        ("", f"[main]\nexcludepkgs={KERNELS}\n"),
        ("[main]\nexclude=java*\ngpgcheck=1\n", f"[main]\nexclude=java* {KERNELS}\ngpgcheck=1\n"),
        # Values go on in lines that begin with blanks (dnf.conf(5)), and may have commas.
        (
            "[main]\nexcludepkgs = java*,\n  kernel\nbest=True\n",
            f"[main]\nexcludepkgs=java* {KERNELS}\nbest=True\n",
        ),
    ],
)
def test_dnf_leaves_the_kernel_out_beside_what_a_site_leaves_out(before: str, after: str) -> None:
    assert FILTERS.dnf_left_out(before) == after
    assert FILTERS.dnf_left_out(after) == after
    without = FILTERS.dnf_left_out(after, hold=False)
    assert "kernel" not in without
    assert ("java*" in without) is ("java*" in before)
    assert FILTERS.dnf_left_out(without, hold=False) == without


# Parameters of Lustre as rows of the tuning table are held against them.


def test_values_are_put_together_without_the_servers_own_connections() -> None:
    printed = (
        "osc.scratch-OST0000-osc-ffff9d.max_dirty_mb=467\n"
        "osc.scratch-OST0001-osc-ffff9d.max_dirty_mb=256\n"
        "osc.scratch-OST0000-osc-MDT0000.max_dirty_mb=32\n"
    )
    assert values(printed) == "256, 467"
    assert values("") is None
