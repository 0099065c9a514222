"""What a user is told when something is wrong: what, where, and what to do next."""

from __future__ import annotations


class Failure(Exception):
    """A fault that a person can mend.

    `exit_code` is the process's exit status. All three texts are arguments of the exception, so
    that it survives pickling: Ray carries it from a worker to the driver.
    """

    exit_code = 6

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(what, where, remedy)
        self.what, self.where, self.remedy = what, where, remedy

    def __str__(self) -> str:
        return f"{self.what}\n  where: {self.where}\n  what to do: {self.remedy}"


class InputError(Failure):
    """A setting, an answer or an input file is wrong."""

    exit_code = 2


class NotFound(Failure):
    """Something that was named does not exist."""

    exit_code = 3


class Refused(Failure):
    """A machine or the cloud refused: rights, quota, a full disk, an unwritable bucket."""

    exit_code = 4


class NoCapacity(Failure):
    """No kind of capacity in any zone of the list had the chips."""

    exit_code = 5


class Deadline(Failure):
    """The time that was given is over."""

    exit_code = 7


class LeftOver(Failure):
    """Something of ours could not be removed and may cost money."""

    exit_code = 8
