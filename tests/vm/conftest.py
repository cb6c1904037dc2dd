"""Virtual machines for a test; whatever happens to it, none outlives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.vm import boot_image as boot
from tests.vm.images import Image, ensure_image, why_not
from tests.vm.network import Network, Port
from tests.vm.uml import Uml

MakeUml = Callable[..., Uml]


@pytest.fixture(scope="session")
def image() -> Image:
    """The root disk of all machines; the first run makes it, in some minutes."""
    if why := why_not():
        pytest.skip(why)
    return ensure_image()


@pytest.fixture(scope="session")
def boot_image() -> boot.BootImage:
    """Root file systems of machines that boot as on AWS; the first run makes them, in some minutes."""
    if why := boot.why_not():
        pytest.skip(why)
    return boot.ensure_boot_image()


@pytest.fixture
def make_uml(image: Image, tmp_path: Path) -> Iterator[MakeUml]:
    """Make machines of User Mode Linux: of the devices of their disks and the files behind them."""
    made: list[Uml] = []

    def make(
        disks: Mapping[str, Path],
        *,
        memory_mib: int = 384,
        port: Port | None = None,
        with_systemd: bool = False,
    ) -> Uml:
        directory = tmp_path / f"uml{len(made)}"
        made.append(Uml(image, directory, disks, memory_mib=memory_mib, port=port, with_systemd=with_systemd))
        return made[-1]

    yield make
    for machine in made:
        machine.remove()


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of three ports."""
    made = Network()
    yield made
    made.close()
