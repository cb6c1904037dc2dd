"""Empties nodes of Slurm before they are taken away, and has them used again, from the head node.

Modules here import the standard library, and `health` and `scratch` of `gridwright.node_programs`.
"""
