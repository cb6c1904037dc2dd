"""The 19 tests of the mixed workload, one module each; `gridwright.workload.programs.registry` has them by name."""
