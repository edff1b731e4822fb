"""The ctypes declarations against the C headers: every size, offset, constant, parameter and status."""
import ctypes
import inspect
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from muster import _c
from muster.errors import Status

CC = shutil.which("cc") or shutil.which("gcc")
# Names that C or Python does not allow.
IN_C = {"in_": "in", "from_": "from"}
OPAQUE = {"muster_open": {0: "struct muster **"}, "muster_kernel_from": {4: "struct muster_kernel **"},
          "muster_kernel_load_files": {4: "struct muster_kernel **"}, "muster_start": {2: "struct muster_job **"},
          "muster_graph_end": {1: "struct muster_graph **"}}


def structs():
    return [one for name, one in vars(_c).items()
            if inspect.isclass(one) and issubclass(one, ctypes.Structure) and name.startswith("muster_")]


def constants():
    return {name: value for name, value in vars(_c).items() if name.startswith("MUSTER_") and isinstance(value, int)}


def spelled(one):
    return one.__name__ if issubclass(one, _c.Handle) else f"struct {one.__name__}"


def headers():
    return "\n".join(path.read_text() for path in sorted((ROOT / "include" / "muster").glob("*.h")))


def build(folder, body):
    source = folder / "layout.c"
    source.write_text("#include <muster/muster.h>\n#include <muster/simulate.h>\n#include <stdio.h>\n" + body)
    done = subprocess.run([CC, "-std=gnu11", "-Wall", "-Werror", "-Wno-unused", f"-I{ROOT / 'include'}", str(source), "-c", "-o",
                           str(folder / "layout.o")], capture_output=True, text=True, check=False)
    return done


@pytest.mark.skipif(not CC, reason="no C compiler")
def test_every_size_offset_and_constant_is_that_of_the_headers(tmp_path):
    checks = []
    for one in structs():
        checks.append(f"_Static_assert(sizeof({spelled(one)}) == {ctypes.sizeof(one)}, \"size of {one.__name__}\");")
        for name, *_ in one._fields_ if not issubclass(one, _c.Handle) else _c.Handle._fields_:
            member = IN_C.get(name, name)
            field = getattr(one, name)
            checks.append(f"_Static_assert(__builtin_offsetof({spelled(one)}, {member}) == {field.offset} && "
                          f"sizeof((({spelled(one)} *)0)->{member}) == {field.size}, \"{one.__name__}.{member}\");")
    for name, value in constants().items():
        checks.append(f"_Static_assert({name} == {value}, \"{name}\");")
    assert len(checks) > 300
    done = build(tmp_path, "\n".join(checks))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not CC, reason="no C compiler")
def test_a_wrong_offset_would_be_noticed(tmp_path):
    done = build(tmp_path, '_Static_assert(sizeof(struct muster_arg) == 1, "size of muster_arg");')
    assert "size of muster_arg" in done.stderr


def test_every_member_is_there_in_its_order():
    """Sizes would not tell two members of one type that have changed places."""
    text = re.sub(r"/\*.*?\*/", " ", headers(), flags=re.S)
    for one in structs():
        if issubclass(one, _c.Handle):
            continue
        body = re.search(rf"^struct {one.__name__} \{{\n(.*?)^\}};", text, re.S | re.M).group(1)
        body = re.sub(r"struct \{.*?\} (\w+)", r"inner \1", body, flags=re.S)
        found = []
        for declaration in body.split(";"):
            pointer = re.search(r"\(\*(\w+)\)\(", declaration)
            found += [pointer.group(1)] if pointer else [re.sub(r"\[.*?\]", "", part).split("*")[-1].split()[-1]
                                                         for part in declaration.split(",") if part.strip()]
        assert found == [IN_C.get(name, name) for name, *_ in one._fields_], one.__name__


def type_of(kind, name, index):
    if index in OPAQUE.get(name, {}):
        return OPAQUE[name][index]
    simple = {ctypes.c_char_p: "const char *", ctypes.c_void_p: "void *", ctypes.c_uint64: "uint64_t",
              ctypes.c_size_t: "size_t", ctypes.c_uint32: "uint32_t", ctypes.c_int: "int", None: "void",
              ctypes.POINTER(ctypes.c_char_p): "const char *const *"}
    if kind in simple:
        return simple[kind]
    if hasattr(kind, "_type_") and inspect.isclass(kind._type_):
        return type_of(kind._type_, "", -1) + " *"
    if issubclass(kind, ctypes.Structure):
        return spelled(kind)
    return "void *"  # a function


@pytest.mark.skipif(not CC, reason="no C compiler")
def test_every_function_takes_and_gives_what_the_headers_say(tmp_path):
    lines, text = [], re.sub(r"/\*.*?\*/", " ", headers(), flags=re.S)
    for name, (returns, takes) in _c.FUNCTIONS.items():
        kinds = [type_of(kind, name, index) for index, kind in enumerate(takes)]
        called = ", ".join(f"*({kind} *)0" for kind in kinds)
        lines.append(f"static void call_{name}(void) {{ {name}({called}); }}")
        # Numbers are converted without a word: their widths are compared with the parameters' of the header.
        declared = re.search(rf"MUSTER_API [^;()]*\b{name}\(([^;]*?)\);", text, re.S).group(1)
        wanted = [re.sub(r"\b\w+$", "", " ".join(one.split())).strip() or one for one in split(declared)]
        for index, (kind, want) in enumerate(zip(kinds, wanted)):
            if kind in ("uint64_t", "uint32_t", "size_t", "int"):
                lines.append(f'_Static_assert(sizeof({kind}) == sizeof({want}), "{name}, parameter {index}");')
        if returns in (ctypes.c_int, ctypes.c_char_p, None):
            got = {ctypes.c_int: "int", ctypes.c_char_p: "const char *", None: "void"}[returns]
            lines.append(f'_Static_assert(__builtin_types_compatible_p(__typeof__({name}({called})), {got}), "{name}");')
    done = build(tmp_path, "\n".join(lines))
    assert done.returncode == 0, done.stderr


def split(parameters):
    """At commas that are not within parentheses."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [] if parts == ["void"] else parts


def test_the_statuses_are_those_of_the_header():
    found = re.findall(r"X\(MUSTER_(?:E_)?(\w+), (-?\d+),", (ROOT / "include/muster/status.h").read_text())
    assert {name: int(code) for name, code in found} == {one.name: one.value for one in Status}


def test_the_version_is_that_of_the_header():
    import muster
    text = (ROOT / "include/muster/runtime.h").read_text()
    assert re.search(r'MUSTER_VERSION_STRING "(.*)"', text).group(1) == muster.__version__
    assert f'version = "{muster.__version__}"' in (ROOT / "python/pyproject.toml").read_text()
