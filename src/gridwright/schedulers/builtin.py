"""The kinds of schedulers that Gridwright brings along."""

BUILT_IN = {
    "local": "gridwright.schedulers.local.runner:KIND",
    "grid_engine": "gridwright.schedulers.grid_engine.kind:KIND",
    "lsf": "gridwright.schedulers.lsf.kind:KIND",
    "slurm": "gridwright.schedulers.slurm.kind:KIND",
    "ssh": "gridwright.schedulers.ssh.kind:KIND",
}
"""Name in a grid spec to `module:attribute`; see gridwright.spec.kinds."""
