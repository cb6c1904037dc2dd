"""Systems that say they are of the Red Hat family: this machine below an overlay, with another os-release.

Their dnf, rpm and semanage are real ones of Debian; their packages are made here, signed, and all but empty.
Nothing of this machine is changed: files are an overlay's, network and processes of namespaces.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gridwright.setup.running import NodeSetup, read_report
from tests.support.ansible_releases import CALLBACKS, Release
from tests.support.skips import needs, no_such_kernel

OS_RELEASE = {
    "rocky-8": ("rocky", "8.10", "Rocky Linux", "Rocky Linux release 8.10 (Green Obsidian)"),
    "rocky-9": ("rocky", "9.4", "Rocky Linux", "Rocky Linux release 9.4 (Blue Onyx)"),
    "almalinux-8": ("almalinux", "8.10", "AlmaLinux", "AlmaLinux release 8.10 (Cerulean Leopard)"),
    "almalinux-9": ("almalinux", "9.7", "AlmaLinux", "AlmaLinux release 9.7 (Moss Jungle Cat)"),
    "rhel-8": ("rhel", "8.10", "Red Hat Enterprise Linux", "Red Hat Enterprise Linux release 8.10 (Ootpa)"),
    "rhel-9": ("rhel", "9.4", "Red Hat Enterprise Linux", "Red Hat Enterprise Linux release 9.4 (Plow)"),
    "ol-9": ("ol", "9.4", "Oracle Linux Server", "Oracle Linux Server release 9.4"),
    "amzn-2023": ("amzn", "2023", "Amazon Linux", "Amazon Linux release 2023 (Amazon Linux)"),
}
"""What os-release and the release file of each say: ID, VERSION_ID, NAME, the line of the release file."""
_HIDDEN = ("os-release", "debian_version", "lsb-release", "redhat-release", "system-release")
_LIMIT_S = 280


@dataclass(frozen=True)
class System:
    """One of them, whose files are kept in a directory."""

    name: str
    place: Path

    @classmethod
    def made(cls, name: str, place: Path) -> System:
        """Make its directories and what tells its distribution."""
        system = cls(name, place)
        for each in ("upper", "work", "root"):
            (place / each).mkdir(parents=True)
        needs("dnf", "rpm", "semanage")
        identity, version, title, line = OS_RELEASE[name]
        family = "fedora" if identity == "amzn" else "rhel centos fedora"
        text = (
            f'NAME="{title}"\nVERSION="{version}"\nID="{identity}"\nID_LIKE="{family}"\n'
            f'VERSION_ID="{version}"\nPRETTY_NAME="{title} {version}"\n'
        )
        if identity in ("rocky", "almalinux", "rhel", "ol"):
            text += f'PLATFORM_ID="platform:el{version.partition(".")[0]}"\n'
        (place / "os-release").write_text(text)
        (place / "release").write_text(f"{line}\n")
        tried = system.run("true")
        if tried.returncode:
            no_such_kernel(f"overlays of a whole system: {tried.stderr.strip()}")
        return system

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as its root, in a network without a way out; the files that it writes stay."""
        release = {"amzn": "system-release", "ol": "oracle-release"}.get(
            self.name.partition("-")[0], "redhat-release"
        )
        root = shlex.quote(str(self.place / "root"))
        layers = f"lowerdir=/,upperdir={self.place}/upper,workdir={self.place}/work"
        script = f"""
set -e
mount -t overlay overlay -o {layers} {root}
cd {root}
for each in {" ".join(_HIDDEN)}; do rm -f etc/$each; done
cp {self.place}/os-release etc/os-release
cp {self.place}/release etc/{release}
mkdir -p etc/yum.repos.d var/lib/rpm etc/selinux
: > etc/selinux/config
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs sys/fs
mkdir -p sys/fs/selinux
: > sys/fs/selinux/enforce
ip link set lo up
exec chroot . "$@"
"""
        inner = ["sh", "-c", script, "sh", *command]
        return subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--", *inner],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                 "HOME": "/root", **environment},
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip

    def file(self, path: str) -> Path:
        """A file that was written there."""
        return self.place / "upper" / path.lstrip("/")


def play(system: System, release: Release, playbook: Path, host: str, *words: str) -> NodeSetup:
    """Run the playbook as if the system were one of its hosts; what became of it."""
    report = playbook / f"report-{system.name}-{release.name}"
    done = system.run(
        "sh", "-c", 'cd "$0" && : > "$GRIDWRIGHT_REPORT" && exec "$@"', str(playbook),
        str(release.python), "-m", "ansible", "playbook", "-i", "inventory.yml", "--connection", "local",
        "--limit", host, "--extra-vars", "gridwright_become=false",
        "--extra-vars", "ansible_python_interpreter=/usr/bin/python3", *words, "site.yml",
        ANSIBLE_NOCOLOR="1", ANSIBLE_CALLBACK_PLUGINS=str(CALLBACKS), GRIDWRIGHT_REPORT=str(report),
        ANSIBLE_CALLBACKS_ENABLED="gridwright_report",
    )  # fmt: skip
    lines = system.file(str(report)).read_text().splitlines()
    found = read_report(lines)
    assert len(found) == 1, done.stdout[-4000:] + done.stderr
    assert done.returncode == 0 or found[0].failures, done.stdout[-4000:]
    return found[0]


def repository(place: Path, packages: dict[str, list[str]]) -> Path:
    """A signed repository of packages, each with the empty directories that it has; returns its directory.

    Its key is in key.asc there.
    """
    home = place / "gpg"
    home.mkdir(parents=True, mode=0o700)
    there = place / "repository"
    there.mkdir()
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty"]
    _do(
        [*gpg, "--passphrase", "", "--quick-generate-key", "packager@example.com", "rsa2048", "sign", "never"]
    )
    _do([*gpg, "--armor", "--output", str(there / "key.asc"), "--export"])
    for name, directories in packages.items():
        spec = place / f"{name}.spec"
        made = "\n".join(f"mkdir -p %{{buildroot}}{each}" for each in directories)
        files = "\n".join(f"%dir {each}" for each in directories)
        spec.write_text(
            f"Name: {name}\nVersion: 1\nRelease: 1\nSummary: empty\nLicense: none\nBuildArch: noarch\n"
            "AutoReqProv: no\n%description\nempty\n%install\n"
            f"mkdir -p %{{buildroot}}\n{made}\n%files\n{files}\n"
        )
        _do(
            [
                "rpmbuild",
                "-bb",
                "--quiet",
                "--define",
                f"_topdir {place}/build",
                "--define",
                f"_rpmdir {there}",
                str(spec),
            ]
        )
    rpms = sorted(str(each) for each in there.rglob("*.rpm"))
    defined = ("_gpg_name packager@example.com", f"_gpg_path {home}", f"__gpg {shutil.which('gpg')}")
    sign = ["rpmsign", "--addsign", *(word for each in defined for word in ("--define", each))]
    _do([*sign, *rpms])
    _do(["createrepo_c", "--quiet", str(there)])
    shutil.rmtree(place / "build")
    # The agent that gpg started must not outlive the test.
    _do(["gpgconf", "--homedir", str(home), "--kill", "all"])
    return there


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
