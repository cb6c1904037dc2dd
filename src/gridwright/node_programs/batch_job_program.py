"""What batch systems run on nodes for each job: package `batch_job` as one file, and what starts it."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file

_PACKAGE = "gridwright.node_programs.batch_job"
STARTER = """\
#!/bin/sh
# Starts a job of Gridwright, written by it: the Python of the system, wherever the node has it.
for python in /usr/bin/python3 /usr/libexec/platform-python "$(command -v python3)"; do
    if [ -x "$python" ]; then
        exec "$python" -I -S -B "${0%.sh}.pyz" "$@"
    fi
done
echo "gridwright: this node has no python3, which starts jobs" >&2
exit 127
"""
"""The file that a batch system is given. Without site packages Python starts in a third of the time."""


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources."""
    return one_file(_PACKAGE, "a job of a batch system on its node", ["gridwright.beneath"])
