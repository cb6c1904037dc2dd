"""Looks up the facts of a node, with one module for each topic; changes nothing.

A look raises OSError where it may not look, and may hang: `gather` calls each in a child.
"""
