"""The site's packages of Spectrum Scale: real ones of the test's own, installed in a layer in memory."""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import ClientSettings
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import parse_spec
from tests.support.role_play import play, write_roles

pytestmark = [pytest.mark.root, pytest.mark.thorough]
ROLE = "spectrum_scale_client"
SPEC = """\
provider: site
nodes: {compute: {hosts: "localhost"}}
scheduler: {type: slurm}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    remote: {cluster: s.example.com, contacts: [nsd1], filesystem: fs1}
"""
LAYERED = (
    "unshare", "--mount", "sh", "-ec",
    "mount -t tmpfs layer /mnt; for each in usr var etc; do mkdir -p /mnt/$each/up /mnt/$each/work; "
    'mount -t overlay o -o lowerdir=/$each,upperdir=/mnt/$each/up,workdir=/mnt/$each/work /$each; done; '
    'exec "$@"', "sh",
)  # fmt: skip
"""A mount namespace in which what is installed is in memory."""


@dataclass
class Depot:
    """Packages of one family, some of them on the web."""

    place: Path
    family: str
    address: str = ""

    def package(self, name: str, needs: str = "", files: tuple[str, ...] = ()) -> Path:
        """Make one, of release 5.2.3.1."""
        make = self._deb if self.family == "Debian" else self._rpm
        (self.place / "packages").mkdir(exist_ok=True)
        return make(name, needs, files)

    def _deb(self, name: str, needs: str, files: tuple[str, ...]) -> Path:
        tree = self.place / "build" / name
        (tree / "DEBIAN").mkdir(parents=True)
        depends = f"Depends: {needs}\n" if needs else ""
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 5.2.3-1\nArchitecture: all\nMaintainer: test\n{depends}"
            "Description: test\n"
        )
        for each in files:
            (tree / each).parent.mkdir(parents=True, exist_ok=True)
            (tree / each).write_text("#!/bin/sh\n")
        made = self.place / "packages" / f"{name}_5.2.3-1_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, capture_output=True)
        return made

    def _rpm(self, name: str, needs: str, files: tuple[str, ...]) -> Path:
        spec = self.place / f"{name}.spec"
        install = "".join(
            f"mkdir -p %{{buildroot}}/{Path(each).parent}; echo x > %{{buildroot}}/{each}\n" for each in files
        )
        listed = "".join(f"/{each}\n" for each in files)
        requires = f"Requires: {needs}\n" if needs else ""
        spec.write_text(
            f"Name: {name}\nVersion: 5.2.3\nRelease: 1\nSummary: test\nLicense: test\nBuildArch: noarch\n"
            f"{requires}%description\ntest\n%install\n{install}\n%files\n{listed}"
        )
        defines = [
            f"_topdir {self.place}/rpm",
            f"_rpmdir {self.place}/packages",
            "_build_name_fmt %%{NAME}.rpm",
        ]
        words = [word for each in defines for word in ("--define", each)]
        subprocess.run(["rpmbuild", "-bb", *words, spec], check=True, capture_output=True)
        return self.place / "packages" / f"{name}.rpm"

    def url(self, package: Path) -> str:
        return f"{self.address}/packages/{package.name}"


@pytest.fixture(params=["Debian", "RedHat"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Depot]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Depot(tmp_path, request.param, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def installed(depot: Depot, packages: str, environment: dict[str, str], more: str = "") -> str:
    """What Ansible printed that ran the role, and then asked what is there."""
    spec = parse_spec(f"{SPEC}    packages: [{packages}]\n    release: 5.2.3.1\n{more}", base=depot.place)
    write_roles(depot.place, spec, ROLE)
    beside = playbook_files(spec, Hosts.named(compute=["localhost"]))
    (depot.place / "filter_plugins").mkdir(exist_ok=True)
    for name in ("filter_plugins/gridwright.py", "tuned_values.py"):
        (depot.place / name).write_text(str(beside[name]))
    lake = spec.filesystems["lake"]
    query = (
        ["dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Status}\n", "gpfs.*"]
        if depot.family == "Debian"
        else ["rpm", "-qa", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} installed\n", "gpfs.*"]
    )
    asked = {"ansible.builtin.command": {"argv": query}, "register": "found", "failed_when": False}
    include = {"ansible.builtin.include_role": {"name": ROLE}}
    told = {"ansible.builtin.debug": {"msg": "HAS {{ found.stdout_lines }}"}}
    left = {
        "ansible.builtin.command": {"argv": ["ls", "/var/cache/gridwright"]},
        "failed_when": False,
        "register": "left",
    }
    rest = {"ansible.builtin.debug": {"msg": "LEFT {{ left.stdout_lines | default([]) }}"}}
    tasks = [{"block": [include], "always": [asked, told, left, rest]}]
    kind = kind_of(lake)
    assert isinstance(kind, ClientSettings)
    variables = {
        **kind.playbook_variables([lake]),
        "ansible_facts": {"os_family": depot.family, "service_mgr": "none"},
        "base_rows": {"scale": []},
    }
    return play(depot.place, tasks, variables, world=LAYERED, environment=environment)


def test_packages_by_path_by_address_and_by_a_secret_one_are_installed_together(depot: Depot) -> None:
    """In the order that they need each other, whatever the order of the spec."""
    base = depot.package("gpfs.base", files=("usr/lpp/mmfs/bin/mmlsconfig",))
    gpl = depot.package("gpfs.gpl", needs="gpfs.base")
    keys = depot.package("gpfs.gskit", needs="gpfs.gpl")
    printed = installed(
        depot,
        f"{{path: packages/{gpl.name}}}, {{url: '{depot.url(base)}', sha256: {sha256(base)}}}, "
        f"{{url_from: SCALE_KEYS, sha256: {sha256(keys)}}}",
        {"SCALE_KEYS": f"{depot.url(keys)}?token=opens-it"},
    )
    assert "failed=0" in printed, printed
    assert all(f"{name} 5.2.3-1 installed" in printed for name in ("gpfs.base", "gpfs.gpl", "gpfs.gskit")), (
        printed
    )
    assert "opens-it" not in printed
    assert "LEFT []" in printed, "copies of licensed packages are left"
    assert '"msg": "Spectrum Scale: release' not in printed


@pytest.mark.parametrize("depot", ["Debian"], indirect=True)
def test_what_is_another_file_is_refused_and_nothing_is_installed(depot: Depot) -> None:
    base = depot.package("gpfs.base", files=("usr/lpp/mmfs/bin/mmlsconfig",))
    wrong = "ab" * 32
    for package in (
        f"{{path: packages/{base.name}, sha256: {wrong}}}",
        f"{{url_from: AWAY, sha256: {wrong}}}",
    ):
        printed = installed(depot, package, {"AWAY": ""})
        assert "failed=1" in printed, printed
        assert ("and the spec says abab" if "path" in package else "AWAY is not set") in printed, printed
        assert "HAS []" in printed.replace("HAS ['']", "HAS []"), printed
        assert "LEFT []" in printed
