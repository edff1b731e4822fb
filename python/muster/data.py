"""Arrays that many calls read whole, and that may stay resident on devices."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _c
from ._library import lib
from .arrays import view
from .errors import invalid, of

if TYPE_CHECKING:
    from .runtime import Runtime


class Data:
    """A table, a model, weights: muster.share makes it. The array must stay as it is, or be followed by changed()."""

    def __init__(self, runtime: Runtime, array: Any) -> None:
        self.runtime, self.array = runtime, array
        self._seen = view(array)
        if self._seen.device is not None:
            raise invalid("an array that all items see whole must be in the host's memory", "copy it to the host")
        self.handle = _c.muster_data()
        self._is_there = False
        err = _c.muster_error()
        if lib.muster_data_create(runtime.handle, self._seen.address, self._seen.nbytes, 0, ctypes.byref(self.handle),
                                  ctypes.byref(err)):
            raise of(err)
        self._is_there = True
        runtime.owned.add(self)

    def changed(self) -> None:
        """The array has other contents now, or will: drops the copies on devices. Waits for those who read it."""
        err = _c.muster_error()
        if lib.muster_data_invalidate(self.runtime.handle, self.handle, ctypes.byref(err)):
            raise of(err)

    def close(self) -> None:
        """Waits for those who read it; the array is the caller's alone again."""
        if not self._is_there or not self.runtime.is_open:
            return
        err = _c.muster_error()
        if lib.muster_data_destroy(self.runtime.handle, self.handle, ctypes.byref(err)):
            raise of(err)
        self._is_there = False

    def __enter__(self) -> Data:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_there", False) and self.runtime.is_open:
            lib.muster_data_destroy(self.runtime.handle, self.handle, None)
