"""How a Lustre is, whoever serves it: targets, space, layouts, counters, health.

Nothing here asks a command that hangs or lies (docs/filesystems.md): everything is read with
`lctl get_param`, name by name, in bounded time.
"""
