"""Virtual machines for a test; whatever happens to it, none outlives it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.vm.images import Image, ensure_image
from tests.vm.network import Network, Port
from tests.vm.qemu import Qemu
from tests.vm.uml import Uml

_PROGRAMS = {
    "linux.uml": "user-mode-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "debootstrap": "debootstrap",
    "mkfs.ext4": "e2fsprogs",
    "ssh-keygen": "openssh-client",
}

MakeUml = Callable[..., Uml]
MakeQemu = Callable[[Sequence[str], Mapping[str, Path]], Qemu]


def _why_not() -> str | None:
    """Why virtual machines cannot run here."""
    if os.geteuid() != 0:
        return "needs root: it builds a root file system and mounts it by hostfs"
    if platform.machine() != "x86_64":
        return f"its kernels are for x86_64, and this machine is {platform.machine()}"
    missing = sorted(package for program, package in _PROGRAMS.items() if shutil.which(program) is None)
    return f"needs packages: apt-get install {' '.join(missing)}" if missing else None


@pytest.fixture(scope="session")
def image() -> Image:
    """The root disk of all machines; the first run makes it, in some minutes."""
    if why := _why_not():
        pytest.skip(why)
    return ensure_image()


@pytest.fixture
def make_uml(image: Image, tmp_path: Path) -> Iterator[MakeUml]:
    """Make machines of User Mode Linux: of the devices of their disks and the files behind them."""
    made: list[Uml] = []

    def make(disks: Mapping[str, Path], *, memory_mib: int = 384, port: Port | None = None) -> Uml:
        directory = tmp_path / f"uml{len(made)}"
        made.append(Uml(image, directory, disks, memory_mib=memory_mib, port=port))
        return made[-1]

    yield make
    for machine in made:
        machine.power_off()


@pytest.fixture
def make_qemu(image: Image, tmp_path: Path) -> Iterator[MakeQemu]:
    """Make machines of QEMU."""
    made: list[Qemu] = []

    def make(devices: Sequence[str], mounts: Mapping[str, Path]) -> Qemu:
        made.append(Qemu(image, tmp_path / f"qemu{len(made)}", devices, mounts))
        return made[-1]

    yield make
    for machine in made:
        machine.power_off()


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of two ports."""
    made = Network()
    yield made
    made.close()
