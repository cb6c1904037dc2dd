"""A stand-in for the Terraform provider oracle/oci, in Go: built once, outside of the checkout.

Its schema is that of `tests/support/oci_schema/arguments.json`, its cloud is a file, and it refuses what
OCI refuses.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gridwright.providers.oci.resource_manager import PROVIDER
from tests.support import go
from tests.support.cache import made_once

SOURCES = Path(__file__).parent
SCHEMA = SOURCES.with_name("oci_schema") / "arguments.json"
RELEASE = PROVIDER["oci"]["version"]
"""What it calls itself: rendered roots ask for one release."""
_HOSTS = ("registry.opentofu.org", "registry.terraform.io")
_BUILD_S = 600.0


def mirror() -> Path:
    """What a CLI configuration names as filesystem_mirror; the provider in it is built if need be."""
    return made_once(f"oci-provider-{RELEASE}-{_digest()}", _build)


def _build(part: Path) -> None:
    program = part / "terraform-provider-oci"
    go.build(["build", "-trimpath", "-o", str(program), "."], SOURCES, _BUILD_S, CGO_ENABLED="0")
    for host in _HOSTS:
        place = part / host / "oracle" / "oci" / RELEASE / "linux_amd64"
        place.mkdir(parents=True)
        os.link(program, place / f"terraform-provider-oci_v{RELEASE}")


def _digest() -> str:
    """Of the sources: what is changed is built anew."""
    found = hashlib.sha256()
    for each in sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*")]):
        found.update(each.name.encode() + each.read_bytes())
    return found.hexdigest()[:16]
