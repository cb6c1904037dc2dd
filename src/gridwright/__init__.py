"""Gridwright plans, builds, tunes, proves and runs analytics grids on parallel file systems."""

__version__ = "0.1.0"
