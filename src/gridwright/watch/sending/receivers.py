"""Who gets notices, and the message by which a process of its own is told to send one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gridwright.errors import Problem
from gridwright.messages import Messages
from gridwright.watch.notifications import Notification

if TYPE_CHECKING:
    # pydantic takes longer to load than a notice takes to be sent.
    from gridwright.spec.monitoring import WatchSection

SECRET_VARIABLE = "GRIDWRIGHT_WATCH_SECRET"  # noqa: S105 - where a secret is, and none
SEND_S = 30.0
"""How long one try may take."""


@dataclass(frozen=True, slots=True)
class ProgramReceiver:
    """A program that reads a notice as JSON."""

    words: list[str]


@dataclass(frozen=True, slots=True)
class WebReceiver:
    """A URL that a notice is posted to; the file has the secret, else the environment does."""

    url: str
    secret_file: str | None = None


@dataclass(frozen=True, slots=True)
class MailReceiver:
    """People, and the server that takes mail for them; without one the machine's own sendmail does."""

    to: list[str]
    sender: str | None = None
    server: str | None = None
    user: str | None = None
    password_file: str | None = None


AnyReceiver = ProgramReceiver | WebReceiver | MailReceiver
RECEIVERS: Messages[AnyReceiver] = Messages(
    "kind", {"command": ProgramReceiver, "webhook": WebReceiver, "mail": MailReceiver}
)


@dataclass(frozen=True, slots=True)
class SendOrder:
    """Send a notice once."""

    receiver: dict[str, object]
    """As RECEIVERS has it."""
    notice: Notification
    attempt: int


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """How a try went."""

    problem: str = ""
    """Why the notice was not taken; empty where it was."""
    note: str = ""
    """What did not go well though it was taken, such as one address of several that was refused."""
    retry_after_s: float = 0.0
    """How long the receiver asks to be left alone."""
    stopped: bool = field(default=False)
    """Whether it was ended from here, so that nothing is known."""


def receivers_of(section: WatchSection | None) -> dict[str, AnyReceiver]:
    """Those that a spec names, each by the field that has it."""
    receivers: dict[str, AnyReceiver] = {}
    if section is None:
        return receivers
    if section.command:
        receivers["command"] = ProgramReceiver(list(section.command))
    if section.webhook is not None:
        receivers["webhook"] = WebReceiver(section.webhook.url, section.webhook.secret_file)
    if section.mail is not None:
        mail = section.mail
        receivers["mail"] = MailReceiver(
            list(mail.to), mail.sender, mail.server, mail.user, mail.password_file
        )
    return receivers


def receiver_problems(receivers: dict[str, AnyReceiver]) -> list[Problem]:
    """What keeps notices from ever being sent, as far as it can be seen on this machine."""
    import os
    import shutil

    from gridwright.watch.sending.secret_files import secret_problem

    found = []
    for name, receiver in receivers.items():
        if isinstance(receiver, ProgramReceiver) and shutil.which(receiver.words[0]) is None:
            remedy = "write the whole path of a program that may be run here"
            found.append(Problem(f"there is no program {receiver.words[0]}", where=name, remedy=remedy))
        if isinstance(receiver, WebReceiver):
            if receiver.secret_file is not None:
                found += secret_problem(receiver.secret_file, name)
            elif not os.environ.get(SECRET_VARIABLE):
                remedy = f"name a file with a secret (secret_file, --secret-file), or set {SECRET_VARIABLE}"
                found.append(Problem("nothing signs notices for the webhook", where=name, remedy=remedy))
        if isinstance(receiver, MailReceiver):
            if receiver.password_file is not None:
                found += secret_problem(receiver.password_file, name)
            if (receiver.user is None) is not (receiver.password_file is None):
                remedy = "write user and password_file, both or neither"
                found.append(Problem("half of a login at the mail server", where=name, remedy=remedy))
            if receiver.user is not None and receiver.server is None:
                remedy = "name the server, such as smtp.example.org:587"
                found.append(Problem("a login, and no mail server", where=name, remedy=remedy))
    return found
