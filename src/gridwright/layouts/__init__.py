"""Layouts of libraries on a grid that runs: set on directories, and files moved that have another one."""
