"""A site's own file system, provider and scheduler for Gridwright, as docs/extending.md builds them."""
