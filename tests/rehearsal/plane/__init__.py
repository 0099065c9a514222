"""A real Kubernetes control plane with the real KubeRay operator, at one address here."""

from rehearsal.plane.binaries import CannotRehearse, find
from rehearsal.plane.plane import Plane

__all__ = ["CannotRehearse", "Plane", "find"]
