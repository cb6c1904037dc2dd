"""What a batch system of a site runs on a node for each job: the job's command, watched until all of it ends.

A batch system takes a job as a line of text, and no two agree on how they quote it. So the command travels
in a file of the state directory, byte for byte, and the batch system is given this program and the name of
the file.
"""
