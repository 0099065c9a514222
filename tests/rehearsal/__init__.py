"""The simulated cloud: real servers and real clients on this machine, no account, no network."""

import os

# gcsfs reads it once, when it is imported: before any test can set what it needs for the emulator.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
