"""What a node tells of itself, a module a topic; each looks, changes nothing, and returns plain data.

A look raises OSError where it may not look, and may hang: `gather` calls each in a child.
"""
