"""How many jobs a grid carries at once: the steps of a sweep, its stop rule, its record."""
