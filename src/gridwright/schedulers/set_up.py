"""What sets a scheduler up on the machines of a grid: files, variables of the playbook, and steps by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import Finding


@dataclass(frozen=True, slots=True)
class SetupStep:
    """Commands for administrators who set the scheduler up by hand, as root on the controller."""

    title: str
    commands: Sequence[str]
    beside_playbook: str | None = None
    """The command to run before it, where the playbook leaves this step out; None: it takes the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetup:
    """The set-up of one grid's scheduler; all of it is empty where there is nothing to set up."""

    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Configuration by its path in the rendered directory."""
    file_meanings: Mapping[str, str] = field(default_factory=dict)
    """What each file is, for README.md."""
    directory: str = ""
    """Where nodes have these files."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """What the kind's role of the playbook has to know."""
    findings: Sequence[Finding] = ()
    """What of the spec the scheduler cannot keep exactly."""
    key_note: str = ""
    """Where the key is that the files do not hold."""
    introduction: str = ""
    """What holds for all steps."""
    steps: Sequence[SetupStep] = ()
    hardware_check: str = ""
    """How to see whether nodes have what the files say of them."""
