"""Checkpoints: visible only when complete, in any fsspec storage, for any number of ranks."""

from .reader import Checkpoint
from .state import JSON, Entry, Group, Piece, State
from .store import CheckpointStore
from .writer import Written

__all__ = ["JSON", "Checkpoint", "CheckpointStore", "Entry", "Group", "Piece", "State", "Written"]
