"""How Google says no."""

from __future__ import annotations

STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class Refusal(Exception):  # noqa: N818 (it is one)
    """An answer other than 200, in Google's form."""

    def __init__(self, code: int, message: str, status: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.status = status or STATUS[code]

    def body(self) -> dict[str, object]:
        error = {"code": self.code, "message": self.message, "status": self.status}
        return {"error": error}


def busy(operation: str) -> Refusal:
    return Refusal(
        400,
        f"Cluster is running incompatible operation {operation}.",
        "FAILED_PRECONDITION",
    )
