"""Gives a node back to Slurm before EC2 takes its spot instance away.

EC2 tells the instance two minutes before (EC2 User Guide, spot instance interruption notices). A node that
goes is powered down in Slurm's view at once: no job starts there any more, jobs that may start again do so
elsewhere, and the reason says why. The program is `spot.pyz`, run as root by gridwright-spot.service on nodes
of groups that are spot instances; it needs Python 3.9 and Slurm's commands, and of AWS the metadata service
alone. Modules here import the standard library and `gridwright.node_programs`.
"""
