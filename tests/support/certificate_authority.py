"""An authority of a test, and the certificate of a server that it vouches for."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_certificates(place: Path, address: str) -> None:
    """Write `ca.pem`, and `server.pem` with `server.key` for an address."""
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])
    today = datetime.datetime.now(datetime.UTC)

    def certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> bytes:
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - datetime.timedelta(days=1))
            .not_valid_after(today + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if not is_ca:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            made = made.add_extension(names, critical=False)
        return made.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    (place / "ca.pem").write_bytes(certificate(name, authority, is_ca=True))
    of_server = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, address)])
    (place / "server.pem").write_bytes(certificate(of_server, server, is_ca=False))
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (place / "server.key").write_bytes(key)
