"""The planner: the cheapest grids of the catalogue that meet the requirements of a spec."""
