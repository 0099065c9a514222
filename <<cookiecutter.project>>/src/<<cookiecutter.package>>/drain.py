"""What a worker's pod does before it goes: `python -m PACKAGE.drain SECONDS`, its preStop hook.

KubeRay tells Ray nothing of a pod that has to go, and Kubernetes ends Ray only after this hook. So
this tells Ray that the node will be gone in so many seconds, which Ray Train hands to the training
as a notice, and then waits: until the node has nothing left to do and is gone, or the time is over.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from typing import Any

POLL_SECONDS = 1.0
ANSWER_SECONDS = 5
REASON = "the pod has to go"


def drain(address: str, ip: str, seconds: float) -> bool:
    """True where Ray took the notice; returns when the node is gone or the time is over."""
    end = time.monotonic() + seconds
    if not _reachable(address):
        return False
    # Ray takes seconds to import: only where there is a cluster to tell.
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    client = GcsClient(address=address)
    node = _node(client, ip)
    if node is None or not _tell(client, node, end - time.monotonic()):
        return False
    while time.monotonic() < end and _reachable(address) and _node(client, ip) == node:
        time.sleep(POLL_SECONDS)
    return True


def _tell(client: Any, node: str, seconds: float) -> bool:
    from ray.core.generated import autoscaler_pb2

    accepted, _ = client.drain_node(
        node,
        autoscaler_pb2.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION,
        REASON,
        int((time.time() + seconds) * 1000),
    )
    return bool(accepted)


def _node(client: Any, ip: str) -> str | None:
    """Ray's name of the living node with this address."""
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    alive = GcsNodeInfo.GcsNodeState.ALIVE
    nodes = client.get_all_node_info(timeout=ANSWER_SECONDS, state_filter=alive)
    found = [node for node in nodes.values() if node.node_manager_address == ip]
    return next((node.node_id.hex() for node in found if not node.is_head_node), None)


def _reachable(address: str) -> bool:
    """Ray's own client waits for minutes for a head that went first, as it does at a run's end."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Tell Ray that this pod's node has to go; wait.")
    parser.add_argument("seconds", type=float, help="until the pod is ended")
    seconds = parser.parse_args().seconds
    address, ip = os.environ.get("RAY_ADDRESS"), os.environ.get("POD_IP")
    if not address or not ip:
        parser.error("RAY_ADDRESS or POD_IP is not set; only the pods of `ops` have both")
    drain(address, ip, seconds)


if __name__ == "__main__":
    main()
