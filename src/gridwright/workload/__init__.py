"""The mixed analytics workload: tests, matrices, data, accounting and diagnosis."""
