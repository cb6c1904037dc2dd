"""What the harness itself costs: the null engine, which has no storage at all.

python bench/overhead.py             # per block size: blocks/s and what limits them
python bench/overhead.py --publish   # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from gridwright.iotest.engine import Phase, PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions, NullVolume
from gridwright.iotest.outcome import Role
from gridwright.units import Bytes
from tables import machine, markdown, publish, spread


def microseconds_per_block(op: Role, block: int, blocks: int, *, verify: bool = False) -> float:
    """Time of one block of one stream: making the data (write), two clocks, histogram, counters."""
    options = IotestOptions(engine="null", null=NullVolume(), block_bytes=block, verify=verify)
    stream = StreamPlan(op, "null", 0, block * blocks)
    phase = Phase(PhasePlan((stream,), seed=1, bytes_per_stream=block * blocks, seconds=None), options)
    while not phase.wait(1.0):
        pass
    return (phase.result().wall_s or 0.0) / blocks * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    rows = []
    for text in ("4 KiB", "64 KiB", "1 MiB"):
        block = int(Bytes.parse(text))
        blocks = (4 << 30) // block
        for op in ("write", "read"):
            times = [microseconds_per_block(op, block, blocks) for _ in range(args.rounds)]
            at_1gb = spread([time / (block / 1e9 * 1e6) * 100 for time in times], 1)
            rows.append([f"{text} {op}", spread(times, 2), at_1gb])
    head = ["block", "µs per block", "% of a core at 1 GB/s"]
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; one stream, {args.rounds} rounds; median "
            "(minimum to maximum). A write includes making data that cannot be compressed.",
            "",
            markdown(head, rows),
        ]
    )
    print(text)
    if args.publish:
        publish("overhead", text)


if __name__ == "__main__":
    main()
