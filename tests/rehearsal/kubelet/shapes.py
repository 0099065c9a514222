"""What GKE's machines look like in Kubernetes: labels, taints, capacity, the TPU device plugin."""

from __future__ import annotations

from typing import Any

from rehearsal.kubelet.nodes import Machine
from rehearsal.ops.simulation.capacity import kind_of
from rehearsal.ops.simulation.nodes import Pool

Object = dict[str, Any]
TPU = "google.com/tpu"
SIZES = {1: ("24", "44Gi"), 4: ("112", "188Gi"), 8: ("224", "380Gi")}
"""vCPUs and memory that are left for pods, by chips of the machine (v5e's)."""
KINDS = {"spot": "cloud.google.com/gke-spot", "flex-start": "cloud.google.com/gke-queued"}


def host() -> Machine:
    """A machine without chips, as every cluster has one."""
    labels = {"cloud.google.com/gke-nodepool": "default-pool"}
    return Machine("gke-default-pool-0", _capacity("8", "32Gi"), labels)


def machine(catalog: Any, pool: Pool, name: str) -> Machine:
    """`catalog` is the generated project's slices.py."""
    config = pool.asked.config
    cpu, memory = SIZES[pool.chips]
    labels = {**pool.labels, "node.kubernetes.io/instance-type": config.machine_type}
    if config.flex_start:
        labels["cloud.google.com/gke-flex-start"] = "true"
    capacity = {**_capacity(cpu, memory), TPU: str(pool.chips)}
    return Machine(name, capacity, labels, _taints(pool), _devices(catalog, pool))


def _capacity(cpu: str, memory: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": "110"}


def _taints(pool: Pool) -> list[Object]:
    found = [{"key": TPU, "value": "present", "effect": "NoSchedule"}]
    if key := KINDS.get(kind_of(pool.asked.config)):
        found.append({"key": key, "value": "true", "effect": "NoSchedule"})
    return found


def _devices(catalog: Any, pool: Pool) -> dict[str, str]:
    """A pod on several hosts is told its place by the webhook, not by its machine."""
    generation = catalog.machine(pool.asked.config.machine_type).generation
    one = catalog.find(generation, pool.topology)
    told = {
        "TPU_ACCELERATOR_TYPE": one.pod_type,
        "TPU_TOPOLOGY": one.topology,
        "TPU_SKIP_MDS_QUERY": "true",
    }
    if not one.multi_host:
        told |= {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    return told
