"""The command line of each component."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.plane.certs import Authority
from rehearsal.plane.processes import Component

SERVICES = "10.96.0.0/16"
OPERATOR_USER = "system:serviceaccount:ray-system:kuberay-operator"
HERE = "127.0.0.1"
TESTS = Path(__file__).parents[2]


def free_port(address: str) -> int:
    with socket.socket() as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


@dataclass(frozen=True)
class Layout:
    """Where the plane lies: folders of programs, a folder for files, the address it listens at."""

    folder: Path
    kubernetes: Path
    operator: Path
    address: str
    authority: Authority
    tokens: Path
    grace_seconds: int
    ports: dict[str, int] = field(default_factory=dict)

    def port(self, name: str) -> int:
        """The same after a restart."""
        return self.ports.setdefault(name, free_port(self.address))

    def url(self, name: str = "apiserver") -> str:
        return f"https://{self.address}:{self.port(name)}"

    def config(self, user: str) -> str:
        return str(self.folder / f"{user}.kubeconfig")


def etcd(at: Layout) -> Component:
    client, peer = (f"http://{HERE}:{at.port(name)}" for name in ("etcd", "etcd-peer"))
    return Component(
        "etcd",
        (
            str(at.kubernetes / "etcd"),
            f"--data-dir={at.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ),
        f"{client}/health",
    )


def apiserver(at: Layout) -> Component:
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    serving = at.authority.server("apiserver", at.address, HERE, "10.96.0.1", *names)
    accounts = at.authority.server("service-accounts", "accounts")
    kubelet = at.authority.client("kube-apiserver-kubelet-client", "system:masters")
    return Component(
        "apiserver",
        (
            str(at.kubernetes / "kube-apiserver"),
            f"--etcd-servers=http://{HERE}:{at.port('etcd')}",
            f"--bind-address={at.address}",
            f"--secure-port={at.port('apiserver')}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={at.authority.certificate}",
            f"--authentication-token-webhook-config-file={at.tokens}",
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=1s",
            f"--service-account-key-file={accounts.key}",
            f"--service-account-signing-key-file={accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-cluster-ip-range={SERVICES}",
            # A loopback address is refused as an endpoint of the service `kubernetes`.
            "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            # As on GKE: who asks for chips tolerates the taint of the nodes that have them.
            "--enable-admission-plugins=ExtendedResourceToleration",
            # A pod leaves a lost node in seconds, not in GKE's five minutes.
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
            "--profiling=false",
        ),
        f"{at.url()}/readyz",
    )


def controllers(at: Layout) -> Component:
    return Component(
        "controller-manager",
        (
            str(at.kubernetes / "kube-controller-manager"),
            *_secured(at, "controller-manager"),
            f"--service-account-private-key-file={at.folder / 'pki' / 'service-accounts.key'}",
            f"--root-ca-file={at.authority.certificate}",
            "--use-service-account-credentials=true",
            "--node-monitor-period=2s",
            f"--node-monitor-grace-period={at.grace_seconds}s",
        ),
        f"{at.url('controller-manager')}/healthz",
    )


def scheduler(at: Layout) -> Component:
    command = (str(at.kubernetes / "kube-scheduler"), *_secured(at, "scheduler"))
    return Component("scheduler", command, f"{at.url('scheduler')}/healthz")


def _secured(at: Layout, name: str) -> tuple[str, ...]:
    pair = at.authority.server(name, at.address)
    return (
        f"--kubeconfig={at.config('admin')}",
        f"--authentication-kubeconfig={at.config('admin')}",
        f"--authorization-kubeconfig={at.config('admin')}",
        f"--bind-address={at.address}",
        f"--secure-port={at.port(name)}",
        f"--tls-cert-file={pair.certificate}",
        f"--tls-private-key-file={pair.key}",
        "--leader-elect=false",
        "--profiling=false",
    )


def webhook(at: Layout) -> Component:
    pair = at.authority.server("webhook", at.address)
    return Component(
        "webhook",
        (
            *("env", f"PYTHONPATH={TESTS}", sys.executable, "-m", "rehearsal.plane.webhook"),
            *(at.address, str(at.port("webhook")), str(pair.certificate), str(pair.key)),
            at.config("admin"),
        ),
        f"{at.url('webhook')}/",
    )


def operator(at: Layout, hosts: Path | None, gates: str) -> Component:
    health = f"{at.address}:{at.port('operator')}"
    return Component(
        "operator",
        (
            str(at.operator / "ray-operator"),
            f"--kubeconfig={at.config('operator')}",
            f"--metrics-addr={at.address}:{at.port('operator-metrics')}",
            f"--health-probe-bind-address={health}",
            "--enable-leader-election=false",
            f"--feature-gates={gates}",
        ),
        f"http://{health}/readyz",
        hosts,
    )
