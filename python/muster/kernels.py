"""Kernels: what runs over items."""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c
from ._library import lib
from .errors import Status, invalid, of

if TYPE_CHECKING:
    from .runtime import Runtime

Path = Union[str, "os.PathLike[str]"]

# Types of C by the codes of the modules struct and array.
CODES = {"float": "f", "double": "d", "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H", "int32_t": "i",
         "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "char": "b", "signed char": "b", "unsigned char": "B",
         "short": "h", "unsigned short": "H", "int": "i", "unsigned": "I", "unsigned int": "I"}
KNOWN_MAX = 256  # kernels that a runtime keeps for the next call; of more the oldest go


class Parameter(NamedTuple):
    """One parameter of a kernel, as its source has it; `nbytes` 0: not known."""
    name: str
    type: str
    is_array: bool
    is_const: bool
    nbytes: int
    code: str  # of its numbers, for the modules struct and array; "": a struct, or not known

    def __str__(self) -> str:
        return f"{self.type} {self.name}".replace("* ", "*")


class Field(NamedTuple):
    """One of the numbers, or arrays of numbers, that a reduction makes."""
    name: str
    code: str
    offset: int
    length: int
    is_array: bool


class Kernel:
    """A kernel of one runtime: Runtime.kernel makes it. `parameters` is None if none of its forms is portable source."""

    def __init__(self, runtime: Runtime, handle: ctypes.c_void_p, name: str, keep: Any = None) -> None:
        self.runtime, self.handle, self.name = runtime, handle, name
        self.keep = keep  # what the library borrows
        runtime.owned.add(self)
        self.parameters = self._find_parameters()
        self.plans: Dict[Any, Any] = {}  # of plans.py
        self._partial: Optional[Tuple[int, List[Field]]] = None

    def _find_parameters(self) -> Optional[Tuple[Parameter, ...]]:
        found: List[Parameter] = []
        one, err = _c.muster_kernel_parameter(), _c.muster_error()
        while True:
            status = lib.muster_kernel_parameter(self.handle, len(found), ctypes.byref(one), ctypes.byref(err))
            if status == Status.NOT_FOUND:
                return tuple(found)
            if status == Status.NOT_SUPPORTED:
                return None
            if status != 0:
                raise of(err)
            words = [word for word in one.type.decode().replace("*", " ").split()
                     if word not in ("const", "MUSTER_GLOBAL", "MUSTER_PARTIAL")]
            found.append(Parameter(one.name.decode(), one.type.decode(), bool(one.is_block), bool(one.is_const), one.bytes,
                                   CODES.get(" ".join(words), "")))

    def partial(self) -> Tuple[int, List[Field]]:
        """The bytes and the fields of what a reduction makes. InvalidError: it is no reduction."""
        if self._partial is None:
            about, err = _c.muster_partial(), _c.muster_error()
            if lib.muster_kernel_partial(self.handle, ctypes.byref(about), ctypes.byref(err)):
                raise of(err) if err.status != Status.NOT_SUPPORTED else invalid(err.text.decode(), err.fix.decode())
            fields = []
            for index in range(about.field_count):
                one = _c.muster_partial_field()
                if lib.muster_kernel_partial_field(self.handle, index, ctypes.byref(one), ctypes.byref(err)):
                    raise of(err)
                fields.append(Field(one.name.decode(), CODES[one.type.decode()], one.offset, one.count, bool(one.is_array)))
            self._partial = about.bytes, fields
        return self._partial

    def __repr__(self) -> str:
        takes = "..." if self.parameters is None else ", ".join(map(str, self.parameters))
        return f"<muster.Kernel {self.name}({takes})>"

    def close(self) -> None:
        """Gives it back. Nothing may use it any more."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle and self.runtime.is_open:
            lib.muster_kernel_destroy(handle)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.close()


def is_source(what: object) -> bool:
    """Whether a text is a kernel itself and not the name of a file."""
    return isinstance(what, str) and ("\n" in what or "{" in what)


class Kernels:
    """The kernels of a runtime that were asked for by path or by source. A file that has changed is read again."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        # By what was asked for: the state of the files when they were read, the files, and the kernel.
        self.known: Dict[Any, Tuple[List[Any], List[str], Kernel]] = {}

    def find(self, what: Union[Kernel, Path, Sequence[Path]], entry: Optional[str] = None) -> Kernel:
        if isinstance(what, Kernel):
            if what.runtime is not self.runtime or not what.handle:
                raise invalid(f"kernel {what.name} is of another runtime, or was closed", "load it again")
            return what
        if not isinstance(what, str):
            what = os.fspath(what) if isinstance(what, os.PathLike) else tuple(os.fspath(path) for path in what)
        key = (what, entry)
        known = self.known.get(key)
        if known is not None and known[0] == [_state_of(path) for path in known[1]]:
            return known[2]
        paths = list(what) if isinstance(what, tuple) else [] if is_source(what) else [what]
        state = [_state_of(path) for path in paths]
        made = self._load(paths, entry) if paths else self._compile(str(what), entry)
        if len(self.known) >= KNOWN_MAX:
            del self.known[next(iter(self.known))]
        self.known[key] = state, paths, made
        return made

    def _load(self, paths: List[str], entry: Optional[str]) -> Kernel:
        handle, err = ctypes.c_void_p(), _c.muster_error()
        names = (ctypes.c_char_p * len(paths))(*map(os.fsencode, paths))
        if lib.muster_kernel_load_files(self.runtime.handle, names, len(paths), entry.encode() if entry else None,
                                        ctypes.byref(handle), ctypes.byref(err)):
            raise of(err)
        return Kernel(self.runtime, handle, entry or os.path.basename(paths[0]))

    def _compile(self, text: str, entry: Optional[str]) -> Kernel:
        found = entry or _only_entry(text)
        code = text.encode()
        form = _c.muster_kernel_form(kind=_c.MUSTER_KERNEL_PORTABLE, code_bytes=len(code), entry=found.encode())
        form.code = ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p)
        handle, err = ctypes.c_void_p(), _c.muster_error()
        if lib.muster_kernel_from(self.runtime.handle, found.encode(), ctypes.byref(form), 1, ctypes.byref(handle),
                                  ctypes.byref(err)):
            raise of(err)
        return Kernel(self.runtime, handle, found)


def _state_of(path: str) -> Any:
    try:
        seen = os.stat(path)
        return seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_dev
    except OSError:
        return None  # the library says what is wrong with it


def _only_entry(text: str) -> str:
    import re
    found = re.findall(r"\bMUSTER_KERNEL\s+void\s+(\w+)", text)
    if len(found) != 1:
        raise invalid(f"the source has {len(found)} kernels" + (f": {', '.join(found)}" if found else ""),
                      "name one as entry" if found else "begin one with MUSTER_KERNEL void NAME(uint64_t i, ...)")
    return str(found[0])
