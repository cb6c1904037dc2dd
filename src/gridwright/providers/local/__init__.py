"""The machine that Gridwright runs on, or a site's own nodes, as they are."""
