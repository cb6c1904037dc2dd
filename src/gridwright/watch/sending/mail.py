"""Sends a notice by mail: through a server, over TLS where it offers that, or by sendmail of this machine."""

from __future__ import annotations

import email.utils
import re
import shutil
import smtplib
import socket
import ssl
from email.message import EmailMessage

from gridwright.commands import run_bounded
from gridwright.errors import GridwrightError
from gridwright.state_parts import this_user
from gridwright.watch.notices import Notice, letter, subject
from gridwright.watch.sending.receivers import MailReceiver, SendOutcome
from gridwright.watch.sending.secret_files import read_secret

STEP_S = 10.0
"""For each step of a conversation; the whole try has its own limit."""
IMPLICIT_TLS = 465
"""RFC 8314, section 3.3."""
_SENDMAIL = "/usr/sbin:/usr/lib:/usr/bin:/usr/local/sbin"
_SHOWN = 300


def send(receiver: MailReceiver, notice: Notice) -> SendOutcome:
    """Send it once. Raises GridwrightError (ENVIRONMENT) where the password cannot be read."""
    message = message_of(receiver, notice)
    if receiver.server is None:
        return _by_sendmail(message)
    try:
        refused = _by_server(receiver, receiver.server, message)
    except (OSError, smtplib.SMTPException) as error:
        return SendOutcome(_words(error))
    return SendOutcome(note=f"refused: {', '.join(refused)}" if refused else "")


def message_of(receiver: MailReceiver, notice: Notice) -> EmailMessage:
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
