"""The kernel that a node starts next: files of nodes as they stand, and what tries to mislead the check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.doctor.check import CheckResult
from gridwright.doctor.facts.kernels import kernels, next_kernel, version_key
from gridwright.messages import plain
from tests.support.doctor_grid import MACHINES, grid, machine, mount, results

OLD, NEW = "6.8.0-1057-aws", "7.0.0-1012-aws"
MENU = (Path(__file__).parents[2] / "fixtures" / "lustre" / "grub.cfg").read_text()
HEADER = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="{default}"
fi
"""
UUID = "0f4c6d12-1b1f-4f8e-9d3a-3f6a2b7c9e10"
AT_OLD = f"gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}"
DPKG = """\
Package: linux-image-aws
Status: {state} ok installed
Version: 7.0.0-1012.12
Depends: linux-image-7.0.0-1012-aws, linux-firmware

Package: linux-aws
Status: install ok installed
Depends: linux-image-aws (= 7.0.0-1012.12), linux-headers-aws (= 7.0.0-1012.12)

Package: lustre-client-modules-6.8.0-1057-aws
Status: install ok installed
Depends: linux-image-6.8.0-1057-aws

Package: linux-image-generic
Status: deinstall ok config-files
Depends: linux-image-6.8.0-63-generic
"""


class Disk:
    """A node's files, below a directory of the test's own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file("proc/filesystems", "nodev\tsysfs\nnodev\tlustre\n\text4\n\txfs\nnodev\tnfs4\n")
        for loaded in ("lustre", "xfs"):
            self.file(f"sys/module/{loaded}/initstate", "live\n")
        self.file("proc/sys/kernel/osrelease", f"{OLD}\n")
        # Built into the kernel: it has parameters below /sys/module, and no state.
        self.file("sys/module/ext4/parameters/x", "1\n")

    def file(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def kernel(self, release: str, *modules: str, there: bool = True, image: bool = True) -> None:
        listed = [*modules, "kernel/fs/xfs/xfs.ko.zst"]
        self.file(f"lib/modules/{release}/modules.dep", "".join(f"{each}: a.ko\n" for each in listed))
        self.file(f"lib/modules/{release}/modules.builtin", "kernel/fs/ext4/ext4.ko\n")
        for each in listed if there else []:
            self.file(f"lib/modules/{release}/{each}")
        if image:
            self.file(f"boot/vmlinuz-{release}")

    def starts(self, default: str, **environment: str) -> None:
        self.file("boot/grub/grub.cfg", HEADER.format(default=default) + MENU)
        self.file("boot/grub/grubenv", "".join(f"{name}={value}\n" for name, value in environment.items()))

    def seen(self, running: str = OLD, **more: Any) -> dict[str, CheckResult]:
        """Results of the two checks on a node with these files."""
        facts = plain(kernels(self.root))
        system = {"kernel": running, "architecture": "x86_64"}
        one = machine("compute1", kernels=facts, system=system, **more)
        wanted = ("client-lost-at-restart", "kernel-not-held")
        return {each.name: each for each in results(grid(one, spec=MACHINES)) if each.name in wanted}

    def lost(self, **more: Any) -> CheckResult:
        return self.seen(**more)["client-lost-at-restart"]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path)
    made.kernel(OLD, "updates/kernel/fs/lustre/lustre.ko")
    return made


def test_a_newer_kernel_without_the_module_is_named_before_it_starts(disk: Disk) -> None:
    assert disk.lost().ok
    disk.kernel(NEW)
    disk.starts("0")
    disk.file("run/reboot-required", "*** System restart required ***\n")
    found = disk.lost()
    assert not found.ok
    assert found.level == "warning"
    assert found.found == f"{NEW} starts next without module lustre; a restart is asked for already"


def test_a_newer_kernel_that_is_not_started_is_none_of_its_business(disk: Disk) -> None:
    disk.kernel(NEW)
    disk.starts(AT_OLD)
    assert disk.lost().found == f"{OLD} starts next and has ext4, lustre, xfs"
    # Saved by grub-set-default; and once only, by grub-reboot.
    disk.starts("${saved_entry}", saved_entry=AT_OLD)
    assert disk.lost().ok
    disk.starts("${saved_entry}", saved_entry=AT_OLD, next_entry="0")
    assert not disk.lost().ok
    # Entries by their numbers, and by their titles.
    disk.starts("1>4")
    assert disk.lost().ok
    disk.starts(f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}")
    assert disk.lost().ok


def test_where_the_menu_cannot_be_read_the_newest_kernel_is_taken(disk: Disk) -> None:
    disk.kernel(NEW)
    found = disk.lost()
    assert not found.ok
    assert "taken for it since it is the newest (it has no GRUB)" in found.found
    disk.starts("gnulinux-of-another-machine")
    assert "which its menu does not have" in disk.lost().found


@pytest.mark.parametrize(
    "module",
    [
        "extra/lustre-client/fs/lustre.ko.xz",
        "updates/dkms/lustre.ko.zst",
        "updates/kernel/fs/lustre/lustre.ko.gz",
        "lustre.ko",
    ],
)
def test_modules_are_found_wherever_they_are_and_however_they_are_packed(disk: Disk, module: str) -> None:
    disk.kernel(NEW, module)
    disk.starts("0")
    assert disk.lost().found == f"{NEW} starts next and has ext4, lustre, xfs"


@pytest.mark.parametrize(
    ("module", "there"),
    [
        ("extra/lustre.ko", False),
        ("extra/lustre.ko.old", True),
        ("extra/not-lustre.ko", True),
        ("extra/lustre.kobold", True),
        ("extra/lustre/obdclass.ko", True),
    ],
)
def test_what_only_looks_like_the_module_is_none(disk: Disk, module: str, there: bool) -> None:
    disk.kernel(NEW, module, there=there)
    disk.starts("0")
    assert not disk.lost().ok


def test_a_module_that_depmod_does_not_know_is_none(disk: Disk) -> None:
    disk.kernel(NEW)
    disk.file(f"lib/modules/{NEW}/extra/lustre.ko")
    disk.starts("0")
    assert not disk.lost().ok


def test_a_link_of_weak_modules_counts_as_long_as_it_leads_to_a_module(disk: Disk) -> None:
    other = "5.14.0-503.11.1.el9_5.x86_64"
    target = disk.file("lib/modules/5.14.0-427.el9/extra/lustre.ko.xz")
    disk.kernel(other, "weak-updates/lustre.ko.xz")
    link = disk.root / "lib/modules" / other / "weak-updates/lustre.ko.xz"
    link.unlink()
    link.symlink_to(target)
    (disk.root / f"boot/vmlinuz-{OLD}").unlink()
    assert disk.lost(running=other).ok
    target.unlink()
    found = disk.lost(running=other)
    assert not found.ok
    assert "as it runs now" in found.found


def test_a_module_that_is_built_in_is_there(disk: Disk) -> None:
    disk.kernel(NEW)
    disk.file(f"lib/modules/{NEW}/modules.builtin", "kernel/fs/ext4/ext4.ko\nkernel/fs/lustre/lustre.ko\n")
    disk.starts("0")
    assert disk.lost().ok


def test_modules_without_a_kernel_are_not_started(disk: Disk) -> None:
    disk.kernel(NEW, image=False)
    assert disk.lost().ok
    assert [each.release for each in kernels(disk.root).installed] == [OLD]
    # Fedora and Amazon Linux have the kernel beside its modules, too.
    disk.file(f"lib/modules/{NEW}/vmlinuz")
    assert not disk.lost().ok


def test_only_what_is_mounted_counts(disk: Disk) -> None:
    disk.kernel(NEW)
    disk.starts("0")
    found = disk.lost(mounts=[mount("/", type="ext4"), mount("/scratch", type="xfs")], libraries={})
    assert found.found == f"{NEW} starts next and has ext4, xfs"
    # What no kernel has by a module is a part of all of them.
    assert not disk.lost(mounts=[mount("/tmp", type="tmpfs")], libraries={}).applies


def test_a_module_that_only_the_running_kernel_has_built_in_is_lost(disk: Disk) -> None:
    (disk.root / "sys/module/lustre/initstate").unlink()
    disk.kernel(OLD)
    disk.file(f"lib/modules/{OLD}/modules.builtin", "kernel/fs/lustre/lustre.ko\nkernel/fs/ext4/ext4.ko\n")
    assert disk.lost().ok
    disk.kernel(NEW)
    disk.starts("0")
    assert disk.lost().found == f"{NEW} starts next without module lustre"


def test_red_hat_starts_what_grubenv_names(disk: Disk) -> None:
    old, new = "5.14.0-427.el9.x86_64", "5.14.0-503.el9.x86_64"
    disk.kernel(old, "extra/lustre.ko.xz")
    disk.kernel(new)
    for number, release in enumerate((old, new)):
        disk.file(f"boot/loader/entries/abc{number}-{release}.conf", f"title Red Hat\nversion {release}\n")
    disk.file("boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry=abc0-{old}\n#####\n")
    assert next_kernel(disk.root) == (old, "")
    assert disk.lost(running=old).ok
    disk.file("boot/grub2/grubenv", f"saved_entry=abc1-{new}\n")
    assert f"{new} starts next without module lustre" in disk.lost(running=old).found


@pytest.mark.parametrize(("state", "ok"), [("install", False), ("hold", True)])
def test_packages_that_bring_a_kernel_are_to_be_held(disk: Disk, state: str, ok: bool) -> None:
    disk.file("var/lib/dpkg/status", DPKG.format(state=state))
    found = disk.seen()["kernel-not-held"]
    assert found.ok is ok
    assert found.found == f"kernel {OLD} with lustre: " + (
        "held" if ok else "linux-image-aws may bring another one"
    )


@pytest.mark.parametrize(
    ("file", "text", "ok"),
    [
        ("etc/dnf/dnf.conf", "[main]\nexcludepkgs=kernel kernel-core\n", True),
        ("etc/dnf/dnf.conf", "[main]\nexclude=java*,\n  kernel*\n", True),
        ("etc/yum.conf", "[main]\nexclude=kernel*\n", True),
        ("etc/dnf/dnf.conf", "[main]\n# excludepkgs=kernel*\n", False),
        ("etc/dnf/dnf.conf", "[main]\nexcludepkgs=kernel-headers\n", False),
        ("etc/dnf/dnf.conf", "[main]\nexcludepkgs=kernel\n", False),
    ],
)
def test_dnf_holds_what_it_leaves_out(disk: Disk, file: str, text: str, ok: bool) -> None:
    disk.file(file, text)
    assert disk.seen()["kernel-not-held"].ok is ok


def test_versionlock_holds_what_it_locks_and_not_what_it_leaves_out(disk: Disk) -> None:
    disk.file("etc/dnf/dnf.conf", "[main]\n")
    lock = "etc/dnf/plugins/versionlock.list"
    disk.file(lock, "kernel-0:5.14.0-427.el9.*\nkernel-core-0:5.14.0-427.el9.*\n")
    assert disk.seen()["kernel-not-held"].ok
    disk.file(lock, "!kernel-0:5.14.0-427.el9.*\nkernel-headers-0:5.14.0-427.el9.*\n")
    assert not disk.seen()["kernel-not-held"].ok


@pytest.mark.parametrize("module", ["updates/dkms/lustre.ko.zst", "kernel/fs/lustre/lustre.ko"])
def test_what_each_kernel_has_needs_no_hold(disk: Disk, module: str) -> None:
    disk.kernel(OLD, module)
    disk.file("var/lib/dpkg/status", DPKG.format(state="install"))
    assert not disk.seen()["kernel-not-held"].applies


def test_the_newest_kernel_is_that_with_the_highest_numbers() -> None:
    in_order = ["6.8.0-999-aws", "6.8.0-1057-aws", "6.17.0-rc1", "6.17.0-3-aws", "6.17.10-1-aws"]
    assert sorted(set(in_order), key=version_key) == in_order


def test_a_machine_without_kernels_of_its_own_is_not_judged(tmp_path: Path) -> None:
    empty = Disk(tmp_path)
    assert not empty.lost().applies
