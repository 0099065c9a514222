"""Google's APIs that need no client of their own: one call, one request, JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from google.api_core.exceptions import from_http_response
from google.auth.credentials import Credentials
from google.auth.transport.requests import AuthorizedSession
from requests import Response

from .faults import GarbledError
from .remote import Remote

OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
"""gcloud's own variables: what they set holds for `ops` too, so that both ask the same server."""
TIMEOUT_SECONDS = 60
PATHS = {"compute": "compute/v1/", "storage": "storage/v1/"}
"""What stands before a version-less path; the other services have their version in the path."""

Object = dict[str, Any]


class Rest:
    """`service` is a service's short name, like "iam"; `what` completes "could not ..."."""

    def __init__(self, remote: Remote, credentials: Credentials) -> None:
        self._remote = remote
        self._session = AuthorizedSession(credentials)

    def get(self, what: str, service: str, path: str, **words: Any) -> Object:
        """Raises Missing, Failure."""
        return self.ask(what, "GET", service, path, **words)

    def post(self, what: str, service: str, path: str, **words: Any) -> Object:
        """Raises Missing, Failure."""
        return self.ask(what, "POST", service, path, **words)

    def ask(
        self,
        what: str,
        method: str,
        service: str,
        path: str,
        check: Callable[[Object], None] | None = None,
        **words: Any,
    ) -> Object:
        """`check` raises GarbledError for an answer that is not whole: it is asked for again."""
        url = root(service) + path

        def ask() -> Object:
            answer = _answer(self._session.request(method, url, timeout=TIMEOUT_SECONDS, **words))
            if check is not None:
                check(answer)
            return answer

        return self._remote(what, f"{service}.googleapis.com, {path}", ask)


def override(service: str) -> str | None:
    """Where gcloud was told to ask a service, without a slash at the end."""
    return os.environ.get(OVERRIDE + service.upper(), "").rstrip("/") or None


def root(service: str) -> str:
    """Where a service is asked, with a slash at the end."""
    own = override(service) or f"https://{service}.googleapis.com/{PATHS.get(service, '')}"
    return own.rstrip("/") + "/"


def _answer(response: Response) -> Object:
    if response.status_code >= 400:
        raise from_http_response(response)
    answer = response.json()
    if not isinstance(answer, dict):
        raise GarbledError("the answer is no JSON object")
    return answer
