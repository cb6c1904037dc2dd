"""The program that gives a server its volumes by iSCSI, under the same name on both servers of a pair.

It never writes to a volume: what is on one belongs to the file system, or to another grid.
"""
