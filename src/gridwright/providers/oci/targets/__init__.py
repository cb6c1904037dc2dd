"""Starts the targets of a Lustre on the volumes of this server, at every start; formats a blank one, once.

Contract with everything that runs it (the role `lustre_targets`, its unit):

- The program is `targets.pyz` (`oci.files.TARGETS`), run as root with Python 3.9 or newer:
  `targets.pyz [--config FILE] [--dry-run] [--json]`. FILE is in the form that `configuration` describes.
- Volumes are there already under their names in /dev/oracleoci: the program of `volumes` gave them.
- What became of a volume is written down in the grid's bucket, below `targets/` (`ledger`), before and after
  it is formatted: the bucket outlives machines.
- Exit status: 0 all targets are mounted, 2 FILE is wrong, 3 refused or failed, 130 and 143 interrupted; the
  next start finishes.
"""
