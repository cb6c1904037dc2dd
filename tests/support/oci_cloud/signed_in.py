"""A user of the double: a key of its own, and Oracle's configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.oci_cloud.server import OciDouble, serving


@contextmanager
def signed_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    """A double that all calls go to."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (directory / "key.pem").write_bytes(pem)
    (directory / "key.pem").chmod(0o600)
    lines = [
        "[DEFAULT]",
        "user=ocid1.user.oc1..aaaa",
        "tenancy=ocid1.tenancy.oc1..aaaa",
        "fingerprint=20:3b:97:13:55:1c:5b:0d:d3:37:d8:50:4e:c5:3a:34",
        f"key_file={directory / 'key.pem'}",
        "region=us-ashburn-1",
    ]
    (directory / "config").write_text("\n".join(lines), encoding="utf-8")
    (directory / "config").chmod(0o600)
    monkeypatch.setenv("OCI_CLI_CONFIG_FILE", str(directory / "config"))
    for name in ("OCI_CLI_AUTH", "OCI_CLI_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with serving() as double:
        monkeypatch.setenv("GRIDWRIGHT_OCI_ENDPOINT", double.url)
        yield double
