"""The whole plane: started, furnished, broken in parts on purpose, and gone without leftovers."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rehearsal.plane import components, kubeconfig, registration
from rehearsal.plane.certs import Authority
from rehearsal.plane.processes import Component, Process
from rehearsal.plane.reviewing import Reviewer, User

ADMINISTRATORS = "system:masters"
NAMESPACE = "ray-system"
COMMAND_SECONDS = 120


class Plane:
    """`kubernetes` and `operator` are folders that `find` gave.

    All listens at `address`; a bridge's own address is reached from its network namespaces too.
    `hosts` is what the operator has for /etc/hosts, `gates` its feature gates (NAME=true,...).
    A node that says nothing for `grace_seconds` is lost.
    `tokens` are bearer tokens with the user and the group that they stand for.
    Use it from one thread: its processes end with the thread that started them.
    """

    def __init__(
        self,
        folder: Path,
        kubernetes: Path,
        operator: Path,
        *,
        address: str = components.HERE,
        hosts: Path | None = None,
        gates: str = "",
        grace_seconds: int = 20,
        tokens: Mapping[str, User] | None = None,
    ) -> None:
        self.folder = folder
        self.logs_folder = folder / "logs"
        self.logs_folder.mkdir(parents=True)
        self.authority = Authority(folder / "pki")
        self.token = secrets.token_hex(16)
        """An administrator's, beside the given ones."""
        self.tokens = {self.token: ("admin", ADMINISTRATORS), **(tokens or {})}
        """As they are just now: one that is taken out has expired."""
        self._reviewer = Reviewer(self.authority, address, self.tokens)
        reviewed = folder / "tokens.kubeconfig"
        self.layout = components.Layout(
            folder,
            kubernetes,
            operator,
            address,
            self.authority,
            self._reviewer.configure(reviewed, self.authority.certificate),
            grace_seconds,
        )
        self.url = self.layout.url()
        self._operator = operator
        made = self._components(hosts, gates)
        self._processes = {one.name: self._process(one) for one in made}

    def __enter__(self) -> Plane:
        try:
            for name in ("etcd", "apiserver"):
                self.start(name)
            for name in ("controller-manager", "scheduler", "webhook"):
                self._processes[name].start()
            self._furnish()
            for name in self._processes:
                self.start(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The store last: what still writes to it would complain for long."""
        for process in reversed(self._processes.values()):
            process.stop(signal.SIGKILL)
        self._reviewer.close()

    def start(self, name: str) -> None:
        """Of etcd, apiserver, controller-manager, scheduler, webhook, operator; waits for it."""
        self._processes[name].start()
        self._processes[name].wait()

    def stop(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        self._processes[name].stop(sign)

    def logs(self, name: str) -> str:
        return self._processes[name].log.read_text(errors="replace")

    @property
    def names(self) -> list[str]:
        return list(self._processes)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def kubeconfig(self, user: str = "admin", group: str = ADMINISTRATORS) -> Path:
        """A new one for this user."""
        pair = self.authority.client(user, group)
        name = user.replace(":", "-")
        file = self.folder / f"{name}.kubeconfig"
        return kubeconfig.write(file, self.url, self.authority.certificate, pair)

    def kubectl(self, *words: str, given: object = None) -> subprocess.CompletedProcess[str]:
        """As an administrator; `given`, an object or several, is what `-f -` reads."""
        command = [str(self.layout.kubernetes / "kubectl"), *words]
        environment = {
            **os.environ,
            "KUBECONFIG": self.layout.config("admin"),
            "KUBECACHEDIR": str(self.folder / "kubectl"),
        }
        return subprocess.run(
            command,
            input=json.dumps(given) if given is not None else None,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )

    def objects(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """All of a kind, in every namespace."""
        answer = self._must("get", kind, "--all-namespaces", "--output=json", *words)
        return list(json.loads(answer)["items"])

    def _must(self, *words: str, given: object = None) -> str:
        done = self.kubectl(*words, given=given)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _furnish(self) -> None:
        """What a cluster has before anybody works in it: KubeRay's definitions and rights, and the
        webhook's registrations."""
        installed = self._operator / "config"
        apply = ("apply", "--server-side", "--filename")
        self._must(*apply, str(installed / "crd" / "bases"))
        self._must("wait", "--for=condition=Established", "crd", "--all")
        self._must("create", "namespace", NAMESPACE)
        self._must(*apply, str(installed / "rbac" / "role.yaml"))
        user = f"--user={components.OPERATOR_USER}"
        self._must(
            "create", "clusterrolebinding", "kuberay", "--clusterrole=kuberay-operator", user
        )
        url, authority = self.layout.url("webhook"), self.authority.certificate.read_bytes()
        hooks = registration.registrations(url, authority)
        self._must(*apply, "-", given={"apiVersion": "v1", "kind": "List", "items": hooks})

    def _components(self, hosts: Path | None, gates: str) -> list[Component]:
        self.kubeconfig()
        operator = self.kubeconfig(components.OPERATOR_USER, "system:serviceaccounts")
        operator.rename(self.layout.config("operator"))
        makers = (
            components.etcd,
            components.apiserver,
            components.controllers,
            components.scheduler,
            components.webhook,
        )
        made = [make(self.layout) for make in makers]
        return [*made, components.operator(self.layout, hosts, gates)]

    def _process(self, component: Component) -> Process:
        log = self.logs_folder / f"{component.name}.log"
        return Process(component, log, self.authority.certificate)
