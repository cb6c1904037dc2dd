"""A test on several nodes as its coordinator runs it: nodes, orders, clocks, and figures of all."""
