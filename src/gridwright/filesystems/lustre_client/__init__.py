"""The health of a Lustre file system, its targets, space, layouts and counters; the server does not matter.

Nothing here asks a command that hangs or lies (docs/filesystems.md): everything is read with
`lctl get_param`, name by name, in bounded time.
"""
