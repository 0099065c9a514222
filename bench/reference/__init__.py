"""The training step in plain JAX, and what its compiler makes of it."""
