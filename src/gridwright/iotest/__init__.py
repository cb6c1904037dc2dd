"""Throughput test: what a library's file system gives each core.

The command (this package's `session`) asks a worker process for each library; only the worker
touches the library, so that a hanging mount hangs the worker and not the command.
"""
