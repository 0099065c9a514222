"""The kubelet's own endpoint, as far as the API server asks it for logs."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import trustme

from rehearsal.kubelet.logs import moment
from rehearsal.kubelet.network import HOST
from rehearsal.kubelet.pods import Pod
from rehearsal.kubelet.runner import Runner

Find = Callable[[str, str], Pod | None]
_PATH = re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)")


class Refusal(Exception):  # noqa: N818 (it is one)
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Endpoint:
    """One for all nodes, at `port` of the bridge."""

    def __init__(self, find: Find) -> None:
        handler = type("Request", (_Request,), {"find": staticmethod(find)})
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert(HOST).configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    find: Find

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        match = _PATH.fullmatch(parts.path)
        try:
            if match is None:
                raise Refusal(404, f"this stand-in has no {parts.path}")
            lines = _lines(type(self).find(match[1], match[2]), match, dict(parse_qsl(parts.query)))
        except Refusal as refusal:
            return self._send(refusal.code, iter([f"{refusal}\n".encode()]))
        return self._send(200, lines)

    def _send(self, code: int, lines: Iterator[bytes]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in lines:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # whoever followed has gone
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def _lines(pod: Pod | None, match: re.Match[str], query: dict[str, str]) -> Iterator[bytes]:
    runner = pod.runner(match[3]) if pod else None
    if runner is None:
        raise Refusal(404, f'pod "{match[2]}" is not here, or has no container {match[3]}')
    number = 2 if query.get("previous") == "true" else 1
    if len(runner.logs) < number:
        raise Refusal(400, _waiting(runner, match))
    tail = query.get("tailLines")
    return runner.logs[-number].lines(
        tail=int(tail) if tail else None,
        since=_since(query),
        timestamps=query.get("timestamps") == "true",
        follow=query.get("follow") == "true",
    )


def _waiting(runner: Runner, match: re.Match[str]) -> str:
    reason = runner.state.get("waiting", {}).get("reason", "")
    return f'container "{match[3]}" in pod "{match[2]}" is waiting to start: {reason}'


def _since(query: dict[str, str]) -> str:
    if seconds := query.get("sinceSeconds"):
        return moment(datetime.now(UTC) - timedelta(seconds=int(seconds)))
    if time := query.get("sinceTime"):
        return moment(datetime.fromisoformat(time))
    return ""
