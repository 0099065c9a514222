"""A cluster's Kubernetes: its objects, KubeRay's operator, and Autopilot's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rehearsal.ops.simulation.refusal import Refusal
from rehearsal.ops.simulation.store import Object, Store, stamp

TPU = "google.com/tpu"
HEAD_SECONDS, AUTOPILOT_SECONDS = 20.0, 180.0


@dataclass
class Behaviour:
    """What the job of a run does once all its workers are there."""

    seconds: float = 600.0
    ends: str = "SUCCEEDED"
    message: str = ""
    log: str = "step 1\nstep 2"
    image: bool = True


class Jobs:
    """Behaviours by the beginning of the RayJob's name; the longest that fits counts."""

    def __init__(self) -> None:
        self._known = {"": Behaviour()}
        self.finished = False

    def behave(self, prefix: str, **changed: Any) -> None:
        self._known[prefix] = Behaviour(**changed)

    def finish(self) -> None:
        """All jobs that run just now, or begin later, end."""
        self.finished = True

    def of(self, name: str) -> Behaviour:
        return self._known[max((p for p in self._known if name.startswith(p)), key=len)]


class Kubernetes:
    def __init__(self, jobs: Jobs, autopilot: bool, now: float) -> None:
        self.store, self._jobs, self._autopilot = Store(), jobs, autopilot
        self._now = now

    def tick(self, now: float) -> None:
        self._now = now
        for job in self.store.all("rayjobs"):
            self._reconcile(job)
        for pod in self.store.all("pods"):
            self._run(pod)

    def chips(self) -> Counter[str]:
        """Those that Autopilot rents for pods, by the label run."""
        found: Counter[str] = Counter()
        if self._autopilot:
            for pod in self.store.all("pods"):
                if pod["status"]["phase"] == "Running":
                    found[pod["metadata"]["labels"].get("run", "")] += _tpus(pod)
        return found

    def waiting(self) -> Iterator[tuple[str, dict[str, str], int]]:
        """Pods that want chips and have no node: name, selector, chips."""
        if self._autopilot:
            return
        for pod in self.store.all("pods"):
            placed = pod["status"]["phase"] != "Pending" or pod["spec"].get("nodeName")
            if not placed and (chips := _tpus(pod)):
                yield pod["metadata"]["name"], pod["spec"].get("nodeSelector", {}), chips

    def place(self, pod: str, node: str) -> None:
        if found := self.store.find("pods", pod):
            found["spec"]["nodeName"] = node

    def lose(self, pod: str) -> None:
        """Its node is gone: the operator makes another one."""
        if pod and (found := self.store.find("pods", pod)):
            found["spec"].pop("nodeName", None)
            found["status"] = {"phase": "Pending"}

    def event(self, about: str, reason: str, message: str) -> None:
        name = f"{about}.{reason}.{abs(hash(message))}"
        if self.store.find("events", name) is None:
            body = {"involvedObject": {"name": about}, "reason": reason, "message": message}
            self.store.put("events", name, {**body, "type": "Warning", "metadata": {}}, self._now)

    def log(self, pod: str, seconds: int | None) -> str:
        found = self.store.get("pods", pod)
        if found["status"]["phase"] == "Pending":
            raise Refusal(400, f'container in pod "{pod}" is waiting to start')
        began = found["status"]["began"]
        job = found["metadata"]["labels"].get("job-name", "")
        lines = self._jobs.of(job).log.splitlines()
        stamped = [(began + index, line) for index, line in enumerate(lines)]
        oldest = 0.0 if seconds is None else self._now - seconds
        return "".join(
            f"{stamp(at)[:-1]}.{index:09d}Z {line}\n"
            for index, (at, line) in enumerate(stamped)
            if at >= oldest
        )

    def _reconcile(self, job: Object) -> None:
        """KubeRay's operator, for a RayJob."""
        status = job.setdefault("status", {})
        state = status.get("jobDeploymentStatus")
        if state in ("Complete", "Failed"):
            return self._clean(job)
        if state is None:
            return self._start(job)
        began = status["began"]
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit and self._now - began >= limit:
            return self._end(
                job, "FAILED", "DeadlineExceeded", "the RayJob has passed its deadline"
            )
        workers = self._workers(job)
        ready = workers and all(pod["status"]["phase"] == "Running" for pod in workers)
        if state == "Initializing":
            return self._initializing(job, bool(ready))
        if ready and (self._jobs.finished or self._now >= status["ends"]):
            behaviour = self._jobs.of(job["metadata"]["name"])
            failed = behaviour.ends == "FAILED"
            return self._end(job, behaviour.ends, "AppFailed" if failed else "", behaviour.message)
        return None

    def _start(self, job: Object) -> None:
        name = job["metadata"]["name"]
        cluster = f"{name}-{job['metadata']['uid'][-5:]}"
        job["status"] = {
            "jobDeploymentStatus": "Initializing",
            "jobStatus": "",
            "rayClusterName": cluster,
            "startTime": stamp(self._now),
            "began": self._now,
        }
        made = self._child(job, "rayclusters", cluster, {"status": {"state": "ready"}})
        made["metadata"]["labels"] = dict(job["metadata"].get("labels") or {})
        spec = job["spec"]["rayClusterSpec"]
        self._pod(made, f"{cluster}-head", spec["headGroupSpec"]["template"], "head")
        for group in spec["workerGroupSpecs"]:
            for index in range(group["numOfHosts"] * group["replicas"]):
                name = f"{cluster}-{group['groupName']}-{index}"
                self._pod(made, name, group["template"], "worker")

    def _initializing(self, job: Object, ready: bool) -> None:
        status, limit = job["status"], job["spec"].get("preRunningDeadlineSeconds")
        if ready:
            behaviour = self._jobs.of(job["metadata"]["name"])
            status.update(jobDeploymentStatus="Running", jobStatus="RUNNING")
            status["ends"] = self._now + behaviour.seconds
            labels = {"job-name": job["metadata"]["name"]}
            containers = [{"name": "submitter", "image": "same"}]
            pod = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
            made = self._child(job, "pods", f"{job['metadata']['name']}-submitter", pod)
            made["status"] = {"phase": "Pending"}
        elif limit and self._now - status["began"] >= limit:
            text = "the RayJob did not start in time"
            self._end(job, "", "PreRunningDeadlineExceeded", text)

    def _end(self, job: Object, ends: str, reason: str, message: str) -> None:
        deployment = "Complete" if ends in ("SUCCEEDED",) else "Failed"
        job["status"].update(
            jobDeploymentStatus=deployment,
            jobStatus=ends,
            reason=reason,
            message=message,
            endTime=stamp(self._now),
            ended=self._now,
        )

    def _clean(self, job: Object) -> None:
        spec, status = job["spec"], job["status"]
        late = self._now - status["ended"] >= spec.get("ttlSecondsAfterFinished", 0)
        there = self.store.find("rayclusters", status["rayClusterName"])
        if there and late and spec.get("shutdownAfterJobFinishes"):
            self.store.delete("rayclusters", status["rayClusterName"])

    def _workers(self, job: Object) -> list[Object]:
        cluster = job["status"]["rayClusterName"]
        mine = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
        pods = self.store.all("pods")
        return [pod for pod in pods if mine.items() <= pod["metadata"]["labels"].items()]

    def _pod(self, cluster: Object, name: str, template: Object, kind: str) -> None:
        labels = {
            **template["metadata"].get("labels", {}),
            "ray.io/cluster": cluster["metadata"]["name"],
            "ray.io/node-type": kind,
            "app.kubernetes.io/name": "kuberay",
        }
        body = {"metadata": {"labels": labels}, "spec": dict(template["spec"])}
        made = self._child(cluster, "pods", name, body)
        made["status"] = {"phase": "Pending"}

    def _child(self, owner: Object, plural: str, name: str, body: Object) -> Object:
        made = self.store.put(plural, name, body, self._now)
        reference = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        made["metadata"]["ownerReferences"] = [{**reference, "kind": "x", "apiVersion": "v1"}]
        return made

    def _run(self, pod: Object) -> None:
        """A pod with a node, or that needs none of ours, starts; if its image can be had."""
        status, spec = pod["status"], pod["spec"]
        if status["phase"] != "Pending":
            return
        status.setdefault("seen", self._now)
        waits = AUTOPILOT_SECONDS if self._autopilot and _tpus(pod) else HEAD_SECONDS
        placed = spec.get("nodeName") or self._autopilot or not _tpus(pod)
        if placed and self._now - status["seen"] >= waits:
            self._begin(pod)

    def _begin(self, pod: Object) -> None:
        cluster = pod["metadata"]["labels"].get("ray.io/cluster", "")
        if self._jobs.of(cluster).image:
            pod["status"] = {"phase": "Running", "began": self._now}
            return
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}
        container = {"name": "ray", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        pod["status"]["containerStatuses"] = [{**container, "state": {"waiting": waiting}}]


def _tpus(pod: Object) -> int:
    found = 0
    for container in pod["spec"].get("containers", ()):
        limits = (container.get("resources") or {}).get("limits") or {}
        found += int(limits.get(TPU, 0))
    return found
