"""Finds libmuster, loads it and checks that it is of this package's version."""
import ctypes
import os
import pathlib
from typing import Any, List

from . import _c
from .errors import LibraryError

__version__ = "0.2.0"
SONAME = "libmuster.so." + ".".join(__version__.split(".")[:2])


def places() -> List[str]:
    """Where the library is looked for, in order."""
    named = os.environ.get("MUSTER_LIBRARY")
    if named:
        return [named]
    # Beside the package and above it: PREFIX/lib/python3/dist-packages/muster finds PREFIX/lib.
    package = pathlib.Path(__file__).resolve().parent
    beside = [folder / SONAME for folder in (package, *list(package.parents)[:3])]
    return [str(path) for path in beside if path.exists()] + [SONAME]


def load() -> Any:
    tried = []
    for place in places():
        try:
            # Symbols stay apart from those of other libraries of the process.
            library = ctypes.CDLL(place, mode=ctypes.RTLD_LOCAL)
        except OSError as failure:
            tried.append(str(failure))
            continue
        try:
            for name, (returns, takes) in _c.FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = returns, takes
        except AttributeError as failure:
            raise LibraryError(f"{place} is no Muster of version {__version__}: {failure}",
                               "install the library and the Python package of one version") from None
        found = library.muster_version().decode()
        if found.split(".")[:2] != __version__.split(".")[:2]:
            raise LibraryError(f"{place} has version {found}, this package {__version__}",
                               "install the library and the Python package of one version")
        return library
    raise LibraryError(f"{SONAME} cannot be loaded: " + "; ".join(tried),
                       f"install Muster, or set MUSTER_LIBRARY to the path of {SONAME}")


lib: Any = load()
