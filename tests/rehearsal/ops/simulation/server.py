"""HTTP around the simulated world: one server for Google, one over TLS for all Kubernetes APIs."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import trustme

from rehearsal.ops.simulation.faults import Kind
from rehearsal.ops.simulation.refusal import Refusal

Handler = Callable[[dict[str, str], bytes], Any]
Answerer = Callable[[str, str, str, str, dict[str, str], bytes], "Reply"]
MOST_CLUSTERS = 250


class Reply:
    """A status, a body and how much of it is sent; nothing at all where `silent`."""

    def __init__(self, code: int, body: Any, kind: Kind | None = None) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.code, self.text, self.silent = code, text, False
        self.type = "text/plain" if isinstance(body, str) else "application/json"
        if kind == "broken":
            self.text = text[: len(text) // 2]
        if kind in ("timeout-before", "timeout-after"):
            self.silent = True


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    answer: Answerer

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = self.connection.getsockname()[0]
        token = self.headers.get("Authorization", "")
        query = dict(parse_qsl(parts.query))
        reply = type(self).answer(self.command, address, parts.path, token, query, body)
        if reply.silent:
            self.close_connection = True
            return
        content = reply.text.encode()
        self.send_response(reply.code)
        self.send_header("Content-Type", reply.type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _handle  # noqa: N815 (http.server's names)

    def log_message(self, *_: Any) -> None:
        """Tests read `Simulation.calls`."""


class Server:
    """Answers requests in threads until it is closed."""

    def __init__(self, answer: Answerer, tls: bool = False) -> None:
        handler = type("Request", (_Request,), {"answer": staticmethod(answer)})
        # All of 127.0.0.0/8: the address that was asked tells which cluster is meant.
        self._server = ThreadingHTTPServer(("0.0.0.0" if tls else "127.0.0.1", 0), handler)  # noqa: S104
        self._server.daemon_threads = True
        if tls:
            self._server.socket = _context().wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        words = {"poll_interval": 0.01}
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs=words, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def google_refusal(refusal: Refusal) -> Any:
    return refusal.body()


def kubernetes_refusal(refusal: Refusal) -> Any:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refusal.message,
        "code": refusal.code,
    }


def authority() -> bytes:
    """The certificate that the Kubernetes APIs are trusted by, as PEM."""
    found: bytes = _authority().cert_pem.bytes()
    return found


@cache
def _authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@cache
def _context() -> ssl.SSLContext:
    addresses = [f"127.0.1.{number}" for number in range(1, MOST_CLUSTERS)]
    certificate = _authority().issue_cert("127.0.0.1", *addresses)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def local(number: int) -> str:
    """The address of the cluster of this number."""
    if not 1 <= number < MOST_CLUSTERS:
        raise ValueError(f"at most {MOST_CLUSTERS - 1} clusters")
    return socket.inet_ntoa(bytes([127, 0, 1, number]))
