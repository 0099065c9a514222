"""What the driver wants of the workers, who cannot see its signals.

An actor's process imports the module of its class: this one imports nothing else.
"""

from __future__ import annotations


class Wish:
    """A Ray actor on the driver's node, which worker 0 asks at its start and every few seconds."""

    def __init__(self) -> None:
        self._ended = False
        self._attempts = 0

    def end(self) -> None:
        self._ended = True

    def ended(self) -> bool:
        return self._ended

    def attempt(self) -> int:
        """Worker 0 asks once: of how many groups of workers in this job its own is the newest."""
        self._attempts += 1
        return self._attempts
