"""Jobs of a site's own, read from their logs and from the accounting of its scheduler, as launches."""
