"""What a remote call's failure means, whichever client library it came through."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

import requests
import urllib3
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError
from google.protobuf.json_format import ParseError
from kubernetes.client.exceptions import ApiException
from pydantic import ValidationError


class GarbledError(Exception):
    """An answer that lacks what every whole one has."""


REMOTE_ERRORS = (
    GoogleAPICallError,
    ApiException,
    GoogleAuthError,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    ParseError,
    json.JSONDecodeError,
    ValidationError,
    GarbledError,
)
"""All that a client library of ours raises when a call fails."""


class Kind(Enum):
    """Faults that are handled alike."""

    PASSING = "passing"  # no answer, unavailable, too many requests: the same call may work soon
    BUSY = "busy"  # the cluster works on another operation
    LOGIN = "login"
    DENIED = "denied"
    QUOTA = "quota"
    STOCKOUT = "stockout"
    INVALID = "invalid"
    MISSING = "missing"
    EXISTS = "exists"


_BAD_LOGIN = (RefreshError, DefaultCredentialsError)
_QUOTA = re.compile(r"quota[_ ]?exceeded|exceeded quota|quota '|limit: 0|insufficient quota", re.I)
_STOCKOUT = re.compile(
    r"stockout|resource_pool_exhausted|does not have enough resources|not enough capacity", re.I
)
_BUSY = re.compile(
    r"incompatible operation|operation in (progress|flight)|is being (created|updated|upgraded)"
    r"|currently (creating|updating|upgrading|repairing|deleting)",
    re.I,
)
_BY_STATUS = {
    401: Kind.LOGIN,
    403: Kind.DENIED,
    404: Kind.MISSING,
    408: Kind.PASSING,
    409: Kind.EXISTS,
    429: Kind.PASSING,
}


def kind_of_text(text: str) -> Kind | None:
    """Stockout or quota, told from the words that Google uses; they have different remedies."""
    if _STOCKOUT.search(text):
        return Kind.STOCKOUT
    return Kind.QUOTA if _QUOTA.search(text) else None


def kind(error: Exception) -> Kind:
    status, text = status_of(error), text_of(error)
    if isinstance(error, _BAD_LOGIN) and not getattr(error, "retryable", False):
        return Kind.LOGIN
    if status == 0 or status >= 500:
        return Kind.PASSING
    if status != 429 and (spoken := kind_of_text(text)):
        return spoken
    if status in (400, 409) and _BUSY.search(text):
        return Kind.BUSY
    return _BY_STATUS.get(status, Kind.INVALID)


def status_of(error: Exception) -> int:
    """The HTTP status, 0 where no (whole) answer came."""
    if isinstance(error, GoogleAPICallError):
        return int(error.code or 0)
    if isinstance(error, ApiException):
        return int(error.status or 0)
    return 0


def text_of(error: Exception) -> str:
    """What the server said, in one line."""
    if isinstance(error, ApiException):
        said = _message(error.body) or str(error.reason)
    else:
        said = str(getattr(error, "message", "") or error)
    # Google's REST clients put the request before what the server said.
    said = re.sub(r"^[A-Z]+ https?://\S+: ", "", said)
    return " ".join(said.split()) or type(error).__name__


def _message(body: Any) -> str:
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return ""
