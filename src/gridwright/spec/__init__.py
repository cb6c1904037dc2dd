"""The grid spec: models of grid.yaml, loading with all problems at once, warnings, template, JSON Schema."""

from gridwright.spec.filesystem import FILESYSTEMS, FileSystem
from gridwright.spec.findings import unsilenced
from gridwright.spec.library import Library
from gridwright.spec.load import load_spec, parse_spec
from gridwright.spec.model import GridSpec, LibraryName, NodeGroup
from gridwright.spec.provider import PROVIDERS, init_text
from gridwright.spec.scheduler import SCHEDULERS, Queue, SchedulerSection
from gridwright.spec.structure import json_schema
from gridwright.spec.warnings import all_findings, warn

__all__ = [
    "FILESYSTEMS",
    "PROVIDERS",
    "SCHEDULERS",
    "FileSystem",
    "GridSpec",
    "Library",
    "LibraryName",
    "NodeGroup",
    "Queue",
    "SchedulerSection",
    "all_findings",
    "init_text",
    "json_schema",
    "load_spec",
    "parse_spec",
    "unsilenced",
    "warn",
]
