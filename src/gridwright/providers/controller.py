"""The node that the scheduler of a grid runs on, where the provider makes one."""

CONTROLLER = "controller"
"""Its name."""
