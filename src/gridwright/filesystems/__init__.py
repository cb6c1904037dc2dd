"""File systems: one module per kind, and what a node can tell of any mounted one."""
