"""Has machines of powered nodes started and ended on AWS, from the head node, as the scheduler wants them.

Contract with the role `power`, which runs it there:

- The program is `power.pyz` (`gridwright.providers.aws.machine_files.POWER`), run as root by
  gridwright-power.service: `python3 power.pyz [--config FILE] [--once]`, with Python 3.9 or newer, and boto3.
- FILE is /etc/gridwright/power.json by default, in the form that `configuration` describes.
- An item `wanted#NODE` of the table of claims says that a node is to be on: machines of its Auto Scaling
  group claim such slots, those that are always on, and no others. The size of the group follows the items.
- Exit status: 0 ended by a signal, 2 FILE is wrong, 3 where --once could not ask Slurm or AWS.

`deciding` is pure: what a group and the table hold goes in, the next calls come out. Effects go through
`cloud`.
Modules here import the standard library, boto3 (late), and `gridwright.node_programs`.
"""
