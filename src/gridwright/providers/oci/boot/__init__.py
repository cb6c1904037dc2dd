"""What machines on Oracle Cloud start with beside what all clouds have: requests that they sign."""
