"""Requests to Oracle Cloud that a machine signs as itself, by its instance principal.

It needs Python 3.9 and the program openssl, which every image of the platform has, and no package: a machine
without a way to the internet reaches Oracle's services by the service gateway alone. Keys are passed through
pipes; none is in a file or on a command line.

Sources: Oracle Cloud documentation, calling services from an instance; request signatures (version 1); what
the oci SDK for Python 2.189.0 sends (auth/federation_client.py, signer.py).
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

METADATA = os.environ.get("OCI_METADATA_BASE_URL", "http://169.254.169.254/opc/v2")
ENDPOINT = os.environ.get("GRIDWRIGHT_OCI_ENDPOINT", "")
"""Where all services are, in place of their own addresses: a double of the cloud."""
PAUSE_S = float(os.environ.get("GRIDWRIGHT_BOOT_PAUSE_S", "15"))
TRIES = 8
REQUEST_S = 60
SIGN_S = 30
_ATTEMPTS = 4
LARGEST = 1 << 30
"""Bytes of an answer: a bundle has some MB."""
_PLAIN = ("date", "(request-target)")
_BODY = ("content-length", "content-type", "x-content-sha256")


class Refused(Exception):
    """A request that was not answered as it should be; `status` is that of HTTP, 0 where nobody answered."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def metadata(path: str) -> bytes:
    """What the metadata service says; asked a few times where nobody answers. Raises Refused."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"{METADATA}/{path}"
    last = Refused(0, f"{url} is not answered")
    for attempt in range(TRIES):
        time.sleep(PAUSE_S if attempt else 0)
        request = urllib.request.Request(url, headers={"Authorization": "Bearer Oracle"})  # noqa: S310
        try:
            with opener.open(request, timeout=20) as answer:
                return bytes(answer.read(1 << 20))
        except urllib.error.HTTPError as error:
            last = Refused(error.code, f"{url}: status {error.code}")
            if error.code == 404:
                break
        except OSError as error:
            last = Refused(0, f"{url} is not answered: {getattr(error, 'reason', error)}")
    raise last


def openssl(*words: str, stdin: bytes = b"", key: str = "") -> bytes:
    """What openssl prints; `KEY` among the words stands for a file that holds `key`. Raises Refused."""
    read, write = os.pipe()
    try:
        os.write(write, key.encode())  # a key of some kB is within what a pipe holds
        os.close(write)
        command = ["openssl", *(f"/dev/fd/{read}" if word == "KEY" else word for word in words)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=SIGN_S, check=False, pass_fds=[read]
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(0, f"openssl {words[0]}: {error}") from None
    finally:
        os.close(read)
    if done.returncode:
        raise Refused(0, f"openssl {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def signature(key: str, key_id: str, names: tuple[str, ...], values: Mapping[str, str]) -> str:
    """The header Authorization for these headers, in this order, signed with a private RSA key (PEM)."""
    text = "\n".join(f"{name}: {values[name]}" for name in names)
    signed = base64.b64encode(
        openssl("dgst", "-sha256", "-sign", "KEY", stdin=text.encode(), key=key)
    ).decode()
    return (
        f'Signature algorithm="rsa-sha256",headers="{" ".join(names)}",keyId="{key_id}",'
        f'signature="{signed}",version="1"'
    )


def bare(pem: str) -> str:
    """The base64 text of a certificate or key, without its first and last line."""
    return "".join(line for line in pem.splitlines() if line and not line.startswith("-----"))


class InstancePrincipal:
    """A machine as Oracle's services know it; a token is got when it is first needed, or was refused."""

    def __init__(self) -> None:
        known = json.loads(metadata("instance/"))
        self.instance: str = known["id"]
        self.compartment: str = known["compartmentId"]
        region = known.get("regionInfo") or {}
        self.region: str = region.get("regionIdentifier") or known["canonicalRegionName"]
        self.domain: str = region.get("realmDomainComponent") or "oraclecloud.com"
        self.told: Mapping[str, Any] = known.get("metadata") or {}
        self._key = self._token = ""

    def request(
        self,
        method: str,
        service: str,
        path: str,
        body: bytes | None = None,
        *,
        signs_body: bool = True,
        more: Mapping[str, str] | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        """The answer and its headers. `service` is the name before `.REGION`, such as objectstorage.

        Raises Refused. Without `signs_body` the content is left to TLS, as Object Storage takes it. What is
        overloaded or away for a moment is asked again, each time later, and a token that ended is renewed.
        """
        renewed = False
        for attempt in range(_ATTEMPTS):
            if not self._token:
                self._refresh()
            try:
                return self._send(method, self._host(service), path, body, signs_body, more)
            except Refused as refused:
                last = refused
            if last.status == 401 and not renewed:
                self._token, renewed = "", True
            elif last.status in (0, 429) or last.status >= 500:
                time.sleep(PAUSE_S / 15 * 2**attempt if attempt < _ATTEMPTS - 1 else 0)
            else:
                break
        raise last

    def _host(self, service: str) -> str:
        between = ".oci" if service == "secrets.vaults" else ""
        return f"{service}.{self.region}{between}.{self.domain}"

    def _send(
        self,
        method: str,
        host: str,
        path: str,
        body: bytes | None,
        signs_body: bool,
        more: Mapping[str, str] | None,
    ) -> tuple[bytes, Mapping[str, str]]:
        names = (*_PLAIN, "host", *(_BODY if body is not None and signs_body else ()))
        return send(method, host, path, body, names, (self._key, f"ST${self._token}"), more)

    def _refresh(self) -> None:
        """Get a token for a new key of this session, as the certificate of the instance lets it."""
        leaf, own = metadata("identity/cert.pem").decode(), metadata("identity/key.pem").decode()
        between = metadata("identity/intermediate.pem").decode()
        session = openssl("genrsa", "2048").decode()
        public = openssl("rsa", "-pubout", "-in", "KEY", key=session).decode()
        wanted = {
            "certificate": bare(leaf),
            "publicKey": bare(public),
            "intermediateCertificates": [bare(between)],
        }
        digest = hashlib.sha1(base64.b64decode(bare(leaf)), usedforsecurity=False).hexdigest().upper()
        mark = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
        signer = own, f"{tenancy(leaf)}/fed-x509/{mark}"
        content = json.dumps(wanted).encode()
        answer, _ = send("POST", self._host("auth"), "/v1/x509", content, (*_PLAIN, *_BODY), signer)
        self._key, self._token = session, str(json.loads(answer)["token"])


def tenancy(leaf: str) -> str:
    """The tenancy's OCID out of the subject of an instance's certificate. Raises Refused."""
    subject = openssl("x509", "-noout", "-subject", "-nameopt", "multiline", stdin=leaf.encode()).decode()
    found = re.search(r"= opc-(?:tenant|identity):(\S+)$", subject, re.MULTILINE)
    if found is None:
        raise Refused(0, "the certificate of this instance names no tenancy")
    return found[1]


def send(
    method: str,
    host: str,
    path: str,
    body: bytes | None,
    names: tuple[str, ...],
    signer: tuple[str, str],
    more: Mapping[str, str] | None = None,
) -> tuple[bytes, Mapping[str, str]]:
    """One signed request; `signer` is a private key and the ID that it is known by. Raises Refused."""
    base = ENDPOINT or f"https://{host}"
    url = base + path
    content = body or b""
    kind = "application/json" if "content-type" in names else "application/octet-stream"
    values = {
        "date": email.utils.formatdate(usegmt=True),
        "host": urllib.parse.urlsplit(base).netloc,
        "content-length": str(len(content)),
        "content-type": kind,
        "x-content-sha256": base64.b64encode(hashlib.sha256(content).digest()).decode(),
    }
    sent = {name: value for name, value in values.items() if name in names or name in ("date", "host")}
    if body is not None:
        sent["content-type"] = kind
    sent.update(more or {})
    known = {**values, "(request-target)": f"{method.lower()} {path}"}
    sent["authorization"] = signature(signer[0], signer[1], names, known)
    request = urllib.request.Request(url, data=body, headers=sent, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:  # noqa: S310
            return bytes(answer.read(LARGEST)), {
                name.lower(): value for name, value in answer.headers.items()
            }
    except urllib.error.HTTPError as error:
        raise Refused(error.code, f"{host}{path}: status {error.code} {_message(error)}".rstrip()) from None
    except OSError as error:
        raise Refused(0, f"{host} is not reached: {getattr(error, 'reason', error)}") from None


def _message(error: urllib.error.HTTPError) -> str:
    """What the service says is wrong: code and message of its JSON."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        said = json.loads(error.read(1 << 16))
        return f"{said.get('code', '')}: {said.get('message', '')}"
    return ""
