"""IBM Spectrum Scale on servers of one's own."""
