"""The webhook as a server of its own: `python -m ... ADDRESS PORT CERTIFICATE KEY KUBECONFIG`."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes import client, config

from rehearsal.plane import tpu_rules as rules

Object = dict[str, Any]


class _Server(ThreadingHTTPServer):
    # The API server asks for many pods at once; who finds the queue full waits out its deadline.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    one_pod_at_a_time = threading.Lock()

    def do_GET(self) -> None:
        self._reply(200, "")

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        answer = self._mutate if self.path.startswith("/mutate") else self._validate
        try:
            response = {"uid": request["uid"], **answer(request)}
        except (rules.Unreadable, KeyError) as error:
            verb = self.path.strip("/").partition("?")[0]
            self.log_message("%s: %s", verb, error)
            self._reply(403, f"Failed to {verb} {request['kind']['kind']}")
            return
        whole = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
        self._reply(200, json.dumps({**whole, "response": response}))

    def _validate(self, request: Object) -> Object:
        why = rules.refusal(request["object"])
        return {"allowed": not why, "status": {"message": why}}

    def _mutate(self, request: Object) -> Object:
        pod = request["object"]
        if not rules.chips(pod["spec"]):
            return {"allowed": True}
        with self.one_pod_at_a_time:
            place = rules.labelled_place(pod) or _next(pod, request["namespace"])
        patch = json.dumps(rules.patch(pod, place)).encode()
        encoded = base64.b64encode(patch).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    def _reply(self, code: int, text: str) -> None:
        content = text.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def _next(pod: Object, namespace: str) -> rules.Place:
    labels = pod["metadata"]["labels"]
    group = ",".join(f"{key}={labels[key]}" for key in (rules.CLUSTER, rules.GROUP))
    api = client.CoreV1Api()
    found = api.list_namespaced_pod(namespace, label_selector=group).items
    plain = api.api_client.sanitize_for_serialization(found)
    return rules.next_place(plain, rules.hosts(pod["spec"]))


def main(address: str, port: str, certificate: str, key: str, kubeconfig: str) -> None:
    config.load_kube_config(kubeconfig)
    server = _Server((address, int(port)), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
