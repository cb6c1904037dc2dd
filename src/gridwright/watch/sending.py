"""Who gets notices, the secrets of receivers, and notifiers, which send to each receiver beside the rounds.

A process of its own (`send_program.py`) sends one notice.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.commands import CommandError, CommandPlace, CommandStopped, run_bounded
from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.handed_files import open_file
from gridwright.messages import MessageError, Messages, decode, encode
from gridwright.trusted import why_untrusted_path
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

    found = []
    for name, receiver in receivers.items():
        if isinstance(receiver, ProgramReceiver) and shutil.which(receiver.words[0]) is None:
            remedy = "write the whole path of a program that may be run here"
            found.append(Problem(f"there is no program {receiver.words[0]}", where=name, remedy=remedy))
        if isinstance(receiver, WebReceiver):
            if receiver.secret_file is not None:
                found += _secret_problem(receiver.secret_file, name)
            elif not os.environ.get(SECRET_VARIABLE):
                remedy = f"name a file with a secret (secret_file, --secret-file), or set {SECRET_VARIABLE}"
                found.append(Problem("nothing signs notices for the webhook", where=name, remedy=remedy))
        if isinstance(receiver, MailReceiver):
            if receiver.password_file is not None:
                found += _secret_problem(receiver.password_file, name)
            if (receiver.user is None) is not (receiver.password_file is None):
                remedy = "write user and password_file, both or neither"
                found.append(Problem("half of a login at the mail server", where=name, remedy=remedy))
            if receiver.user is not None and receiver.server is None:
                remedy = "name the server, such as smtp.example.org:587"
                found.append(Problem("a login, and no mail server", where=name, remedy=remedy))
    return found


_MOST = 4096


def read_secret(path: str) -> str:
    """The first line. Raises GridwrightError (ENVIRONMENT)."""
    for problem in _secret_problem(path, path):
        raise environment_error(problem.what, where=problem.where, remedy=problem.remedy)
    try:
        with open_file(Path(path)) as file:
            return file.read(_MOST).decode().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(getattr(error, "strerror", None) or "it is no text")) from error


def _secret_problem(path: str, where: str) -> list[Problem]:
    """Why a file is not taken for a secret: it is not there, empty, or everybody can read it."""
    try:
        found = os.stat(path)  # noqa: PTH116 - path and errors as they are
        if not os.access(path, os.R_OK):
            return [Problem(f"{path} may not be read", where=where, remedy="let the watch's user read it")]
    except OSError as error:
        return [
            Problem(f"{path}: {error.strerror}", where=where, remedy="make it, with the secret as its line")
        ]
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        return [Problem(f"{path} holds no secret", where=where, remedy="write it, as the first line")]
    if found.st_mode & stat.S_IRWXO:
        return [Problem(f"everybody can read {path}", where=where, remedy=f"chmod o= {path}")]
    return []


def _unreadable(path: str, why: str) -> GridwrightError:
    return environment_error(f"the secret cannot be read: {why}", where=path)


FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 900.0
_MOST_BYTES = 1 << 20
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.watch.send_program")
_SHOWN = 200


class Notifiers:
    """Tries run in threads and wait for a process each; a stop ends them within a second.

    When a receiver is tried again is by a clock that does not step; a new watch tries at once.
    """

    def __init__(
        self, receivers: Mapping[str, AnyReceiver], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.receivers = dict(receivers)
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(receivers)), thread_name_prefix="notifier")
        self._under_way: dict[str, tuple[str, Future[SendOutcome]]] = {}
        self._next: dict[str, float] = {}
        self._stop = threading.Event()

    def is_free(self, name: str) -> bool:
        """Whether a receiver may be sent something now."""
        return name not in self._under_way and self._clock() >= self._next.get(name, 0.0)

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    def wait_s(self, name: str) -> float:
        """Seconds until a receiver may be tried again."""
        return max(0.0, self._next.get(name, 0.0) - self._clock())

    def begin(self, name: str, notice: Notification) -> None:
        """Begin a try to send a notice, which has this try counted already."""
        receiver = self.receivers[name]
        self._under_way[name] = (
            notice.id,
            self._pool.submit(partial(send_once, receiver, notice, self._stop.is_set)),
        )

    def ended(self) -> list[tuple[str, str, SendOutcome]]:
        """The tries that have ended: receiver, notice, outcome."""
        found = []
        for name, (notice, future) in list(self._under_way.items()):
            if future.done():
                del self._under_way[name]
                found.append((name, notice, future.result()))
        return found

    def failed(self, name: str, failures: int, outcome: SendOutcome) -> None:
        """Leave a receiver alone for a while, that has failed so many times in a row."""
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - 1, 20))
        self._next[name] = self._clock() + max(wait_s, outcome.retry_after_s)

    def close(self) -> None:
        """End what is under way; what was sent and not told counts as not sent."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def send_once(receiver: AnyReceiver, notice: Notification, stop: Callable[[], bool]) -> SendOutcome:
    """Send a notice once, in a process of its own and in bounded time."""
    try:
        if isinstance(receiver, ProgramReceiver):
            return _to_program(receiver, notice, stop)
        order = SendOrder(RECEIVERS.plain(receiver), notice, notice.attempts)
        place = CommandPlace(stop=stop)
        ended = run_bounded(
            _PROGRAM, stdin=encode(order), timeout_s=SEND_S, most_bytes=_MOST_BYTES, name="sending", at=place
        )
        if ended.status == 0:
            return decode(ended.stdout, SendOutcome)
        return SendOutcome(f"exit status {ended.status}: {_last(ended.stderr)}")
    except CommandStopped:
        return SendOutcome("it was stopped", stopped=True)
    except (CommandError, MessageError, UnicodeDecodeError) as error:
        return SendOutcome(str(error).partition("\n")[0])


def _to_program(receiver: ProgramReceiver, notice: Notification, stop: Callable[[], bool]) -> SendOutcome:
    program = shutil.which(receiver.words[0])
    if program and (reason := why_untrusted_path(Path(program).absolute())):
        return SendOutcome(f"{program} is not run: {reason}")
    environment = {name: value for name, value in os.environ.items() if name != SECRET_VARIABLE}
    environment |= {"GRIDWRIGHT_NOTICE": notice.id, "GRIDWRIGHT_ATTEMPT": str(notice.attempts)}
    ended = run_bounded(
        receiver.words,
        stdin=json.dumps(notice.document()).encode() + b"\n",
        environment=environment,
        timeout_s=SEND_S,
        most_bytes=_MOST_BYTES,
        at=CommandPlace(stop=stop),
    )
    if ended.status == 0:
        return SendOutcome()
    return SendOutcome(f"{receiver.words[0]}: exit status {ended.status} {_last(ended.stderr)}".strip())


def _last(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:_SHOWN] if lines else ""
