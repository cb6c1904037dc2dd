"""Runs the commands of a batch system on the head node, within a time, and again while nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, environment_error
from gridwright.schedulers.batch.system import NotReached, NotTaken, Unclear
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable

ANSWER_S = 30.0
"""The longest that one command may take."""
PATIENCE_S = 25.0
"""How long it is asked again while its service does not answer: a restart takes some seconds."""


_NOT_STARTED = (126, 127)
"""Exit statuses of shells, and of ssh, where a command cannot be started."""
_LAST_SIGNAL = 128 + 64
"""The highest exit status of a command that a signal ended."""


class Answered(Enum):
    """What the message of a command that failed says of its service."""

    YES = "yes"
    """It was understood, and refused."""
    AWAY = "away"
    """It was not reached."""
    UNCLEAR = "unclear"
    """It may have been reached, and no answer came."""


class ServiceDown(GridwrightError):
    """The service does not answer now, and may later (status ENVIRONMENT)."""

    def __init__(self, error: GridwrightError) -> None:
        super().__init__(*error.problems, status=error.status)


def retrying(seconds: float) -> Retrying:
    """Calls again what raised ServiceDown, for so long, with pauses that grow to 2 s; then raises it."""
    return Retrying(
        retry=retry_if_exception_type(ServiceDown),
        stop=stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.2, max=2.0),
        reraise=True,
    )


class CommandMissing(GridwrightError):
    """A command is not there (status ENVIRONMENT)."""

    def __init__(self, error: GridwrightError) -> None:
        super().__init__(*error.problems, status=error.status)


class BatchTools:
    """The commands of one batch system."""

    def __init__(
        self,
        head: HeadNode,
        system: str,
        environment: Mapping[str, str],
        meaning: Callable[[str], Answered],
        prefix: Sequence[str] = (),
    ) -> None:
        """`meaning` tells what a message says of the service; `prefix` comes before every command."""
        self.head = head
        self._system = system
        self._environment = environment
        self._meaning = meaning
        self._prefix = prefix

    def run(self, command: Sequence[str], *, timeout_s: float = ANSWER_S) -> CommandOutput:
        """Run a command once, whatever its status. Raises GridwrightError (ENVIRONMENT)."""
        words = [*self._prefix, *command]
        try:
            answer = self.head.run(words, environment=self._environment, timeout_s=timeout_s)
        except CommandNotStarted as error:
            raise self._missing(error.problems[0].what) from error
        if answer.status in _NOT_STARTED:
            raise self._missing(f"{command[0]} cannot be started: {message(answer)}")
        return answer

    def _missing(self, what: str) -> CommandMissing:
        remedy = (
            f"install the commands of {self._system} on the head node, or name where they are in the spec"
        )
        return CommandMissing(environment_error(what, where=self.head.name, remedy=remedy))

    def query(
        self,
        command: Sequence[str],
        *,
        allowed: Callable[[CommandOutput], bool] = lambda _: False,
        timeout_s: float = ANSWER_S,
    ) -> bytes:
        """What a command prints that only reads, or may be repeated; asked again while nobody answers.

        `allowed` tells which failures are an answer. Raises GridwrightError (ENVIRONMENT).
        """
        return retrying(PATIENCE_S)(self._query, command, allowed, timeout_s)

    def _query(
        self, command: Sequence[str], allowed: Callable[[CommandOutput], bool], timeout_s: float
    ) -> bytes:
        try:
            answer = self.run(command, timeout_s=timeout_s)
        except (HeadNodeUnreachable, CommandMissing):
            raise
        except GridwrightError as error:
            raise ServiceDown(error) from error
        said = message(answer)
        if answer.status == 0 or allowed(answer):
            return answer.stdout
        silent = self._meaning(said) is not Answered.YES
        failed = environment_error(
            f"{self._system} does not answer: {command[0]} says {said}"
            if silent
            else f"{command[0]} failed: {said}",
            where=self.head.name,
            remedy=f"see whether the service of {self._system} runs there",
        )
        raise ServiceDown(failed) if silent else failed

    def hand_in(self, command: Sequence[str]) -> CommandOutput:
        """Run a command that submits a job, once. Raises NotTaken, NotReached and Unclear."""
        try:
            answer = self.run(command)
        except CommandMissing:
            raise
        except GridwrightError as error:
            # Of a head node that is out of reach, too, nobody knows how far it came.
            raise Unclear(error.problems[0].what) from error
        if answer.status:
            said = message(answer)
            if self._meaning(said) is Answered.AWAY:
                raise NotReached(said)
            # A signal, or a connection that broke: it may have arrived. LSF refuses with 255.
            killed = 128 < answer.status <= _LAST_SIGNAL
            if self._meaning(said) is Answered.UNCLEAR or killed or not said:
                raise Unclear(said or f"{command[0]} was killed")
            raise NotTaken(said)
        return answer


def message(answer: CommandOutput) -> str:
    """What a command complained of, in one line."""
    text = (answer.stderr or answer.stdout).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip() != "Exiting."]
    return "; ".join(lines)[:600]
