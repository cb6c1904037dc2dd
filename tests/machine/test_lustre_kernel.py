"""A machine whose kernel has no Lustre client, set up for real by apt, dpkg and Ansible.

All that they write goes into a layer of the test's own above this machine's files. The packages are real and
hold next to nothing; modinfo, modprobe and update-grub are stand-ins, as there is no such kernel here.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ansible_releases import RELEASES, ROOT, Release
from tests.support.command import Command
from tests.support.skips import needs, no_such_kernel

pytestmark = pytest.mark.root
IMAGE, WANTED = "7.0.0-1012-aws", "6.8.0-1057-aws"
FORGET = "rm /etc/default/grub.d/60-gridwright-kernel.cfg"
"""So that it is the hold which has this kernel start: a newer one is installed."""
NEWER = "linux-image-7.1.0-1001-aws"
PACKAGES = {
    f"linux-image-{WANTED}": "",
    f"linux-image-{IMAGE}": "",
    "linux-image-aws": f"linux-image-{IMAGE}",
    f"lustre-client-modules-{WANTED}": f"linux-image-{WANTED}",
    # The archive let go of this one's kernel.
    "lustre-client-modules-6.17.0-1019-aws": "",
    "lustre-client-utils": "",
}
PLAY = """\
- name: Set up
  hosts: all
  gather_facts: true
  gather_subset: ["!all", "!min", distribution, platform, service_mgr]
  vars:
    base_rows: {lustre-client: []}
    base_dnf_by_command: false
    gridwright_mounts: []
    gridwright_layouts: []
    gridwright_own_kernel: true
  tasks:
    - name: Pretend to run a kernel
      ansible.builtin.set_fact:
        kernel: "{{ pretended }}"
        cacheable: true
    - name: Mount Lustre
      ansible.builtin.include_role:
        name: lustre_client
"""
WORLD = """\
set -eu
work=$1
mkdir "$work/disk" && mount -t tmpfs tmpfs "$work/disk" && cd "$work/disk" && mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root || exit 77
mount -t proc proc root/proc && mount --rbind /dev root/dev
mkdir -p "root$work" && mount --bind "$work" "root$work"
chroot root sh "$work/inside.sh" "$work"
"""
INSIDE = """\
set -eu
work=$1
cd "$work"
rm -rf /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/* /etc/apt/apt.conf.d/*proxy*
cp -r archive /srv/archive
echo "deb [trusted=yes] file:/srv/archive ./" > /etc/apt/sources.list
# Also where the machine of the test has an archive of its own in the environment.
unset APT_CONFIG
apt-get -qq update
apt-get -qq --yes install linux-image-aws
mkdir -p /boot/grub /etc/default/grub.d
cp grub.cfg /boot/grub/grub.cfg
cp stand-ins/* /usr/local/sbin/
export PATH="/usr/local/sbin:$PATH"
play() {  # NAME KERNEL RESTART
  echo "$2" > /running
  rm -f /run/gridwright/restart.json
  status=0
  given="pretended=$2 gridwright_restart=$3 ansible_python_interpreter=/usr/bin/python3"
  (cd grid && "$PYTHON" -m ansible playbook -i 'machine,' --connection local --extra-vars "$given" play.yml) \
    > "$1.txt" 2>&1 || status=$?
  echo "$status" > "$1.status"
  cp /run/gridwright/restart.json "$1.json" 2>/dev/null || true
}
cp "$(command -v sleep)" ./slurmstepd && ./slurmstepd 1000 & job=$!
@PLAYS@
cp /etc/default/grub.d/60-gridwright-kernel.cfg grub-default
cp /etc/apt/apt.conf.d/60-gridwright-kernel updates
dpkg --get-selections > selections
cp -r later /srv/later
echo "deb [trusted=yes] file:/srv/later ./" >> /etc/apt/sources.list
apt-get -qq update
apt-get --simulate --quiet dist-upgrade > held
apt-mark unhold linux-image-aws
apt-get --simulate --quiet dist-upgrade > free
"""
STAND_INS = {
    "modinfo": '#!/bin/sh\nls "/lib/modules/$(cat /running)/updates/lustre.ko" 2>/dev/null\n',
    "modprobe": "#!/bin/sh\nmkdir -p /sys/module/lustre\n",
    "update-grub": "#!/bin/sh\necho updated >> /boot/grub/told\n",
}


@dataclass
class Outcome:
    """What a play came to."""

    status: int
    text: str
    asked: str | None

    @property
    def changed(self) -> int:
        found = re.search(r"changed=(\d+)", self.text)
        assert found, self.text
        return int(found[1])


OF_SYSTEM = [each for each in RELEASES if each.oldest <= 11 <= each.newest]
"""Releases that the Python of Debian 12 runs, as on nodes of a lab."""


def test_a_machine_goes_over_to_a_kernel_with_a_client_and_keeps_it(tmp_path: Path) -> None:
    ubuntu = next(each for each in OF_SYSTEM if each.name == "2.16")
    found = set_up(
        tmp_path, ubuntu, f"kill $job; play asked {IMAGE} asked", f"{FORGET}; play settled {WANTED} never"
    )
    assert_asked(found["asked"])
    assert_settled(tmp_path, found["settled"])


@pytest.mark.thorough
@pytest.mark.parametrize("release", OF_SYSTEM, ids=lambda each: each.name)
def test_nobody_is_restarted_unasked_and_a_second_run_changes_nothing(
    tmp_path: Path, release: Release
) -> None:
    found = set_up(
        tmp_path,
        release,
        f"play busy {IMAGE} asked; kill $job; wait $job || true",
        f"play pending {IMAGE} never; play local {IMAGE} now; play asked {IMAGE} asked",
        f"play settled {WANTED} never; play again {WANTED} never",
    )
    assert_asked(found["asked"])
    said = {
        "busy": "drain this machine",
        "pending": "The restart is pending",
        "local": "restart this machine",
    }
    for name, words in said.items():
        assert_waits(found[name])
        assert words in flat(found[name].text)
        assert found[name].asked is None
    assert_settled(tmp_path, found["settled"])
    assert (found["again"].status, found["again"].changed) == (0, 0), found["again"].text


def assert_waits(outcome: Outcome) -> None:
    assert outcome.status == 2, outcome.text
    assert f"Kernel {IMAGE} has no module lustre. Kernel {WANTED} has one" in flat(outcome.text)


def assert_asked(outcome: Outcome) -> None:
    assert_waits(outcome)
    assert json.loads(outcome.asked or "{}") == {"kernel": WANTED}
    assert "the machine is about to restart" in flat(outcome.text)


def assert_settled(directory: Path, outcome: Outcome) -> None:
    """It starts the kernel that it has a client for, and no update brings another one."""
    assert outcome.status == 0, outcome.text
    uuid = "0f4c6d12-1b1f-4f8e-9d3a-3f6a2b7c9e10"
    entry = f"gnulinux-advanced-{uuid}>gnulinux-{WANTED}-advanced-{uuid}"
    assert f'\nGRUB_DEFAULT="{entry}"\n' in (directory / "grub-default").read_text()
    states = dict(line.split() for line in (directory / "selections").read_text().splitlines())
    held = {name.partition(":")[0] for name, state in states.items() if state == "hold"}
    assert held >= {"linux-image-aws", f"linux-image-{WANTED}", f"lustre-client-modules-{WANTED}"}
    assert "lustre-client-utils" not in held
    assert NEWER not in (directory / "held").read_text()
    assert f"Inst {NEWER}" in (directory / "free").read_text(), "what an update would bring without the hold"


def flat(text: str) -> str:
    return " ".join(text.replace('\\\n"', " ").split())


def set_up(directory: Path, release: Release, *plays: str) -> dict[str, Outcome]:
    """Run plays one after the other on one machine."""
    needs("unshare", "dpkg-deb", "apt-get")
    spec = ROOT / "examples" / "aws-lustre.yaml"
    done = Command(directory)("render", spec, "--out", directory / "grid")
    assert done.status == 0, done.err
    (directory / "grid/play.yml").write_text(PLAY)
    archive(directory / "archive", PACKAGES)
    archive(directory / "later", {NEWER: "", "linux-image-aws": NEWER}, version=2)
    (directory / "stand-ins").mkdir()
    for name, text in STAND_INS.items():
        (directory / "stand-ins" / name).write_text(text)
        (directory / "stand-ins" / name).chmod(0o755)
    menu = (ROOT / "tests/fixtures/lustre/grub.cfg").read_text()
    (directory / "grub.cfg").write_text(menu)
    (directory / "inside.sh").write_text(INSIDE.replace("@PLAYS@", "\n".join(plays)))
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "ANSIBLE_NOCOLOR": "1",
        "PYTHON": str(release.python),
    }
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", WORLD]
    ended = subprocess.run(
        [*command, "world", str(directory)], env=environment, capture_output=True, timeout=280, check=False
    )
    if ended.returncode == 77:
        no_such_kernel("no overlay of this machine's root")
    assert ended.returncode == 0, ended.stderr.decode() + ended.stdout.decode()
    return {
        path.stem: Outcome(
            int(path.read_text()),
            path.with_suffix(".txt").read_text(),
            asked.read_text() if (asked := path.with_suffix(".json")).exists() else None,
        )
        for path in directory.glob("*.status")
    }


def archive(place: Path, packages: Mapping[str, str], version: int = 1) -> None:
    """Packages, and the list of them; `packages` has by name what each needs."""
    place.mkdir()
    for name, depends in packages.items():
        content = place.parent / "content" / f"{name}-{version}"
        (content / "DEBIAN").mkdir(parents=True)
        (content / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <x@example.com>\n"
            + (f"Depends: {depends}\n" if depends else "")
            + f"Description: {name} of a test\n"
        )
        if name.startswith("lustre-client-modules-"):
            module = content / f"lib/modules/{name.removeprefix('lustre-client-modules-')}/updates/lustre.ko"
            # What modules lie below is a link of its own on systems of today.
            module = content / "usr" / module.relative_to(content)
            module.parent.mkdir(parents=True)
            module.touch()
        build = ["dpkg-deb", "--build", "--root-owner-group", str(content), str(place / f"{name}.deb")]
        subprocess.run(build, capture_output=True, timeout=60, check=True)
    (place / "Packages").write_text("".join(described(each) for each in sorted(place.glob("*.deb"))))


def described(package: Path) -> str:
    content = package.read_bytes()
    shown = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, timeout=60, check=True)
    digest = hashlib.sha256(content).hexdigest()
    fields = shown.stdout.decode().strip()
    return f"{fields}\nFilename: ./{package.name}\nSize: {len(content)}\nSHA256: {digest}\n\n"
