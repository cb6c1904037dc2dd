"""The run directory: create, write safely, load, compare."""
