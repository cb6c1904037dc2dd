"""The grid as it runs: its head node, its scheduler, its nodes, and how a program is run on them."""
