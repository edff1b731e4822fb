"""Makes the wheel of the package, as PEP 517 and PEP 660 ask for, with nothing but Python: a venv without a network has no other.

    pip install ./python
    pip install ./python --config-settings library=build/libmuster.so.0.2     # with the library in it
"""
import base64
import hashlib
import io
import pathlib
import platform
import re
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def field(name):
    return re.search(rf'^{name} = "(.*)"$', TEXT, re.M).group(1)


NAME, VERSION = field("name"), field("version")
SONAME = "libmuster.so." + ".".join(VERSION.split(".")[:2])
INFO = f"{NAME}-{VERSION}.dist-info"
# Equal files for equal contents.
DATE = (1980, 1, 1, 0, 0, 0)


def metadata():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: {field('description')}\n"
            f"License: Apache-2.0\nRequires-Python: {field('requires-python')}\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def sources():
    return sorted(path for path in (ROOT / NAME).rglob("*")
                  if path.is_file() and (path.suffix == ".py" or path.name == "py.typed"))


def write_wheel(directory, files, tag):
    """`files` by their names in it; the record of them is added."""
    files = {**files, f"{INFO}/METADATA": metadata().encode(),
             f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nGenerator: muster_build\nRoot-Is-Purelib: {'true' if tag.endswith('any') else 'false'}\nTag: {tag}\n".encode()}
    record = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    files[f"{INFO}/RECORD"] = "".join([*record, f"{INFO}/RECORD,,\n"]).encode()
    wheel = f"{NAME}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / wheel, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sources()}
    library = (config_settings or {}).get("library")
    tag = "py3-none-any"
    if library:
        files[f"{NAME}/{SONAME}"] = pathlib.Path(library).resolve().read_bytes()
        tag = f"py3-none-linux_{platform.machine()}"
    return write_wheel(wheel_directory, files, tag)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {f"{NAME}.pth": f"{ROOT}\n".encode()}, "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    name = f"{NAME}-{VERSION}"
    with tarfile.open(pathlib.Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as made:
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        text = metadata().encode()
        info.size = len(text)
        made.addfile(info, io.BytesIO(text))
        for path in [ROOT / "pyproject.toml", ROOT / "README.md", pathlib.Path(__file__).resolve(), *sources()]:
            made.add(path, f"{name}/{path.relative_to(ROOT).as_posix()}")
    return f"{name}.tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
