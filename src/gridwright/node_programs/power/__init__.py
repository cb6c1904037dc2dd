"""Keeps nodes that Slurm powers on and off as Slurm wants them, on the machine of the controller.

Slurm runs `ResumeProgram` and `SuspendProgram` as its own account, which may do nothing with machines: they
append a line to a log (`slurm_programs`). What acts, as root, reads from Slurm which nodes are to be on
(`nodes`), has whoever supplies machines bring that about (`supply`), and tells Slurm of the nodes that it
cannot have (`deciding`). It is told states, not events: a call that was lost, repeated or cut off makes no
difference, and a machine that Slurm does not want is found and taken away in the next round (`reconciler`).

Modules here import the standard library and `gridwright.node_programs.scratch`.
"""
