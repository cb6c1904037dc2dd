"""The native part of Gridwright; see native/python/src/lib.rs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from gridwright.model.solver import Flow

VERSION: str

class Phase:
    def __init__(self, config: str) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def armed(self) -> bool: ...
    def open(self) -> None: ...
    def progress(self) -> tuple[float, int, int, int]: ...
    def syncing(self) -> bool: ...
    def unwritten_pages(self) -> int | None: ...
    def samples(self, seen: int) -> list[tuple[float, int, int, int]]: ...
    def finish(self) -> None: ...
    def stop(self, discard: bool) -> None: ...
    def result(self) -> str: ...

def solve_flows(
    capacities: Sequence[float], flows: Sequence[Flow]
) -> tuple[list[float], list[int | None]]: ...

class PackedScenario(TypedDict):
    capacities: Sequence[float]
    classes: Sequence[str]
    nodes: Sequence[Sequence[tuple[Sequence[tuple[int, float]], float] | None]]
    profiles: Sequence[Sequence[Sequence[tuple[int, float, float, float]]]]
    streams: Sequence[tuple[int, float, Sequence[int], int]]

class Simulation:
    start_s: bytes
    end_s: bytes
    wait_ends: bytes
    wait_class: bytes
    wait_bound_by: bytes
    wait_s: bytes
    taken: list[float]
    bin_s: float
    class_rates: list[list[float]]
    watched_rates: list[list[float]]
    events: int
    solutions: int

def simulate_launches(
    scenario: PackedScenario, tolerance: float, bins: int, watched: list[int]
) -> Simulation: ...

class Nights:
    def __init__(
        self,
        classes: Sequence[str],
        profiles: Sequence[Sequence[Sequence[tuple[int, float, float, float]]]],
        streams: Sequence[Sequence[int]],
    ) -> None: ...
    def end_s(
        self,
        capacities: Sequence[float],
        nodes: Sequence[Sequence[tuple[Sequence[tuple[int, float]], float] | None]],
        places: Sequence[int],
        until_s: float,
    ) -> tuple[float | None, int]: ...

class WalkedFile:
    @property
    def path(self) -> bytes: ...
    @property
    def st_mode(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_rdev(self) -> int: ...
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_uid(self) -> int: ...
    @property
    def st_gid(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_blocks(self) -> int: ...
    @property
    def st_atime_ns(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...

class TreeWalk:
    def __init__(
        self,
        root: int,
        chosen: Sequence[bytes],
        without_prefix: bytes,
        without_in_root: bytes,
        threads: int,
    ) -> None: ...
    def next(self, seconds: float) -> tuple[list[WalkedFile], list[tuple[bytes, int | None]]] | None: ...
    def slowest(self) -> tuple[bytes, float] | None: ...
    def stop(self) -> None: ...

def decode_layout(attribute: bytes) -> str: ...

class LayoutScan:
    def __init__(
        self,
        directories: Sequence[Path],
        attributes: Sequence[str],
        threads: int,
        keep: int,
        limit_s: float,
        list_from: int | None = None,
    ) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def take(self) -> str: ...
    def stop(self) -> None: ...
    def summary(self) -> str: ...

def run_launcher(
    files: Sequence[int],
    places: tuple[str, bool, str],
    runner_lock: str,
    runner: Sequence[str],
) -> None: ...

JobOnNode = tuple[str, int, int, int, int, bool, int, int, int, list[int]]

class JobProcesses:
    def __init__(self, proc: Path) -> None: ...
    def look(self) -> list[JobOnNode]: ...

_TallyRow = tuple[str, str, str | None, float, list[int]]

class JobTally:
    def __init__(self, most: int) -> None: ...
    def look(
        self, places: Sequence[tuple[str, str, str, str]], now_s: float
    ) -> tuple[list[_TallyRow], list[_TallyRow], list[tuple[str, str]], int]: ...

def lustre_stats(
    paths: Sequence[str], wanted: Sequence[str]
) -> list[tuple[float | None, float | None, list[tuple[str, int, int]], bool] | None]: ...
def file_texts(paths: Sequence[str]) -> list[str | None]: ...
