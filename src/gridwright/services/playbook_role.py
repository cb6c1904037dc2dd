"""A role of the playbook that a kind of file system or scheduler brings."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

LONGEST_LINE = 140
"""Characters of a condition: ansible-lint allows lines of 160 (rule yaml[line-length])."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRole:
    """A role of Ansible in the directory `roles` of a kind's package."""

    name: str
    """The name of its directory."""
    task: str
    """What it does, as Ansible shows it: `Mount NFS`."""
    when: str
    """The condition of Ansible under which a node has it."""
    package: str
    """The package that has it, such as `gridwright.filesystems.nfs`."""
    program: str = ""
    """A package that nodes run as one file, NAME.pyz, by Python alone; empty for none."""
    comment: str = ""
    """What a reader of the playbook should know of the condition; empty for nothing."""

    @property
    def directory(self) -> Traversable:
        """Its files."""
        return resources.files(self.package).joinpath("roles", self.name)

    @property
    def has_install(self) -> bool:
        """Whether it can install its packages alone, by tasks/install.yml, as images have them."""
        return self.directory.joinpath("tasks", "install.yml").is_file()

    def as_install_task(self) -> str:
        """The task of a play that installs its packages alone."""
        return (
            f"    - name: Install what is needed to {self.task[0].lower()}{self.task[1:]}\n"
            "      ansible.builtin.include_role:\n"
            f"        name: {self.name}\n"
            "        tasks_from: install.yml\n"
            f"      when: {_condition(self.when)}\n"
        )

    def as_task(self) -> str:
        """The task of a play that includes it."""
        comment = f"      # {self.comment}\n" if self.comment else ""
        return (
            f"    - name: {self.task}\n"
            "      ansible.builtin.include_role:\n"
            f"        name: {self.name}\n"
            f"{comment}      when: {_condition(self.when)}\n"
        )


def _condition(text: str) -> str:
    """On one line, or folded where it is longer than ansible-lint lets lines be."""
    if len(text) <= LONGEST_LINE:
        return text
    lines = textwrap.wrap(text, LONGEST_LINE, break_long_words=False, break_on_hyphens=False)
    return ">-\n" + "\n".join(f"        {line}" for line in lines)
