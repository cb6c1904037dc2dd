"""Targets of Lustre on disks of the machine that serves them: looked at, formatted if blank, mounted.

What the programs of all clouds share; who a machine is, and where it is written down what became of a volume,
is theirs. Modules here import the standard library and `gridwright.node_programs.scratch`.
"""
