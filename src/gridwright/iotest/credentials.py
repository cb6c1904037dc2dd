"""Makes the certificates of one test, by an authority that exists only in the coordinator's memory.

Each node has a key and a certificate of its own, in a file that only its owner can read, in a directory
that all nodes see. The authority signs for one test only: a certificate of another test opens nothing.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gridwright.beneath import remove_tree
from gridwright.errors import environment_error
from gridwright.iotest.wire import COORDINATOR, coordinator_context
from gridwright.refusals import refusal
from gridwright.state_parts import fresh_directory

VALID = timedelta(days=1)
"""Before and after the moment they are made: connections are made in the first minutes of a test, and clocks
of nodes may be off by a time zone."""


class Authority:
    """Signs the certificates of one test."""

    def __init__(self, now: datetime | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now or datetime.now(UTC)
        self._name = _named(f"gridwright iotest {secrets.token_hex(8)}")
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))

    def of_node(self, node: str) -> str:
        """Key, certificate and authority of a node, as PEM. Raises ValueError if its name is not ASCII."""
        return self._issue(node, ExtendedKeyUsageOID.CLIENT_AUTH)

    def of_coordinator(self) -> str:
        """Key, certificate and authority of the coordinator, as PEM."""
        return self._issue(COORDINATOR, ExtendedKeyUsageOID.SERVER_AUTH)

    def context(self) -> ssl.SSLContext:
        """How the coordinator lets nodes in."""
        # Python's ssl takes a key from a file only; this one is in memory.
        fd = os.memfd_create("gridwright", os.MFD_CLOEXEC)
        try:
            os.write(fd, self.of_coordinator().encode())
            return coordinator_context(Path(f"/proc/self/fd/{fd}"))
        finally:
            os.close(fd)

    def _issue(self, name: str, side: x509.ObjectIdentifier) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named("gridwright iotest"), key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # Else a node could show its certificate to others as that of the coordinator.
        builder = builder.add_extension(x509.ExtendedKeyUsage([side]), critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        return text + _pem(builder.sign(self._key, hashes.SHA256())) + self.certificate

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        authority = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - VALID)
            .not_valid_after(self._now + VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


class HandedOver:
    """The files of a test's nodes, in a fresh directory of the state directory, which all nodes see."""

    def __init__(self, authority: Authority, state: Path, nodes: Iterable[str]) -> None:
        """Write them. Raises GridwrightError."""
        self._directory = fresh_directory(state, "iotest")
        try:
            for node in nodes:
                self._write(node, authority.of_node(node))
        except OSError as error:
            self.remove()
            where = self._directory / os.fsdecode(error.filename or "")
            otherwise = "name a directory that all nodes share with `state:` in the grid spec"
            why = refusal(where, error, otherwise, writes=True)
            raise environment_error(
                f"the certificates of the test cannot be written: {why.reason}",
                where=str(where),
                remedy=why.remedy,
            ) from error

    def file_of(self, node: str) -> Path:
        """The file that only this node needs."""
        return self._directory / f"{node}.pem"

    def remove(self) -> None:
        """Remove all of them; those that cannot be removed open nothing once the test is over."""
        remove_tree(self._directory)

    def _write(self, node: str, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.file_of(node), flags, 0o600)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
