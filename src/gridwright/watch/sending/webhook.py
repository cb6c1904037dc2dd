"""Posts a notice to a URL, signed as Standard Webhooks 1.0 has it (standardwebhooks.com, specification)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from typing import IO, Any

from gridwright import __version__
from gridwright.errors import GridwrightError, environment_error
from gridwright.watch.notices import Notice
from gridwright.watch.sending.receivers import SECRET_VARIABLE, SendOutcome, WebReceiver
from gridwright.watch.sending.secret_files import read_secret

CONNECT_S = 10.0
"""For each step of a connection; the whole try has its own limit."""
LEAST_SECRET = 16
"""Bytes; Standard Webhooks recommends 24 to 64."""
_PREFIX = "whsec_"
_MOST_S = 3600.0
_SHOWN = 200


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A notice goes to the URL that was named, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - as urllib has it
        """Follow none."""
        return


def post(receiver: WebReceiver, notice: Notice, attempt: int) -> SendOutcome:
    """Post it once. Raises GridwrightError (ENVIRONMENT) where there is no secret."""
    body = json.dumps(notice.document(), separators=(",", ":")).encode()
    seconds = int(time.time())
    headers = {
        "content-type": "application/json",
        "user-agent": f"gridwright/{__version__}",
        "webhook-id": notice.id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(_secret(receiver), notice.id, seconds, body),
        "gridwright-attempt": str(attempt),
    }
    request = urllib.request.Request(receiver.url, body, headers, method="POST")  # noqa: S310 - checked by the spec
    # Without TLS are receivers of this machine alone, whom no proxy knows.
    proxies = urllib.request.ProxyHandler({} if receiver.url.startswith("http://") else None)
    try:
        with urllib.request.build_opener(proxies, _NoRedirect).open(request, timeout=CONNECT_S) as answer:
            return _outcome(answer.status, "", None)
    except urllib.error.HTTPError as error:
        return _outcome(error.code, _said(error), error.headers.get("retry-after"))
    except (OSError, http.client.HTTPException) as error:
        return SendOutcome(f"{getattr(error, 'reason', None) or error}"[:_SHOWN] or type(error).__name__)


def signature(secret: bytes, id_: str, seconds: int, body: bytes) -> str:
    """HMAC-SHA256 of id, time of sending (seconds since 1970) and body, with dots between them."""
    content = f"{id_}.{seconds}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()}"


def secret_bytes(text: str) -> bytes:
    """A secret as it is written: whsec_ and base64, or any text. Raises ValueError for a short one."""
    found = text.encode()
    if text.startswith(_PREFIX):
        try:
            found = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise ValueError(f"what stands behind {_PREFIX} is not base64") from None
    if len(found) < LEAST_SECRET:
        raise ValueError(f"it has {len(found)} bytes, and {LEAST_SECRET} are the least")
    return found


def _secret(receiver: WebReceiver) -> bytes:
    where = receiver.secret_file or SECRET_VARIABLE
    text = read_secret(receiver.secret_file) if receiver.secret_file else os.environ.get(SECRET_VARIABLE, "")
    try:
        return secret_bytes(text)
    except ValueError as error:
        raise _unusable(str(error), where) from error


def _unusable(why: str, where: str) -> GridwrightError:
    remedy = "make one: openssl rand -base64 32"
    return environment_error(f"the secret of the webhook cannot be used: {why}", where=where, remedy=remedy)


def _said(error: IO[bytes]) -> str:
    try:
        text = error.read(_SHOWN).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _outcome(status: int, said: str, retry_after: str | None) -> SendOutcome:
    if 200 <= status < 300:
        return SendOutcome()
    wait_s = (
        min(float(retry_after), _MOST_S)
        if retry_after and retry_after.isascii() and retry_after.isdigit()
        else 0.0
    )
    return SendOutcome(f"HTTP status {status}{f': {said}' if said else ''}", retry_after_s=wait_s)
