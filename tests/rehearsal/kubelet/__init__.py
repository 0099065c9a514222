"""A small stand-in for kubelets: pods of a real control plane run as processes on this machine."""

from rehearsal.kubelet.images import Image
from rehearsal.kubelet.kubelet import Kubelet
from rehearsal.kubelet.names import Names
from rehearsal.kubelet.network import HOST, Network
from rehearsal.kubelet.nodes import Machine

__all__ = ["HOST", "Image", "Kubelet", "Machine", "Names", "Network"]
