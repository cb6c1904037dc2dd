"""Scratch storage of one node: disks of an instance store, striped, formatted and mounted at every start.

Contract with everything that runs it (roles, virtual machines, `gridwright node scratch`):

- The program is `scratch.pyz` (`gridwright.node_programs.one_file.SCRATCH`), run as root:
  `python3 scratch.pyz [--config FILE] [--dry-run] [--json] [--wipe DISK]...`, with Python 3.9 or newer.
- FILE is /etc/gridwright/scratch.json by default: the desired arrays, as `configuration` describes them. The
  program never writes it, so that a playbook can own it.
- What it made, and what it is about to make, is in /var/lib/gridwright/scratch.json (`state`), or where
  `state_file` of the configuration says.
- Exit status: 0 every array is mounted, 2 wrong configuration, 3 refused or failed (nothing foreign was
  touched), 130 and 143 interrupted; the next start finishes.
- Tools: wipefs and mount (util-linux) always; mdadm for two disks and more; mkfs.xfs or mkfs.ext4.

No module here imports anything but the standard library and its neighbours: nodes have no Gridwright.
"""
