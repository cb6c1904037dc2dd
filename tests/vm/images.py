"""The root disk of the virtual machines of `tests/vm`: Debian with a kernel for QEMU and modules for UML.

`python -m tests.vm.images` makes it, once for each recipe; it is kept as the lab keeps its image. No machine
writes to it: each has a layer of its own above it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gridwright.providers.lab.image import architecture, environment, mirror
from tests.support.cache import cache, only_builder
from tests.support.skips import NO_SUCH_KERNEL, NOT_AS_ROOT

SUITE = "bookworm"
RECIPE = 1
"""To be counted up when what is made of the packages changes."""
UML_MODULES = Path("/usr/lib/uml/modules")
"""Where the package user-mode-linux keeps the modules of its kernel."""
PACKAGES = (
    "chrony",
    "dbus",
    "dmsetup",
    "e2fsprogs",
    "fdisk",
    "iproute2",
    "kmod",
    "linux-image-amd64",
    "lvm2",
    "mdadm",
    "nfs-common",
    "nfs-kernel-server",
    "open-iscsi",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd-sysv",
    "tgt",
    "udev",
    "xfsprogs",
    # What a Python of the machine's own may be linked against.
    "libbz2-1.0",
    "libffi8",
    "libgomp1",
    "liblzma5",
    "libreadline8",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "zlib1g",
)
DISK_BYTES = 4 << 30
"""Size of the root disk, sparse."""
LIMIT_S = 30 * 60.0
ATTEMPTS = 2
"""Mirrors drop connections; packages that are there already are not fetched again."""

_PROGRAMS = {
    "linux.uml": "user-mode-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "debootstrap": "debootstrap",
    "mkfs.ext4": "e2fsprogs",
    "ssh-keygen": "openssh-client",
}
"""What machines are made with, and the packages that have it."""
_TRIMMED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")
_INITIAL_MODULES = ("virtio_pci", "virtio_blk", "ext4")
"""What the initial RAM disk needs to find the root disk: a small one boots faster without KVM."""
_IDLE = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "blk-availability.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dm-event.socket",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "ldconfig.service",
    "lvm2-lvmpolld.socket",
    "lvm2-monitor.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "nfs-blkmap.service",
    "nfs-client.target",
    "nfs-server.service",
    "rpcbind.service",
    "rpcbind.socket",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-logind.service",
    "systemd-pstore.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "tgt.service",
)
"""Services that these tests do not need; without KVM each costs seconds at boot."""
_NETWORK = """[Unit]
Description=The network that QEMU offers
DefaultDependencies=no
After=systemd-remount-fs.service
Before=network.target ssh.service
Wants=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=modprobe virtio_net
ExecStart=ip link set eth0 up
ExecStart=ip address replace 10.0.2.15/24 dev eth0
ExecStart=ip route replace default via 10.0.2.2

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Image:
    """What virtual machines begin with; all of it is read-only."""

    directory: Path

    @property
    def root_disk(self) -> Path:
        """The root disk: ext4 without partitions."""
        return self.directory / "root.img"

    @property
    def kernel(self) -> Path:
        """Debian's kernel, for QEMU."""
        return self.directory / "vmlinuz"

    @property
    def initial_disk(self) -> Path:
        """Its initial RAM disk."""
        return self.directory / "initrd.img"

    @property
    def key(self) -> Path:
        """The private key that root of every machine lets in."""
        return self.directory / "key"


def why_not() -> str | None:
    """Why virtual machines cannot run here."""
    if os.geteuid() != 0:
        return f"{NOT_AS_ROOT}: a root file system is built, and mounted by hostfs"
    if platform.machine() != "x86_64":
        return f"{NO_SUCH_KERNEL}: the kernels are for x86_64, and this machine is {platform.machine()}"
    missing = sorted(package for program, package in _PROGRAMS.items() if shutil.which(program) is None)
    return f"needs packages: apt-get install {' '.join(missing)}" if missing else None


def image_directory() -> Path:
    """Where the image of this recipe is kept."""
    recipe = {
        "recipe": RECIPE,
        "suite": SUITE,
        "architecture": architecture(),
        "packages": sorted(PACKAGES),
        "idle": sorted(_IDLE),
        "network": _NETWORK,
        "initial": sorted(_INITIAL_MODULES),
        "uml": sorted(each.name for each in UML_MODULES.iterdir()),
    }
    content = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    return cache_directory() / content


def cache_directory() -> Path:
    """Where what machines are made of is kept from one run to the next."""
    return cache() / "vm"


def ensure_image() -> Image:
    """The image; made first where there is none yet. Raises RuntimeError where it cannot be made."""
    directory = image_directory()
    image = Image(directory / "image")
    if image.directory.is_dir():
        return image
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    with only_builder(directory):
        if not image.directory.is_dir():
            _build(directory, image.directory)
    return image


def _build(directory: Path, image: Path) -> None:
    root, part, packages = directory / "rootfs.part", directory / "image.part", directory / "packages"
    packages.mkdir(exist_ok=True)
    log = directory / "build.log"
    try:
        for attempt in range(1, ATTEMPTS + 1):
            for each in (root, part):
                _remove(each)
                each.mkdir()
            (root / "etc/dpkg/dpkg.cfg.d").mkdir(parents=True)
            # A disk that is thrown away when the machine fails needs no flush for each file.
            (root / "etc/dpkg/dpkg.cfg.d/fast").write_text("force-unsafe-io\n")
            status = _debootstrap(root, packages, log)
            if status == 0:
                break
            if attempt == ATTEMPTS:
                last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:]
                raise RuntimeError(f"debootstrap failed with status {status}: {'; '.join(last)} ({log})")
        _finish(root, part, log)
        part.rename(image)
    finally:
        for each in (root, part, packages):
            _remove(each)


def _debootstrap(root: Path, packages: Path, log: Path) -> int:
    from_mirror = mirror(SUITE)
    command = ["debootstrap", "--variant=minbase", f"--arch={architecture()}", f"--cache-dir={packages}"]
    command += [f"--include={','.join(PACKAGES)}", SUITE, str(root), *([from_mirror] if from_mirror else [])]
    # The kernel's package would make an initial RAM disk for any machine; `_finish` makes a small one.
    return run_apart(command, log, environment() | {"INITRD": "No"})


def run_apart(command: list[str], log: Path, variables: dict[str, str] | None = None) -> int:
    """Run it in namespaces of its own, so that neither its mounts nor its processes outlive it."""
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with log.open("ab") as out:
        try:
            return subprocess.run(
                [*apart, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=variables or environment(),
                timeout=LIMIT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124


def _finish(root: Path, part: Path, log: Path) -> None:
    """Make one disk of it. `RECIPE` counts changes."""
    for name in _TRIMMED:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    texts = {
        "etc/resolv.conf": "nameserver 10.0.2.3\n",
        "etc/hostname": "node1\n",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node1\n",
        "etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
        # Without it systemd takes each boot for the first one, and enables every service.
        "etc/machine-id": hashlib.sha256(str(part).encode()).hexdigest()[:32] + "\n",
        "etc/systemd/system/lan.service": _NETWORK,
        "etc/initramfs-tools/conf.d/small": "MODULES=list\nCOMPRESS=gzip\nRESUME=none\n",
        "etc/initramfs-tools/modules": "".join(f"{name}\n" for name in _INITIAL_MODULES),
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for modules in UML_MODULES.iterdir():
        shutil.copytree(modules, root / "lib/modules" / modules.name, symlinks=True)
    _make_key(part, root / "root/.ssh")
    kernel = next((root / "boot").glob("vmlinuz-*"))
    release = kernel.name.removeprefix("vmlinuz-")
    inside = ["chroot", str(root)]
    for command in (
        [*inside, "update-initramfs", "-c", "-k", release],
        [*inside, "systemctl", "mask", *_IDLE],
        [*inside, "systemctl", "enable", "lan.service", "ssh.service"],
        [*inside, "systemctl", "set-default", "multi-user.target"],
        [
            "mkfs.ext4",
            "-q",
            "-F",
            "-L",
            "root",
            "-d",
            str(root),
            str(part / "root.img"),
            f"{DISK_BYTES >> 10}k",
        ],
    ):
        if status := run_apart(command, log):
            raise RuntimeError(f"{' '.join(command)} failed with status {status} ({log})")
    shutil.copy(kernel, part / "vmlinuz")
    shutil.copy(root / f"boot/initrd.img-{release}", part / "initrd.img")


def _make_key(part: Path, home: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vm", "-f", str(part / "key")],
        check=True,
        timeout=60,
    )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(part / "key.pub", home / "authorized_keys")


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Make the image before tests have to wait for it, where virtual machines can run."""
    started = time.monotonic()
    why = why_not()
    said = f"no virtual machines here: {why}" if why else f"{ensure_image().directory}"
    print(f"{said} ({time.monotonic() - started:.0f} s)")  # noqa: T201 - what make shows


if __name__ == "__main__":
    main()
