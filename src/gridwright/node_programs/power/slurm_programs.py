"""ResumeProgram, SuspendProgram and ResumeFailProgram of Slurm: they log a request and do nothing else."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path("/usr/local/lib/gridwright")
RESUME = DIRECTORY / "power-resume"
"""ResumeProgram of slurm.conf."""
SUSPEND = DIRECTORY / "power-suspend"
"""SuspendProgram."""
RESUME_FAILED = DIRECTORY / "power-resume-failed"
"""ResumeFailProgram: nodes that did not come within ResumeTimeout."""
PROGRAMS = (RESUME, SUSPEND, RESUME_FAILED)
REQUEST_LOG = Path("/var/log/slurm/power.log")
"""They append a line to it; the reconciler runs at once when the file changes, and now and then anyway."""
_PROGRAM = f"""\
#!/bin/sh
# Resume, Suspend and ResumeFailProgram of slurm.conf, written by Gridwright. They run as the account of
# Slurm, without any right over machines: what acts reads the states of nodes from Slurm itself.
printf '%s %s %s\\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${{0##*/}}" "$1" >> {REQUEST_LOG}
exit 0
"""


def program() -> str:
    """The text of all three."""
    return _PROGRAM
