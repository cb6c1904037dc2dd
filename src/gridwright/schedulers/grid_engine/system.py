"""Grid Engine as a batch system: jobs go in with qsub, end with qdel, and are told by qstat and qacct."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from gridwright.errors import Problem
from gridwright.schedulers.batch.system import (
    BatchCall,
    BatchFacts,
    BatchRow,
    Unclear,
    job_label,
    tagged_name,
)
from gridwright.schedulers.grid_engine.accounting import past
from gridwright.schedulers.grid_engine.cluster import Complex, read_complexes, read_environments, read_facts
from gridwright.schedulers.grid_engine.commands import tools
from gridwright.schedulers.grid_engine.queue import read_messages, read_queue
from gridwright.schedulers.grid_engine.section import section_of
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.index_ranges import index_ranges
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_tag import JobTag
from gridwright.spec.model import GridSpec

EXCLUSIVE = "exclusive"
"""The complex with which a job has a node for itself, by its usual name (complex(5), EXCL)."""
_MAIL = {"begin": "b", "end": "e", "fail": "a"}
_AT_ONCE = 200


class GridEngine:
    """One Grid Engine; see BatchSystem."""

    name = "Grid Engine"
    number_variable = "JOB_ID"
    position_variable = "SGE_TASK_ID"
    kept_prefixes: Sequence[str] = ("SGE_", "JOB_ID", "NSLOTS", "NHOSTS", "PE_HOSTFILE", "QUEUE", "TMPDIR")
    limits_memory = False
    forgets_after_s = 60.0
    """Its accounting is flushed within 15 s by default (sge_conf(5), accounting_flush_time)."""

    def __init__(self, spec: GridSpec, head: HeadNode) -> None:
        self._section = section_of(spec)
        self._tools = tools(self._section, head)

    @cached_property
    def _complexes(self) -> Mapping[str, Complex]:
        return read_complexes(self._tools)

    @cached_property
    def _environments(self) -> Sequence[str]:
        return read_environments(self._tools)

    def facts(self) -> BatchFacts:
        """Its queues and nodes."""
        section = self._section
        wanted = [section.queue] if section.queue else list(section.queues)[:1]
        return read_facts(self._tools, section.memory, wanted)

    def request_problems(self, request: JobRequest) -> list[Problem]:
        """What it lacks for a request."""
        found = []
        section, options = self._section, request.options
        if request.cores > 1 and section.parallel_environment not in self._environments:
            what = (
                f"{request.cores} cores need a parallel environment, and Grid Engine has none named "
                f"{section.parallel_environment}"
            )
            found.append(
                Problem(what, remedy="name another with parallel_environment in the spec (qconf -spl)")
            )
        if section.memory not in self._complexes:
            what = f"Grid Engine has no complex {section.memory}"
            found.append(Problem(what, remedy="name another with memory in the spec (qconf -sc)"))
        if request.exclusive and EXCLUSIVE not in self._complexes:
            what = f"Grid Engine has no complex {EXCLUSIVE}, with which a job has a node for itself"
            found.append(Problem(what, remedy="have it added (qconf -mc), or submit without --exclusive"))
        for each in (*options.licences, *options.gres):
            name = each.partition(":")[0]
            if name not in self._complexes:
                what = f"Grid Engine has no complex {name}"
                found.append(Problem(what, remedy="name one of qconf -sc, or have it added (qconf -mc)"))
        if options.constraint is not None and not re.fullmatch(r"[!-~]+", options.constraint):
            what = "its constraint is no list of resources"
            found.append(Problem(what, remedy="write one, such as arch=lx-amd64,mem_free=4G"))
        return found

    def submit(self, call: BatchCall) -> int:
        """Hand in one job with qsub; its number."""
        printed = self._tools.hand_in(self.command(call)).stdout.decode(errors="replace")
        found = re.match(r"(\d+)(?:\.\S+)?\s*$", printed.strip().rpartition("\n")[2])
        if found is None:
            raise Unclear(f"qsub printed no number of a job: {printed.strip()[:200]}")
        return int(found[1])

    def command(self, call: BatchCall) -> list[str]:
        """The call of qsub. -clear leaves out what files of defaults would add."""
        request, section, options = call.request, self._section, call.request.options
        command = ["qsub", "-clear", "-terse", "-N", tagged_name(job_label(request), call.tag)]
        command += ["-o", "/dev/null", "-j", "y", "-wd", "/", "-b", "y", "-shell", "no"]
        command += ["-r", "y" if request.restart else "n"]
        if request.cores > 1:
            command += ["-pe", section.parallel_environment, str(request.cores)]
        if resources := self._resources(call):
            command += ["-l", ",".join(resources)]
        if request.queue:
            command += ["-q", request.queue]
        if call.elements is not None:
            command += ["-t", f"1-{call.elements}"]
        for option, numbers in (
            ("-hold_jid", [each.number for each in call.after if not each.each]),
            ("-hold_jid_ad", [each.number for each in call.after if each.each]),
        ):
            if numbers:
                command += [option, ",".join(map(str, dict.fromkeys(numbers)))]
        if section.project:
            command += ["-P", section.project]
        if options.account:
            command += ["-A", options.account]
        if options.reservation:
            command += ["-ar", options.reservation]
        if options.begin is not None:
            command += ["-a", time.strftime("%Y%m%d%H%M.%S", time.gmtime(math.ceil(options.begin)))]
        if options.nice:
            command += ["-p", str(max(-1023, min(1024, -options.nice)))]
        if options.mail:
            events = "".join(_MAIL[each] for each in options.mail_on if each in _MAIL)
            command += ["-M", options.mail, "-m", events or "n"]
        return [*command, *call.program]

    def _resources(self, call: BatchCall) -> list[str]:
        request, memory = call.request, self._section.memory
        found = []
        if call.memory_bytes is not None:
            # A limit, and a consumable of slots, is that of one slot.
            share = request.cores if self._complexes[memory].consumable != "JOB" else 1
            found.append(f"{memory}={math.ceil(int(call.memory_bytes) / share)}")
        if request.time_limit_s is not None:
            found.append(f"h_rt={max(1, math.ceil(request.time_limit_s))}")
        if request.node is not None:
            found.append(f"hostname={request.node}")
        if request.exclusive:
            found.append(f"{EXCLUSIVE}=true")
        for each in (*request.options.licences, *request.options.gres):
            name, _, count = each.partition(":")
            found.append(f"{name}={count.rpartition(':')[2] or 1}")
        if request.options.constraint:
            found.append(request.options.constraint)
        return found

    def queue(self) -> list[BatchRow]:
        """The jobs of this user and of Gridwright that wait or run."""
        return read_queue(self._tools)

    def past(self, wanted: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
        """What qacct has of these jobs."""
        return past(self._tools, wanted, since)

    def cancel(self, targets: Collection[tuple[int, Sequence[int] | None]]) -> None:
        """End jobs with qdel."""
        names = []
        for number, positions in targets:
            if positions is None:
                names.append(str(number))
            else:
                names += [f"{number}.{each}" for each in index_ranges(positions)]
        for first in range(0, len(names), _AT_ONCE):
            # It fails where one of the jobs has ended meanwhile, and goes on with the others.
            self._tools.query(
                ["qdel", *names[first : first + _AT_ONCE]],
                allowed=lambda answer: (
                    b"denied:" in answer.stdout + answer.stderr
                    or b"does not exist" in answer.stdout + answer.stderr
                ),
            )

    def why_waits(self, number: int) -> str | None:
        """What the scheduler of Grid Engine says of a job that waits."""
        return read_messages(self._tools, number)
