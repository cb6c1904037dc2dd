"""A test on several nodes as each node runs it: the connection to the coordinator, and its orders."""
