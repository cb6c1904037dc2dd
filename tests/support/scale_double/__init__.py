"""Commands of Spectrum Scale that refuse what the real ones refuse, with a state in one file.

Written from IBM's manual: nobody had a Spectrum Scale at hand. `cluster` is the state and its rules; what
each command runs that `install` makes is in `command`.
"""
