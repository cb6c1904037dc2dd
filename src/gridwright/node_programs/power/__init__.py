"""Keeps nodes that Slurm powers on and off as Slurm wants them, on the machine of the controller.

Slurm runs `ResumeProgram` and `SuspendProgram` as its own account, which may do nothing with machines: they
leave a line in a file (`asking`). What acts, as root, reads from Slurm itself which nodes are to be on
(`nodes`), has whoever supplies machines bring that about (`supply`), and tells Slurm of the nodes that it
cannot have (`deciding`). It is told states, not events: a call that was lost, repeated or cut off makes no
difference, and a machine that Slurm does not want is found and taken away in the next round (`keeping`).

Modules here import the standard library and `gridwright.node_programs.scratch`.
"""
