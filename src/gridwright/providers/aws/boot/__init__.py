"""What machines on AWS start with: shell and Python that become their user data."""
