"""IBM Spectrum LSF of a site, reached by its own commands as IBM documents them for 10.1."""
