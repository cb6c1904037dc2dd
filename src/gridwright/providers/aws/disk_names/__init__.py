"""The program that gives volumes of a pair one name on both of its servers, by the tags of the volumes.

It never writes to a volume, and attaches and detaches none.
"""
