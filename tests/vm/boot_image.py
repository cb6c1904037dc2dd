"""Root file systems of machines that boot as on AWS: Debian with cloud-init, as its cloud images.

`python -m tests.vm.boot_image` makes them, once for each recipe. `fresh` is as a cloud's image is, with an
archive of the packages that machines install by themselves; `baked` has these. Nobody writes to either.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gridwright.providers.lab.image import architecture, mirror
from tests.support.cache import cache, only_builder
from tests.support.skips import NOT_AS_ROOT
from tests.vm.images import ATTEMPTS, SUITE, run_apart

RECIPE = 1
"""To be counted up when what is made of the packages changes."""
_FIRST = ("ca-certificates", "dbus", "iproute2", "kmod", "procps", "systemd-sysv", "udev")
"""What debootstrap installs: it knows no virtual packages, which the others depend on."""
_IMAGE = (
    "chrony",
    "cloud-init",
    "e2fsprogs",
    "isc-dhcp-client",
    "netplan.io",
    "nftables",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "systemd-resolved",
    "unattended-upgrades",
)
"""What Debian's cloud image has, of that what matters here."""
_INSTALLED = (
    "ansible-core",
    "munge",
    "needrestart",
    "nfs-common",
    "python3-boto3",
    "slurm-client",
    "slurmctld",
    "slurmd",
)
"""What machines install by themselves, and needrestart, which Ubuntu's image has."""
_ARCHIVE = "srv/archive"
_PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "apt-ftparchive": "apt-utils",
    "dnsmasq": "dnsmasq-base",
    "ip": "iproute2",
    "nft": "nftables",
}
"""What machines are made with, and the packages that have it."""
_NETWORK = """\
# netplan knows interfaces by an address that those of name spaces do not have (PermanentMACAddress=).
[Match]
Name=eth0
[Network]
DHCP=ipv4
"""
_NO_DAEMONS = "#!/bin/sh\nexit 101\n"
_CLOUD = """\
# What Amazon's images have: no other cloud is looked for.
datasource_list: [Ec2]
datasource: {Ec2: {strict_id: false, timeout: 5, max_wait: 30, metadata_urls: ["http://169.254.169.254"]}}
locale: C.UTF-8
ssh_genkeytypes: [ed25519]
"""


@dataclass(frozen=True, slots=True)
class BootImage:
    """Both root file systems; read-only."""

    directory: Path

    @property
    def fresh(self) -> Path:
        """As a cloud's image is."""
        return self.directory / "fresh"

    @property
    def baked(self) -> Path:
        """With all that machines install."""
        return self.directory / "baked"


def why_not() -> str | None:
    """Why such machines cannot run here."""
    if os.geteuid() != 0:
        return f"{NOT_AS_ROOT}: a root file system is built, and systemd is started in name spaces"
    missing = sorted(package for program, package in _PROGRAMS.items() if shutil.which(program) is None)
    return f"needs packages: apt-get install {' '.join(missing)}" if missing else None


def ensure_boot_image() -> BootImage:
    """The image; made first where there is none yet. Raises RuntimeError where it cannot be made."""
    recipe = [RECIPE, SUITE, architecture(), _FIRST, _IMAGE, _INSTALLED, _CLOUD, _NETWORK]
    content = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    directory = cache() / "boot" / content
    image = BootImage(directory / "image")
    if not image.directory.is_dir():
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with only_builder(directory):
            if not image.directory.is_dir():
                _build(directory, image.directory)
    return image


def _build(directory: Path, image: Path) -> None:
    part, log = directory / "image.part", directory / "build.log"
    made = BootImage(part)
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            _fresh(made.fresh, log)
            break
        except RuntimeError:
            if attempt == ATTEMPTS:
                raise
    subprocess.run(["cp", "--archive", str(made.fresh), str(made.baked)], check=True, timeout=300)
    _inside(
        made.baked,
        log,
        f"apt-get update -q; apt-get install -y -q --no-install-recommends {' '.join(_INSTALLED)}",
    )
    for root in (made.fresh, made.baked):
        _finish(root)
    part.rename(image)


def _fresh(root: Path, log: Path) -> None:
    fast = root / "etc/dpkg/dpkg.cfg.d/fast"
    fast.parent.mkdir(parents=True)
    fast.write_text("force-unsafe-io\n")
    from_mirror = mirror(SUITE)
    command = [
        "debootstrap",
        "--variant=minbase",
        f"--arch={architecture()}",
        f"--include={','.join(_FIRST)}",
    ]
    _must([*command, SUITE, str(root), *([from_mirror] if from_mirror else [])], log)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(_NO_DAEMONS)
    policy.chmod(0o755)
    archive = root / _ARCHIVE
    archive.mkdir(parents=True)
    install = "apt-get install -y -q --no-install-recommends"
    _inside(root, log, f"apt-get update -q; {install} {' '.join(_IMAGE)}; apt-get clean")
    _inside(root, log, f"{install} --download-only {' '.join(_INSTALLED)}")
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        package.rename(archive / package.name)
    with (archive / "Packages").open("wb") as out:
        subprocess.run(["apt-ftparchive", "packages", "."], cwd=archive, stdout=out, check=True, timeout=120)
    # From here on it asks no network.
    for each in (root / "etc/apt").rglob("*.sources"):
        each.unlink()
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:/{_ARCHIVE} ./\n")
    shutil.rmtree(root / "var/lib/apt/lists")
    fast.unlink()


def _finish(root: Path) -> None:
    """Make it what an image is. `RECIPE` counts changes."""
    (root / "usr/sbin/policy-rc.d").unlink()
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("etc/hostname", "etc/resolv.conf", "etc/munge/munge.key"):
        (root / name).unlink(missing_ok=True)
    (root / "etc/resolv.conf").symlink_to("/run/systemd/resolve/stub-resolv.conf")
    (root / "etc/machine-id").write_text("")
    (root / "etc/cloud/cloud.cfg.d/99-ec2.cfg").write_text(_CLOUD)
    (root / "etc/systemd/network/20-eth0.network").write_text(_NETWORK)
    wanted = root / "etc/systemd/system"
    for name in ("apt-daily.timer", "apt-daily-upgrade.timer"):
        (wanted / name).symlink_to("/dev/null")
    for service in ("systemd-networkd", "systemd-resolved"):
        subprocess.run(["chroot", str(root), "systemctl", "enable", service], check=True, timeout=60)


def _inside(root: Path, log: Path, script: str) -> None:
    names = root / "etc/resolv.conf"
    names.unlink(missing_ok=True)
    shutil.copyfile("/etc/resolv.conf", names)
    variables = "DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8"
    _must(["chroot", str(root), "env", *variables.split(), "sh", "-ec", script], log)


def _must(command: list[str], log: Path) -> None:
    if status := run_apart(command, log):
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:]
        raise RuntimeError(f"{command[0]} failed with status {status}: {'; '.join(last)} ({log})")


def main() -> None:
    """Make the image before tests have to wait for it."""
    started = time.monotonic()
    why = why_not()
    said = f"no machines that boot here: {why}" if why else f"{ensure_boot_image().directory}"
    print(f"{said} ({time.monotonic() - started:.0f} s)", file=sys.stderr)  # noqa: T201 - what make shows


if __name__ == "__main__":
    main()
