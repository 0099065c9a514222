"""From run.toml to a TPU slice and back: what the command `ops` does in Google Cloud."""
