"""Replaces machines that were launched with other data than their group has now: nodes drained first.

Contract with the playbook, `up` and `status`:

- The program is `roll.pyz` (`gridwright.providers.aws.machine_files.ROLL`), run as root each minute
  on the head node, or on the login node of a grid that has none: `python3 roll.pyz [--config FILE]
  [--dry-run]`, with Python 3.9 or newer and boto3.
- FILE is /etc/gridwright/roll.json by default, in the form that `configuration` describes.
- It keeps no state of its own. Auto Scaling says what an instance was launched with and what its group
  launches, the table of claims which node it is, and Slurm what is drained, and since when. So it may be
  killed at any step, and the next run goes on.
- What it sees and waits for is one row of the table of claims, ROW.
- `roll.pyz --keep-lines FILE` runs before the playbook writes slurm.conf: see
  `gridwright.node_programs.drain`.

`deciding` and `servers` are pure: what is seen goes in, what is due comes out.
"""
