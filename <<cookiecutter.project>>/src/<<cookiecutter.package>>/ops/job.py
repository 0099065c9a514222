"""What a RayJob says of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Job:
    """A RayJob's state: `deployment` is KubeRay's word for it, `status` is Ray's."""

    name: str
    deployment: str
    status: str
    reason: str
    message: str
    cluster: str

    @property
    def ended(self) -> bool:
        """Both say so, or KubeRay says failed: for a while they can contradict each other."""
        return self.deployment == "Failed" or (
            self.deployment == "Complete" and self.status in ENDED
        )

    @property
    def succeeded(self) -> bool:
        return self.deployment == "Complete" and self.status == "SUCCEEDED"


def job_of(found: Object) -> Job:
    status = found.get("status") or {}
    return Job(
        name=found["metadata"]["name"],
        deployment=status.get("jobDeploymentStatus") or "New",
        status=status.get("jobStatus") or "PENDING",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        cluster=status.get("rayClusterName") or "",
    )
