"""The daemon of the double: takes jobs, starts them, ends them, and answers commands."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.lsf_double import answers
from tests.support.lsf_double.bsub import submitted
from tests.support.lsf_double.jobs import Element, Jobs, Refused, holds

QUEUES = {"normal": ("lsf1", "lsf2", "lsf3"), "short": ("lsf1",)}
HOSTS = dict.fromkeys(("lsf1", "lsf2", "lsf3"), (16, 2 << 30))
"""Slots and bytes of memory."""
_TERMINATE_S = 1.0
"""JOB_TERMINATE_INTERVAL; LSF's own default is 10 s."""
_MINUTE_S = float(os.environ.get("LSF_DOUBLE_MINUTE", "60"))
_REASONS = {
    "TERM_OWNER": "job killed by owner",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_ORPHAN_SYSTEM": "the orphan job is automatically terminated by LSF",
}


class Mbatchd:
    """State of one LSF."""

    def __init__(self) -> None:
        self.jobs: Jobs = {}
        self.last = 100

    def answer(
        self, command: str, arguments: list[str], environment: Mapping[str, str], uid: int = 0
    ) -> tuple[int, str, str]:
        commands: Mapping[str, Callable[[], tuple[int, str, str]]] = {
            "bsub": lambda: self._bsub(arguments, environment, uid),
            "bkill": lambda: self._bkill(arguments, uid),
            "bjobs": lambda: answers.bjobs(arguments, self.jobs),
            "bacct": lambda: answers.bacct(arguments, self.jobs),
            "bhist": lambda: answers.bhist(arguments, self.jobs),
            "bhosts": lambda: answers.bhosts(arguments, {name: self._host(name) for name in HOSTS}),
            "bqueues": lambda: answers.bqueues(arguments, QUEUES),
            "lshosts": lambda: answers.lshosts(arguments, {name: size for name, (_, size) in HOSTS.items()}),
            "lsload": lambda: answers.lsload(arguments, {name: self._free(name)[1] for name in HOSTS}),
        }
        try:
            return commands[command]()
        except Refused as refused:
            return 255, "", f"{refused}\n"

    def _bsub(self, arguments: list[str], environment: Mapping[str, str], uid: int) -> tuple[int, str, str]:
        elements = submitted(
            arguments, environment, number=self.last + 1, jobs=self.jobs, queues=QUEUES, hosts=list(HOSTS)
        )
        for each in elements:
            each.uid = uid
        self.last += 1
        self.jobs[self.last] = elements
        default = "" if "-q" in arguments else "default "
        return 0, f"Job <{self.last}> is submitted to {default}queue <{elements[0].queue}>.\n", ""

    def _bkill(self, arguments: list[str], uid: int) -> tuple[int, str, str]:
        out, err, status = "", "", 0
        for word, elements in answers.chosen(arguments, self.jobs):
            if not elements:
                err, status = f"{err}Job <{word}>: No matching job found\n", 255
            elif uid not in (0, elements[0].uid):
                err, status = f"{err}Job <{word}>: User permission denied\n", 255
            elif all(each.ended for each in elements):
                err, status = f"{err}Job <{word}>: Job has already finished\n", 255
            else:
                for each in elements:
                    self.end(each, "TERM_OWNER")
                out += f"Job <{word}> is being terminated\n"
        return status, out, err

    def end(self, job: Element, term: str) -> None:
        """End a job: at once where it waits, else by signals to its process group, one after the other."""
        if job.ended or job.term:
            return
        job.term = term
        if not job.pid:
            self._finish(job, "EXIT", 0)
            return
        now = time.time()
        steps = enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        job.kill_at = [(now + step * _TERMINATE_S, number) for step, number in steps]

    def _finish(self, job: Element, stat: str, code: int) -> None:
        job.stat, job.code, job.finished = stat, code, time.time()
        job.reason = f"{job.term}: {_REASONS[job.term]}" if job.term else ""
        job.kill_at = []

    def _free(self, host: str) -> tuple[int, int]:
        slots, memory = HOSTS[host]
        for each in self._running():
            if each.host == host:
                slots -= each.slots
                memory -= each.memory
                slots = 0 if each.exclusive else slots
        return max(0, slots), max(0, memory)

    def _host(self, host: str) -> tuple[str, int, int]:
        slots = HOSTS[host][0]
        free = self._free(host)[0]
        return "ok" if free else "closed_Full", slots, slots - free

    def _running(self) -> list[Element]:
        return [job for each in self.jobs.values() for job in each if job.stat == "RUN"]

    def turn(self) -> None:
        """One turn of scheduling: what ended, what is to be ended, what starts."""
        self._reap()
        now = time.time()
        for job in self._running():
            while job.kill_at and job.kill_at[0][0] <= now:
                _, number = job.kill_at.pop(0)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, number)
            if job.minutes is not None and now - job.started > job.minutes * _MINUTE_S:
                self.end(job, "TERM_RUNLIMIT")
        free = {name: list(self._free(name)) for name in HOSTS}
        for each in self.jobs.values():
            for job in each:
                if job.stat == "PEND":
                    self._consider(job, free, now)

    def _consider(self, job: Element, free: dict[str, list[int]], now: float) -> None:
        met = holds(job.condition, self.jobs, job.index) if job.condition else True
        if met is None and job.orphan:
            self.end(job, "TERM_ORPHAN_SYSTEM")
            return
        if not met:
            job.pending = "Job dependency condition not satisfied;"
            return
        if job.begin > now:
            job.pending = "Job has specified start time;"
            return
        fitting = [
            name
            for name, (slots, memory) in free.items()
            if name in (job.hosts or QUEUES[job.queue])
            and slots >= (HOSTS[name][0] if job.exclusive else job.slots)
            and memory >= job.memory
        ]
        if not fitting:
            job.pending = "Not enough job slots or memory on hosts;"
            return
        host = max(fitting, key=lambda name: free[name][0])
        free[host][0] -= HOSTS[host][0] if job.exclusive else job.slots
        free[host][1] -= job.memory
        self._start(job, host)

    def _start(self, job: Element, host: str) -> None:
        environment = job.environment | {
            "PATH": "/usr/bin:/bin",
            "LSB_JOBID": str(job.number),
            "LSB_JOBINDEX": str(job.index),
            "LSB_HOSTS": " ".join([host] * job.slots),
            "LSB_QUEUE": job.queue,
            "LSB_JOBNAME": job.name,
        }
        # The user opens the log, as sbatchd has it.
        words = ["/bin/sh", "-c", f'exec >>"$0" 2>&1; {job.command}', job.output]
        if job.uid:
            words = ["setpriv", f"--reuid={job.uid}", f"--regid={job.uid}", "--clear-groups", "--", *words]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, cwd=job.directory, env=environment, start_new_session=True
        )
        process.returncode = 0  # It is waited for by its number.
        job.pid, job.host, job.stat, job.started = process.pid, host, "RUN", time.time()

    def _reap(self) -> None:
        running = {each.pid: each for each in self._running()}
        while running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            job = running.pop(pid, None)
            if job is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            self._finish(job, "DONE" if code == 0 and not job.term else "EXIT", code)


def serve(directory: Path) -> None:
    """Answer commands until the end of this process."""
    mbatchd = Mbatchd()
    (directory / "mbatchd.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(str(directory / "mbatchd.sock"))
        (directory / "mbatchd.sock").chmod(0o666)
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            if selector.select(0.05):
                connection, _ = listener.accept()
                with connection:
                    _answer(mbatchd, connection)
            mbatchd.turn()


def _answer(mbatchd: Mbatchd, connection: socket.socket) -> None:
    asked = b""
    while not asked.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            return
        asked += part
    question = json.loads(asked)
    # LSF takes the word of eauth for who asks; here the kernel says it (unix(7)).
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    answer = mbatchd.answer(question["command"], question["arguments"], question["environment"], uid)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(json.dumps(answer).encode())


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
