"""The kinds of schedulers that Gridwright brings along."""

BUILT_IN = {
    "local": "gridwright.schedulers.local.kind:KIND",
    "slurm": "gridwright.schedulers.slurm.kind:KIND",
    "ssh": "gridwright.schedulers.ssh.kind:KIND",
}
"""Name in a grid spec to `module:attribute`; see gridwright.spec.kinds."""
