"""Programs that nodes run without Gridwright: each is shipped as one file."""
