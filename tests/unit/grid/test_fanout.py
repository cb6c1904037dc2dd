"""Commands on many nodes at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """\
import gridwright.grid.nodes, os
from ClusterShell.Worker.EngineClient import EngineClient
client = EngineClient(None, None, False, -1, False)
reading, writing = os.pipe()
os.close(reading)
client.streams.set_writer("stdin", writing)
client.streams["stdin"].wbuf = b"what a node does not read any more"
client._handle_write("stdin")
"""


def test_nothing_is_said_of_a_node_that_ends_before_it_has_read_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
