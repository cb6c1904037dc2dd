"""Runs a command of the user's on a node: in its namespaces, with the terminal and files of this process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from gridwright.errors import environment_error
from gridwright.providers.lab.node import Node
from gridwright.providers.lab.syscalls import Namespace, enter

_ALL = Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.NETWORK
CANNOT_RUN, NOT_FOUND = 126, 127
"""Exit statuses that shells have for a command that cannot be run, or is not there."""


def attach(node: Node, command: Sequence[str]) -> int:
    """Run a command on a node and return its exit status; 128 + n where signal n ended it.

    It has this process's standard streams, environment, and working directory where the node has that.
    Raises GridwrightError where the node is not up, or cannot be entered.
    """
    node.check()
    directory = os.getcwd()  # noqa: PTH109 - Path.cwd() would not be shorter
    try:
        # Children begin in the PID namespace of the node: they end with it.
        enter(node.process.pid, Namespace.PID)
    except OSError as error:
        node.check()
        raise environment_error(
            f"node {node.name} cannot be entered: {error}", remedy="see gridwright status"
        ) from error
    child = os.fork()
    if child == 0:
        _become(node, command, directory)
    return _follow(child)


def _become(node: Node, command: Sequence[str], directory: str) -> NoReturn:
    status = CANNOT_RUN
    try:
        node.groups.join()
        cgroup = Namespace.CGROUP if node.groups.kind != "none" else Namespace(0)
        enter(node.process.pid, _ALL | cgroup)
        try:
            os.chdir(directory)
        except OSError:
            os.chdir("/")
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))  # noqa: S606 - the user's own command
    except FileNotFoundError:
        status = NOT_FOUND
        sys.stderr.write(f"error: {node.name}: there is no command {command[0]}\n")
    except OSError as error:
        sys.stderr.write(f"error: {node.name}: {command[0]} cannot be run: {error.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(status)


def _follow(child: int) -> int:
    """Wait for the command; what a terminal sends reaches it anyway, other signals are handed on."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hand_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
