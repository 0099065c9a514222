"""This machine's CPU; several workers over gloo."""

from __future__ import annotations

from ..config import Config
from ..group import Group
from ._native import Native


def open_accelerator(config: Config, group: Group) -> Native:
    return Native(config, group, "cpu")
