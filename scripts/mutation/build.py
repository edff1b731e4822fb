"""The build folder of a preset. Links a program of it with one broken file, and builds nothing else."""
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"
WORK = BUILD / "mutate"
JOBS = len(os.sched_getaffinity(0))
LIBRARY = re.compile(r" (libmuster\.a|libmuster\.so[.0-9]*) ")


class Mistake(Exception):
    """A problem that the author of a mutation, or of the code, must correct first."""


def command(*words):
    """Runs it without printing; returns whether it succeeded, and its output."""
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout


def script_of(mutation):
    """The script of tests/cli or tests/cluster, for a test of the command; else None."""
    kind, _, name = mutation["test"].partition("_")
    path = ROOT / "tests" / kind / f"{name}.py"
    return path if kind in ("cli", "cluster") and path.is_file() else None


@functools.lru_cache(maxsize=None)
def guard():
    """What a test of root's is started with; None if it is not available. A mutant that writes over files could put one in the
    place of the machine's /dev/null; a mount cannot be replaced."""
    if os.geteuid() != 0:
        return ()
    # In a chroot / has no propagation to change; there /dev is a mount of its own.
    script = ("mount --make-rprivate / 2>/dev/null || mount --make-private /dev; "
              'for at in null full zero; do mount --bind /dev/$at /dev/$at; done; exec "$@"')
    words = ("unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", script, "sh")
    return words if command(*words, "true")[0] else None


class Build:
    """A preset's build folder: its test programs, and how it makes them."""

    def __init__(self, preset):
        self.folder = BUILD / preset
        if not (self.folder / "build.ninja").is_file():
            good, said = command("cmake", "--preset", preset)
            if not good:
                raise Mistake(f"{preset} cannot be configured:\n{said}")
        self.compiling = {}
        self.linking = {}
        self.objects = {}  # what stands for the file of a mutant in the program itself, if it is not in an archive
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            self.compiling.setdefault(entry["file"], shlex.split(entry["command"]))
        self.programs = {}
        for line in (self.folder / "tests" / "programs").read_text().splitlines():
            target, path = line.split("\t")
            for name in {target, target.split("_", 1)[-1]}:
                self.programs.setdefault(name, []).append((target, path))
            self.programs[target] = [(target, path)]

    def program_of(self, mutation):
        script = script_of(mutation)
        if script:
            own = self.programs.get(f"{script.stem}_program")
            return own[0] if own else ("muster_command", str(self.folder / "muster"))
        found = self.programs.get(mutation["test"], [])
        if len(found) != 1:
            raise Mistake(f"{mutation['name']}: {len(found)} test programs are called {mutation['test']!r}")
        return found[0]

    def make(self, targets):
        good, said = command("cmake", "--build", str(self.folder), "-j", str(JOBS), "--target", *targets)
        if not good:
            raise Mistake(f"{', '.join(targets)} cannot be built in {self.folder}:\n{said}")

    def compile(self, file, source, made, *options):
        words = list(self.compiling[str(file)])
        made.with_suffix(".joined.o").unlink(missing_ok=True)
        self.objects[made] = words[words.index("-o") + 1]
        words[words.index("-c") + 1] = str(source)
        words[words.index("-o") + 1] = str(made)
        # A mutation may leave a variable unused; that must not be what stops it.
        return subprocess.run([*words, "-Wno-error", "-w", *options], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def link_line(self, target):
        """How the build makes it."""
        if target not in self.linking:
            done = subprocess.run(["ninja", "-t", "commands", target], cwd=self.folder, capture_output=True, text=True,
                                  check=True)
            self.linking[target] = done.stdout.splitlines()[-1]
        return self.linking[target]

    def join(self, line, made, replaced):
        """For what is linked with the library, which is one object with its insides hidden: such an object with `made`
        in it, and the line that links it."""
        if not LIBRARY.search(line):
            return line, made
        joined = made.with_suffix(".joined.o")
        if not joined.is_file():
            others = [words[words.index("-o") + 1] for words in self.compiling.values()]
            others = [other for other in others if other.startswith("src/") and other != replaced
                      and not other.startswith("src/nats/")]  # a library of its own
            for words in (["cc", "-r", "-nostdlib", "-o", str(joined), str(made), *others],
                          ["objcopy", "--localize-hidden", str(joined)]):
                subprocess.run(words, cwd=self.folder, check=True)
        return LIBRARY.sub(" -ldl ", line), joined

    def link(self, target, made, program):
        """As the build does it, but `made` comes before the archives: what it defines is not taken from them."""
        line = self.link_line(target)
        replaced = self.objects.get(made)
        if replaced in line.split():
            line = line.replace(f" {replaced} ", " ")
        elif replaced and replaced.startswith("src/"):
            line, made = self.join(line, made, replaced)
        words = line.split(" -o ", 1)
        words[1] = words[1].split(" ", 1)[1]
        line = f"{words[0]} -o {shlex.quote(str(program))} {shlex.quote(str(made))} {words[1]}"
        return subprocess.run(line, shell=True, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
