"""The playbook of a grid for an image of its machines: packages by the same roles, nothing of one machine."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from gridwright.schedulers.machines import SchedulerSetup
from gridwright.setup.playbook import Hosts, Provided, playbook_files, roles_of_kinds
from gridwright.spec.model import GridSpec

PLAYBOOK = "image.yml"
_LATER = "told-at-the-start-of-a-machine"
"""Stands for what machines mount: an image mounts nothing."""
_ROLES = "    # ROLES\n"
_INVENTORY = """\
# The machine that the playbook runs on, which has all that compute, login and head node have.
---
image:
  hosts:
    machine: {ansible_connection: local}
compute:
  hosts: {machine: null}
head:
  hosts: {machine: null}
"""


def image_playbook_files(
    spec: GridSpec, scheduler: SchedulerSetup | None, provided: Provided
) -> dict[str, str | bytes]:
    """Every file of it, by its path; the same spec gives the same bytes.

    Roles of the site are not among them: they run when machines start. Raises GridwrightError as
    `playbook_files` does.
    """
    nowhere = replace(provided, sources=dict.fromkeys(provided.sources, _LATER), addresses={}, layouts={})
    files = playbook_files(spec, Hosts(), scheduler, nowhere, groups=())
    text = resources.files("gridwright.setup").joinpath(PLAYBOOK).read_text("utf-8")
    roles = [role for role in (*provided.roles, *roles_of_kinds()) if role.has_install]
    files[PLAYBOOK] = text.replace(_ROLES, "\n".join(role.as_install_task() for role in roles))
    files["inventory.yml"] = _INVENTORY
    del files["site.yml"]
    return {name: files[name] for name in sorted(files)}
