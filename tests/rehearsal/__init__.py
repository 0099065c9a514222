"""The simulated cloud: real servers and real clients on this machine, no account, no network."""
