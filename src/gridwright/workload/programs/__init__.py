"""The 19 tests of the mixed workload, one module each; `registry` has them by name."""
