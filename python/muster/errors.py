"""Failures of the library as exceptions that carry status, text and fix."""
import enum
from typing import Any, Dict, Type


class Status(enum.IntEnum):
    """The statuses of muster/status.h; the number's group says what a failure makes unusable."""
    OK = 0
    INVALID = -1
    NOT_FOUND = -2
    STALE = -3
    UNKNOWN = -4
    CAPACITY = -5
    NO_MEMORY = -6
    DEVICE_MEMORY = -7
    TOO_LARGE = -8
    NOT_SUPPORTED = -9
    TIMEOUT = -10
    BUSY = -11
    CANCELLED = -12
    NO_DEVICE = -13
    FAILED = -14
    DRIVER = -15
    IO = -16
    PARSE = -17
    VERSION = -18
    ORDER = -19
    CRASHED = -20
    DATA_LOST = -21
    DENIED = -22
    STREAM_FAILED = -100
    DEVICE_LOST = -200
    DEVICE_HUNG = -201
    INTERNAL = -300
    FORKED = -301

    @classmethod
    def _missing_(cls, value: object) -> "Status":
        # A newer library of the same soname may have more of them.
        return cls.INTERNAL


class LibraryError(ImportError):
    """libmuster is not there, or is another version's."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(f"{text}\n{fix}")
        self.text, self.fix = text, fix


class Error(Exception):
    """A call that failed: `status`, `text` (what was asked and what there was), `fix` (what would help, may be empty),
    `device` (the id of the one concerned, may be empty) and `driver_code` (0: no driver was asked)."""

    def __init__(self, status: int, text: str, fix: str = "", device: str = "", driver_code: int = 0) -> None:
        super().__init__(f"{text}\n{fix}" if fix else text)
        self.status = Status(status)
        self.text, self.fix, self.device, self.driver_code = text, fix, device, driver_code


class InvalidError(Error, ValueError):
    """INVALID, PARSE or TOO_LARGE: an argument, a kernel's source or a description is wrong."""


class NotFoundError(Error, LookupError):
    """NOT_FOUND: no device, file or kernel of that name."""


class NoMemoryError(Error, MemoryError):
    """NO_MEMORY or DEVICE_MEMORY."""


class WaitTimeoutError(Error, TimeoutError):
    """TIMEOUT: the time allowed has passed."""


class NoDeviceError(Error):
    """NO_DEVICE: no device is eligible; the text says why not."""


class DeviceError(Error):
    """DEVICE_LOST or DEVICE_HUNG."""


KINDS: Dict[Status, Type[Error]] = {
    Status.INVALID: InvalidError, Status.PARSE: InvalidError, Status.TOO_LARGE: InvalidError,
    Status.NOT_FOUND: NotFoundError, Status.NO_MEMORY: NoMemoryError, Status.DEVICE_MEMORY: NoMemoryError,
    Status.TIMEOUT: WaitTimeoutError, Status.NO_DEVICE: NoDeviceError, Status.DEVICE_LOST: DeviceError,
    Status.DEVICE_HUNG: DeviceError,
}


def make(status: int, text: str, fix: str = "", device: str = "", driver_code: int = 0) -> Error:
    """The exception of a status."""
    return KINDS.get(Status(status), Error)(status, text, fix, device, driver_code)


def of(err: Any) -> Error:
    """The exception of a filled struct muster_error."""
    text, fix, device = (field.decode("utf-8", "replace") for field in (err.text, err.fix, err.device))
    return make(err.status, text, fix, device, err.driver_code)


def invalid(text: str, fix: str = "") -> InvalidError:
    return InvalidError(Status.INVALID, text, fix)
