"""Sends one notice to a URL or by mail: `python -m gridwright.watch.send_program` reads a SendOrder.

A process of its own, since names that are not resolved and servers that drip hold it up without end, and
nothing else can be killed.

Sends a notice by mail: through a server, over TLS where it offers that, or by sendmail of this machine.

Posts a notice to a URL, signed as Standard Webhooks 1.0 has it (standardwebhooks.com, specification).
"""

from __future__ import annotations

import base64
import binascii
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import smtplib
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from email.message import EmailMessage
from typing import IO, Any

from gridwright import __version__
from gridwright.commands import run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.messages import MessageError, decode, encode
from gridwright.state_parts import this_user
from gridwright.watch.notifications import Notification, letter, subject
from gridwright.watch.sending import (
    RECEIVERS,
    SECRET_VARIABLE,
    MailReceiver,
    SendOrder,
    SendOutcome,
    WebReceiver,
    read_secret,
)

CONNECT_S = 10.0
"""For each step of a connection; the whole try has its own limit."""
LEAST_SECRET = 16
"""Bytes; Standard Webhooks recommends 24 to 64."""
_PREFIX = "whsec_"
_MOST_S = 3600.0
_WEBHOOK_SHOWN = 200


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A notice goes to the URL that was named, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - as urllib has it
        """Follow none."""
        return


def post(receiver: WebReceiver, notice: Notification, attempt: int) -> SendOutcome:
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
        return _outcome(error.code, _answer_text(error), error.headers.get("retry-after"))
    except (OSError, http.client.HTTPException) as error:
        return SendOutcome(
            f"{getattr(error, 'reason', None) or error}"[:_WEBHOOK_SHOWN] or type(error).__name__
        )


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


def _answer_text(error: IO[bytes]) -> str:
    try:
        text = error.read(_WEBHOOK_SHOWN).decode(errors="replace")
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


STEP_S = 10.0
"""For each step of a conversation; the whole try has its own limit."""
IMPLICIT_TLS = 465
"""RFC 8314, section 3.3."""
_SENDMAIL = "/usr/sbin:/usr/lib:/usr/bin:/usr/local/sbin"
_SHOWN = 300


def send(receiver: MailReceiver, notice: Notification) -> SendOutcome:
    """Send it once. Raises GridwrightError (ENVIRONMENT) where the password cannot be read."""
    message = message_of(receiver, notice)
    if receiver.server is None:
        return _by_sendmail(message)
    try:
        refused = _by_server(receiver, receiver.server, message)
    except (OSError, smtplib.SMTPException) as error:
        return SendOutcome(_words(error))
    return SendOutcome(note=f"refused: {', '.join(refused)}" if refused else "")


def message_of(receiver: MailReceiver, notice: Notification) -> EmailMessage:
    """The message, with the same identity in each try."""
    message = EmailMessage()
    host = re.sub(r"[^A-Za-z0-9.-]", "-", notice.sender) or "localhost"
    message["Subject"] = subject(notice)
    message["From"] = receiver.sender or f"{this_user()}@{host}"
    message["To"] = ", ".join(receiver.to)
    message["Date"] = email.utils.formatdate(notice.at_s)
    message["Message-ID"] = f"<{notice.id}@{host}>"
    # RFC 3834: nobody's holiday answers it.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter(notice))
    return message


def _by_server(receiver: MailReceiver, server: str, message: EmailMessage) -> list[str]:
    """Hand it in; the addresses that the server refused, where it took others."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context()
    implicit = int(port) == IMPLICIT_TLS
    connection = (
        smtplib.SMTP_SSL(host, int(port), timeout=STEP_S, context=context)
        if implicit
        else smtplib.SMTP(host, int(port), timeout=STEP_S)
    )
    with connection as smtp:
        smtp.ehlo()
        secure = implicit
        if not implicit and smtp.has_extn("starttls"):
            smtp.starttls(context=context)
            smtp.ehlo()
            secure = True
        if receiver.user is not None and receiver.password_file is not None:
            if not secure:
                raise smtplib.SMTPException("it offers no TLS, and a password goes over TLS only")
            smtp.login(receiver.user, read_secret(receiver.password_file))
        return list(smtp.send_message(message))


def _by_sendmail(message: EmailMessage) -> SendOutcome:
    program = shutil.which("sendmail", path=_SENDMAIL)
    if program is None:
        return SendOutcome("no mail server is named, and this machine has no sendmail")
    try:
        ended = run_bounded([program, "-oi", "-t"], stdin=bytes(message), timeout_s=20.0, name="sendmail")
    except GridwrightError as error:
        return SendOutcome(error.problems[0].what)
    said = ended.stderr.decode(errors="replace").strip()[:_SHOWN]
    return SendOutcome() if ended.status == 0 else SendOutcome(f"sendmail: exit status {ended.status} {said}")


def _words(error: OSError | smtplib.SMTPException) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"all addresses were refused: {', '.join(error.recipients)}"[:_SHOWN]
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error
        return f"{error.smtp_code} {said.decode(errors='replace') if isinstance(said, bytes) else said}"[
            :_SHOWN
        ]
    if isinstance(error, socket.gaierror | TimeoutError):
        return str(error.strerror or error) or "no answer in time"
    return str(error)[:_SHOWN] or type(error).__name__


def main() -> None:
    """Carry out one order, and tell the outcome."""
    try:
        order = decode(sys.stdin.read(), SendOrder)
        receiver = RECEIVERS.typed(order.receiver)
    except MessageError as error:
        sys.exit(f"the order is not as agreed: {error}")
    try:
        outcome = _sent(receiver, order)
    except GridwrightError as error:
        outcome = SendOutcome(str(error.problems[0]).partition("\n")[0])
    print(encode(outcome).decode())  # noqa: T201 - the answer


def _sent(receiver: object, order: SendOrder) -> SendOutcome:
    if isinstance(receiver, WebReceiver):
        return post(receiver, order.notice, order.attempt)
    if isinstance(receiver, MailReceiver):
        return send(receiver, order.notice)
    return SendOutcome("nothing here sends to it")


if __name__ == "__main__":
    main()
