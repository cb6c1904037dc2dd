"""Starts commands of tests as forks of one interpreter that has imported what every command does.

A program of its own: it is told on a socket what to run, and says on another how that ended. What it starts
is a process with its own arguments, directory, environment and files, which begins where the script
`gridwright` begins; only the time of the imports is saved, a third of a second of one core each time, and
that of freeing them.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import boto3
import botocore.session
from botocore import hooks

import gridwright
from gridwright.cli.start import run
from gridwright.report import document

OF_MACHINES = tuple(f"gridwright.providers.{each}" for each in ("boot.", "aws.boot.", "oci.boot."))
"""What machines run from files beside each other: no command imports it."""
WITH_DUCKDB = "gridwright.workload.programs.sql"
"""Few commands need what it imports, and each fork would take longer."""
OF_AWS = (
    *("autoscaling", "cloudformation", "cloudwatch", "dynamodb", "ec2", "elbv2", "fsx", "iam"),
    *("kms", "resourcegroupstaggingapi", "route53", "s3", "secretsmanager", "service-quotas"),
    *("sns", "ssm", "sts"),
)
"""Their descriptions are read once: each command on a cloud reads some of them, for a second of one core."""
UNFLUSHED = 120
"""The interpreter's own exit status where the last of what was written is lost."""
LONGEST = 1 << 20
"""Bytes of what a command is started with."""


class Server:
    """Forks a command for each request; `serve` returns in each of them."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def serve(self) -> None:
        """Take requests until nobody is left who could make one; then the program ends."""
        while True:
            for key, _ in self._selector.select():
                if key.data:
                    self._tell(key.fd, *key.data)
                elif self._start():
                    return

    def _start(self) -> bool:
        """Fork a command; whether this is it."""
        said, files, _, _ = socket.recv_fds(self._requests, LONGEST, 4)
        if not said:
            os._exit(0)
        *standard, status = files
        pid = os.fork()
        if not pid:
            self._selector.close()
            self._requests.close()
            _become(json.loads(said), standard)
            return True
        for file in standard:
            os.close(file)
        self._requests.send(str(pid).encode())
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))
        return False

    def _tell(self, pidfd: int, pid: int, status: int) -> None:
        """Say how a command ended."""
        _, ended = os.waitpid(pid, 0)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(BrokenPipeError):
            os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
        os.close(status)


def _become(request: dict[str, object], standard: list[int]) -> None:
    """Turn into a process that was started with these words, this environment and these files."""
    for number, file in enumerate(standard):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(str(request["directory"]))
    os.umask(int(str(request["umask"])))
    environment = request["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    sys.argv = arguments
    Path("/proc/self/comm").write_text("gridwright")


@cache
def botocore_once() -> None:
    """Have this process and its forks do once what botocore does for each session: a twentieth of a second.

    It reads what describes services, looks for other names of 120 events, and how each of their handlers is
    called.
    """
    loader = botocore.session.Session().get_component("data_loader")
    botocore.session.create_loader = lambda _=None: loader
    hooks.accepts_kwargs = lru_cache(maxsize=1024)(hooks.accepts_kwargs)
    begin, names = hooks.EventAliaser.__init__, dict[str, str]()

    def begun(self: Any, *more: Any) -> None:
        begin(self, *more)
        self._alias_name_cache = names

    hooks.EventAliaser.__init__ = begun


def _import_all() -> None:
    """Import what commands import as they go on; a fork would have no thread that an import starts."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for module in walk_packages(gridwright.__path__, "gridwright."):
        if not module.name.startswith((WITH_DUCKDB, *OF_MACHINES)):
            import_module(module.name)
    for template in document.environment().list_templates(extensions=["j2"]):
        document.environment().get_template(template)
    botocore_once()
    for service in OF_AWS:
        boto3.client(service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none")  # noqa: S106
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    gc.freeze()


def _run() -> int:
    """Run the command; its exit status."""
    try:
        run()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(status: int) -> None:
    """End as an interpreter does, but free nothing: what was imported before the fork would be copied."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        status = UNFLUSHED
    os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _import_all()
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    _end(_run())
