"""Gridwright's engines beside fio and dd; see throughput.py, which cannot be called io: Python has one."""

from throughput import main

if __name__ == "__main__":
    main()
