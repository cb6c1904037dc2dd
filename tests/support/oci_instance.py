"""An instance of Oracle Cloud as its own programs see it: metadata, tokens, objects, secrets, attachments.

Strict where Oracle is: every request has to be signed by a key that this cloud gave a token for, over the
headers that its documentation asks for, and no other bucket, secret or instance is answered for.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.support.http_service import QuietHandler, http_server, running, url_of

TENANCY = "ocid1.tenancy.oc1..aaaatenancy"
COMPARTMENT = "ocid1.compartment.oc1..aaaacompartment"
INSTANCE = "ocid1.instance.oc1.iad.aaaainstance"
_PLAIN = ["date", "(request-target)", "host"]
_BODY = ["content-length", "content-type", "x-content-sha256"]


class OciInstance:
    """The instance, and what the cloud has for it. Close it at the end."""

    def __init__(self, told: Mapping[str, Any] | None = None) -> None:
        self.told = dict(told or {})
        self.objects: dict[str, bytes] = {}
        self.bucket, self.namespace = "site", "ns"
        self.secrets: dict[str, str] = {}
        self.attachments: list[dict[str, Any]] = []
        self.later: list[dict[str, Any]] | None = None
        """What is attached from the second look on."""
        self.volumes: dict[str, str] = {}
        """State of volumes by OCID."""
        self.requests = {
            "/p/of-the-report/n/ns/b/site/o/": "boot/nsd1.json",
            "/p/of-the-logs/n/ns/b/site/o/": "boot-logs/nsd1/",
        }
        """Pre-authenticated requests to write: an object, or the beginning of names where that ends in /."""
        self.hides: tuple[str, ...] = ()
        """Beginnings of the names of objects that the machine may not see, as if they were not there."""
        self.cards: list[dict[str, Any]] = []
        self.tokens: dict[str, rsa.RSAPublicKey] = {}
        self.faults: list[int] = []
        """Statuses that the next requests to services are answered with."""
        self.page = 2
        self._key = rsa.generate_private_key(65537, 2048)
        self.certificate = self._certified()
        server = http_server(_handler(self))
        self.url = url_of(server)
        self._running = ExitStack()
        self._running.enter_context(running(server))

    @property
    def environment(self) -> dict[str, str]:
        """Where its programs look, and how little they wait."""
        return {
            "OCI_METADATA_BASE_URL": f"{self.url}/opc/v2",
            "GRIDWRIGHT_OCI_ENDPOINT": self.url,
            "GRIDWRIGHT_BOOT_PAUSE_S": "0.01",
        }

    def close(self) -> None:
        """End it."""
        self._running.close()

    def _certified(self) -> x509.Certificate:
        units = [
            x509.NameAttribute(NameOID.COMMON_NAME, INSTANCE),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "opc-certtype:instance"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, f"opc-tenant:{TENANCY}"),
        ]
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name(units))
            .issuer_name(x509.Name(units[:1]))
            .public_key(self._key.public_key())
            .serial_number(7)
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .sign(self._key, hashes.SHA256())
        )

    def metadata(self, path: str) -> bytes | None:
        """What is below /opc/v2/."""
        pem = serialization.Encoding.PEM
        if path == "instance/":
            region = {"regionIdentifier": "us-ashburn-1", "realmDomainComponent": "oraclecloud.com"}
            known = {
                "id": INSTANCE,
                "compartmentId": COMPARTMENT,
                "regionInfo": region,
                "metadata": self.told,
            }
            return json.dumps(known).encode()
        if path == "vnics/":
            return json.dumps(self.cards).encode()
        if path in ("identity/cert.pem", "identity/intermediate.pem"):
            return self.certificate.public_bytes(pem)
        if path == "identity/key.pem":
            form = serialization.PrivateFormat.TraditionalOpenSSL
            return self._key.private_bytes(pem, form, serialization.NoEncryption())
        return None

    def token(self, body: bytes) -> dict[str, str]:
        """A token for the key of a session."""
        asked = json.loads(body)
        der = base64.b64decode(asked["certificate"], validate=True)
        assert der == self.certificate.public_bytes(serialization.Encoding.DER)
        assert [base64.b64decode(each) for each in asked["intermediateCertificates"]] == [der]
        key = serialization.load_der_public_key(base64.b64decode(asked["publicKey"]))
        assert isinstance(key, rsa.RSAPublicKey)
        name = f"token{len(self.tokens) + 1}"
        self.tokens[name] = key
        return {"token": name}

    def signer(self, key_id: str) -> rsa.RSAPublicKey | None:
        """Whose key a request says that it is signed with."""
        mark = hashlib.sha1(
            self.certificate.public_bytes(serialization.Encoding.DER), usedforsecurity=False
        ).hexdigest()
        coloned = ":".join(mark[at : at + 2] for at in range(0, 40, 2)).upper()
        if key_id == f"{TENANCY}/fed-x509/{coloned}":
            return self._key.public_key()
        return self.tokens.get(key_id.removeprefix("ST$")) if key_id.startswith("ST$") else None

    def answer(
        self, method: str, url: str, body: bytes, *, only_new: bool = False
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers of a service's answer."""
        parts = urlsplit(url)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        words = [unquote(each) for each in parts.path.strip("/").split("/")]
        if words[:4] == ["n", self.namespace, "b", self.bucket] and words[4] == "o":
            return self._object(method, "/".join(words[5:]), body, only_new)
        if words[:2] == ["20190301", "secretbundles"] and words[2] in self.secrets:
            text = base64.b64encode(self.secrets[words[2]].encode()).decode()
            content = {"contentType": "BASE64", "content": text}
            return 200, {"secretId": words[2], "secretBundleContent": content}, {}
        if words == ["20160918", "volumeAttachments"] and asked["instanceId"] == INSTANCE:
            assert asked["compartmentId"] == COMPARTMENT
            first = int(asked.get("page", "0"))
            last = first + self.page
            more = {"opc-next-page": str(last)} if last < len(self.attachments) else {}
            listed = self.attachments[first:last]
            if self.later is not None and not more:
                self.attachments, self.later = self.later, None
            return 200, listed, more
        if words[:2] == ["20160918", "volumes"] and len(words) == 3 and words[2] in self.volumes:
            return 200, {"id": words[2], "lifecycleState": self.volumes[words[2]]}, {}
        return _NOT_FOUND

    def put_unsigned(self, url: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        """What a pre-authenticated request lets anybody put who knows its address."""
        request, _, key = unquote(url).partition("/o/")
        allowed = self.requests.get(f"{request}/o/")
        if allowed is None or not (key == allowed or (allowed.endswith("/") and key.startswith(allowed))):
            return _NOT_FOUND
        self.objects[key] = body
        return 200, b"", {}

    def _object(self, method: str, key: str, body: bytes, only_new: bool) -> tuple[int, Any, dict[str, str]]:
        if key.startswith(self.hides or "\0"):
            return _NOT_FOUND
        if method == "PUT":
            # The policy of the grid: nobody puts reports, logs or bundles by being an instance.
            if key.startswith(("boot/", "boot-logs/", "bundles/")):
                return _NOT_FOUND
            if only_new and key in self.objects:
                return 412, {"code": "IfNoneMatchFailed", "message": "the object is there already"}, {}
            self.objects[key] = body
            return 200, b"", {}
        return (200, self.objects[key], {}) if key in self.objects else _NOT_FOUND


_NOT_FOUND: tuple[int, Any, dict[str, str]] = (
    404,
    {"code": "NotAuthorizedOrNotFound", "message": "not authorized or not there"},
    {},
)


def _handler(cloud: OciInstance) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.path.startswith("/opc/v2/"):
                found = cloud.metadata(self.path.removeprefix("/opc/v2/"))
                is_let_in = self.headers["Authorization"] == "Bearer Oracle"
                self._send(200 if is_let_in and found else 404, found or b"", {})
            elif cloud.faults and self.path.startswith("/p/"):
                self._send(cloud.faults.pop(0), {"code": "Fault", "message": "as ordered"}, {})
            elif self.command == "PUT" and self.path.startswith("/p/"):
                self._send(*cloud.put_unsigned(self.path, body))
            elif not self._is_signed(body):
                self._send(401, {"code": "NotAuthenticated", "message": "not signed"}, {})
            elif self.path == "/v1/x509":
                self._send(200, cloud.token(body), {})
            elif cloud.faults:
                self._send(cloud.faults.pop(0), {"code": "Fault", "message": "as ordered"}, {})
            else:
                only_new = self.headers["If-None-Match"] == "*"
                self._send(*cloud.answer(self.command, self.path, body, only_new=only_new))

        def _is_signed(self, body: bytes) -> bool:
            said = dict(re.findall(r'(\w+)="([^"]*)"', self.headers.get("Authorization", "")))
            key = cloud.signer(said.get("keyId", ""))
            names = said.get("headers", "").split()
            wanted = [each for each in _PLAIN if each != "host" or self.path != "/v1/x509"]
            if self.command == "POST":
                wanted += _BODY
            digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
            if key is None or names != wanted or said.get("version") != "1":
                return False
            if "x-content-sha256" in names and self.headers["x-content-sha256"] != digest:
                return False
            target = f"{self.command.lower()} {self.path}"
            text = "\n".join(
                f"{each}: {target if each == '(request-target)' else self.headers[each]}" for each in names
            )
            with suppress(InvalidSignature):
                signed = base64.b64decode(said["signature"])
                key.verify(signed, text.encode(), padding.PKCS1v15(), hashes.SHA256())
                return True
            return False

        def _send(self, status: int, content: Any, headers: dict[str, str]) -> None:
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_PUT = do_POST = _serve

    return Handler
