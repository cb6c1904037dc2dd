"""A machine that gives disks away by iSCSI, as a cloud does: tgt, with a target for each disk."""

from __future__ import annotations

from pathlib import Path

from tests.vm.conftest import MakeUml
from tests.vm.machine import blank_disk
from tests.vm.network import Port

PORT = 3260
_LETTERS = "bcdefgh"
"""Of its disks; `a` is the root disk."""
_SERVE = """set -e
mkdir -p /run/tgtd
tgtd --iscsi portal={address}:{port}
tries=0
until tgtadm --lld iscsi --mode sys --op show > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || {{ echo "tgtd does not answer" >&2; exit 1; }}
    sleep 0.1
done
"""
_LUN = """
tgtadm --lld iscsi --mode target --op new --tid {number} --targetname {iqn}
tgtadm --lld iscsi --mode logicalunit --op new --tid {number} --lun 1 --backing-store /dev/ubd{letter}
tgtadm --lld iscsi --mode logicalunit --op update --tid {number} --lun 1 \\
    --params vendor_id=ORACLE,product_id=BlockVolume,scsi_sn={name}
tgtadm --lld iscsi --mode target --op bind --tid {number} --initiator-address ALL
"""


class IscsiTarget:
    """One target for each volume; the file behind it has what is on the volume."""

    def __init__(
        self, make_uml: MakeUml, directory: Path, port: Port, names: list[str], size_bytes: int
    ) -> None:
        """`port`: where the machine is plugged in. It ends with the test."""
        self.address, self.names = port.address, names
        self.files = {name: blank_disk(directory / f"{name}.img", size_bytes) for name in names}
        disks = {f"ubd{letter}": path for letter, path in zip(_LETTERS, self.files.values(), strict=False)}
        self.machine = make_uml(disks, port=port)

    def boot(self) -> None:
        """Start it, and have it serve."""
        self.machine.boot()
        script = _SERVE.format(address=self.address, port=PORT)
        for at, name in enumerate(self.names):
            script += _LUN.format(number=at + 1, iqn=iqn(name), letter=_LETTERS[at], name=name)
        self.machine.run(script, timeout_s=60).ok()

    def attachment(self, name: str, device: str) -> dict[str, object]:
        """As the Compute API lists it (IScsiVolumeAttachment)."""
        return {
            "id": f"ocid1.volumeattachment.oc1..{name}",
            "attachmentType": "iscsi",
            "lifecycleState": "ATTACHED",
            "device": device,
            "iqn": iqn(name),
            "ipv4": self.address,
            "port": PORT,
        }

    def sync(self) -> None:
        """Have the files hold what machines wrote."""
        self.machine.run("sync").ok()

    def sessions(self, initiator: str) -> int:
        """How many a machine has. A machine that died has its own for ever: nothing tells a target."""
        shown = self.machine.run("tgtadm --lld iscsi --mode target --op show").ok()
        words = (line.split() for line in shown.splitlines())
        return sum(each[:2] == ["Initiator:", initiator] for each in words)


def iqn(name: str) -> str:
    """The name of a volume's target, of the form that Oracle's have."""
    return f"iqn.2015-12.com.oracleiaas:{name}"
