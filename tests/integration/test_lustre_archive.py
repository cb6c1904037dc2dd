"""Kernels and modules as the real apt-cache lists them, out of an archive of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.unit.filesystems.test_lustre_kernels import FILTERS, ROLE

PACKAGES = {
    "linux-image-6.8.0-1057-aws": "",
    "linux-image-7.0.0-1012-aws": "",
    "lustre-client-modules-6.8.0-1057-aws": "linux-image-6.8.0-1057-aws",
    # Its kernel is named by this package alone: apt knows the name, and has no such package.
    "lustre-client-modules-6.17.0-1019-aws": "linux-image-6.17.0-1019-aws",
    "lustre-client-modules-aws": "lustre-client-modules-6.17.0-1019-aws",
}


def test_a_kernel_that_is_only_named_by_others_is_not_chosen(tmp_path: Path) -> None:
    environment = archive(tmp_path)
    task = (ROLE / "tasks" / "kernel.yml").read_text()
    argv = re.search(r"argv: \[(apt-cache, .*), \"(.*)\"\]", task)
    assert argv
    command = [*argv[1].split(", "), argv[2]]
    listed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert {line.split()[0] for line in listed.splitlines()} == {*PACKAGES} - {"lustre-client-modules-aws"}
    assert FILTERS.lustre_kernel(listed, "7.0.0-1012-aws") == "6.8.0-1057-aws"
    names = ["apt-cache", "--all-names", "pkgnames", "linux-image-"]
    known = subprocess.run(
        names, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "linux-image-6.17.0-1019-aws" in known.split(), "what a mere list of names would have had"


def archive(directory: Path) -> dict[str, str]:
    """An environment in which apt knows these packages and no others."""
    repository = directory / "archive"
    repository.mkdir()
    (repository / "Packages").write_text(
        "".join(
            f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\n"
            + (f"Depends: {needs}\n" if needs else "")
            + f"Filename: ./{name}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: {name}\n\n"
            for name, needs in PACKAGES.items()
        )
    )
    for each in ("lists/partial", "cache/archives/partial", "etc"):
        (directory / each).mkdir(parents=True)
    (directory / "status").touch()
    (directory / "etc/sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    (directory / "apt.conf").write_text(
        f'Dir::State::lists "{directory}/lists"; Dir::State::status "{directory}/status";\n'
        f'Dir::Cache "{directory}/cache"; Dir::Etc::sourcelist "{directory}/etc/sources.list";\n'
        f'Dir::Etc::sourceparts "/dev/null"; Dir::Etc::parts "/dev/null"; APT::Sandbox::User "root";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(directory / "apt.conf"), "LC_ALL": "C.UTF-8"}
    subprocess.run(["apt-get", "-qq", "update"], env=environment, timeout=120, check=True)
    return environment
