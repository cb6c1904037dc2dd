"""The mixed workload in reports: verdict, tables, charts."""
