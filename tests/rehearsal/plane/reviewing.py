"""Whose a bearer token is, asked by the API server for each request: a token can expire."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from rehearsal.plane.certs import Authority

Object = dict[str, Any]
User = tuple[str, str]
"""The name, and the group."""


class Reviewer:
    """Answers until it is closed; `tokens` is read anew for each answer."""

    def __init__(self, authority: Authority, address: str, tokens: Mapping[str, User]) -> None:
        pair = authority.server("tokens", address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = ThreadingHTTPServer((address, 0), _handler(tokens))
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"https://{address}:{self._server.server_address[1]}/"

    def configure(self, file: Path, authority: Path) -> Path:
        """Writes what the API server reads to find this."""
        cluster = {"server": self.url, "certificate-authority": str(authority)}
        context = {"cluster": "tokens", "user": "apiserver"}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tokens", "cluster": cluster}],
            "users": [{"name": "apiserver"}],
            "contexts": [{"name": "tokens", "context": context}],
            "current-context": "tokens",
        }
        file.write_text(yaml.safe_dump(body))
        return file

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(tokens: Mapping[str, User]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            user = tokens.get(review["spec"]["token"])
            content = json.dumps({**review, "status": _status(user)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            """What was asked is in the API server's own log."""

    return Handler


def _status(user: User | None) -> Object:
    if user is None:
        return {"authenticated": False}
    name, group = user
    return {"authenticated": True, "user": {"username": name, "uid": name, "groups": [group]}}
