"""Jobs on the nodes of a grid, and the schedulers that start them."""
