"""Draws mutants by chance, runs the tests of their folder against them, and reports which ones no test noticed.

The draw is the same for the same seed, and hardly changes with the tree: each mutant has a rank that depends on the seed
and on its own text. A folder's mutants are taken in turn from all kinds, each kind in the order of rank.
"""
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from mutation.build import Build, JOBS, Mistake, ROOT, WORK, guard
from mutation.operators import KINDS, Source, plain

FOLDERS = ("base", "core", "model", "platform", "backend", "kernel", "run", "simulate", "io", "observe", "jobs")
MARKS = ROOT / "tests" / "mutations" / "equivalent" / "marks.json"
RESULT_SKIPPED = 77
# Limits for a mutant that allocates or writes without end. Sanitizers need an unlimited address space.
BYTES_MAX_KIB = {"dev": 24 << 20, "clang": 24 << 20}
FILE_MAX_BLOCKS = 4 << 20
LIMIT_FACTOR, LIMIT_S = 5, 10

# The tests of a file: the first row that fits. A test whose name contains the file's name is added and run first; then the
# quickest come first.
TESTS = (
    (r"src/base/", r"unit_(handle|json|names|random|ring|sha256|status|text|scenario|writer|kernel_files|kernel_source|model|"
                   r"runtime|devices|load|sim|bound)|cli_(sim|output|devices|partition|pick|usage|kernel)|fault_allocations"),
    (r"src/core/pipe", r"unit_(pipeline.*|plan|jobs_halo)|pipeline_(create|edges|exits|views|together|corners|failures|"
                       r"bytes_(cpu|sim))|example_1[3-6].*"),
    (r"src/core/tasks", r"unit_(task.*|data|blocks)|fault_(kernel_tasks|allocations)|example_(07|12).*"),
    (r"src/core/(placement|throughput)", r"unit_(placement|throughput|pick|load|tasks|task_kernels|jobs_policy)|"
                                         r"cli_(pick|sim|exec)|sim_.*|example_06.*"),
    (r"src/core/", r"unit_(job|partition|budget|tracker|rate|plan|bound|cost|blocks|streams|host_memory|jobs.*)|sim_.*|"
                   r"cli_(sim|partition)"),
    (r"src/model/", r"unit_(model|scenario|cost|bound|sim|simulate)|sim_.*|cli_(sim|devices)|conformance_sim"),
    (r"src/platform/", r"unit_(aside|temporary|machine.*|process|host_memory|load|runtime|registry|devices|kernel_.*|files|tasks|trace|"
                       r"blocks|streams|recording)|fault_system|cli_(exec|files|kernel|devices|map|output|slices)|conformance_cpu|"
                       r"example_08.*"),
    (r"src/backend/cuda/", r"unit_(cuda|task_kernels_cuda|jobs_halo)|conformance_cuda.*|driver_test|pipeline_.*cuda.*|"
                           r"fault_cuda_calls|cli_(cuda|slices)|bench_.*cuda"),
    (r"src/backend/opencl/", r"opencl_.*|conformance_opencl.*|cli_opencl|example_interop_opencl|pipeline_bytes_opencl"),
    (r"src/backend/sim/", r"unit_(sim|load|loss|devices|registry|jobs_failures)|conformance_sim|pipeline_bytes_sim|"
                          r"cli_devices"),
    (r"src/backend/", r"unit_(finishing|registry|streams|blocks|sim|data|devices)|conformance_(cpu|sim|inline)|"
                      r"fault_(backend_calls|system|unfollowed|allocations)|"
                      r"pipeline_(edges|exits|failures|bytes_cpu|corners)|cli_devices"),
    (r"src/kernel/", r"unit_(kernel.*|jobs_reduce|task_kernels.*|cuda)|cli_(kernel|map|scan|cuda|opencl)|conformance_(cpu|cuda)|reduce_.*|"
                     r"example_(08|10|12).*|fault_(allocations|cuda_calls)|opencl_failures"),
    (r"src/run/(lane/|job/pipeline|device/(flight|timing)|threads/)", r"unit_(pipeline.*|account|jobs.*|trace|loss)|"
     r"pipeline_(create|edges|exits|views|together|corners|failures|cuda|bytes_(cpu|sim|cuda))|"
     r"fault_(allocations|backend_calls|system)|example_1[3-6].*"),
    (r"src/run/(task/|memory/data\.)", r"unit_(task.*|data|blocks|loss|runtime|pick|kernels|trace)|fault_.*|"
                                       r"example_(07|12).*"),
    (r"src/run/", r"unit_(account|blocks|data|devices|files.*|finishing|host_memory|jobs.*|kernels|kernel_files|load|loss|pick|"
                  r"recording|runtime|streams|task.*|trace|registry)|fault_.*|example_(0.*|1[0-2].*)|"
                  r"cli_(map|pick|devices|slices|exec)|pipeline_(exits|failures|together)"),
    (r"src/simulate/", r"unit_(agenda|bound|cost|scenario|simulate)|sim_.*|cli_sim"),
    (r"src/io/", r"unit_(files.*|jobs_map|jobs_source)|fault_(system|allocations)|cli_(map|scan|files)|example_1[01].*|jobs_.*"),
    (r"src/observe/", r"unit_(writer|recording|trace|account)|cli_(map|show|sim|output)|example_09.*"),
    (r"jobs/", r"jobs_.*|cli_(map|scan|kernel|opencl|cuda)|example_10.*"),
)
NEVER = re.compile(r"(cli_bench|install|mutations.*|layers.*|symbols.*|checks_.*|random_mutants)$")


class Test:
    """A run of ctest's, of which some words are programs that can be linked again."""

    def __init__(self, entry, folder):
        self.name, self.words = entry["name"], list(entry["command"])
        properties = {each["name"]: each["value"] for each in entry["properties"]}
        self.environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        self.passes = [re.compile(each) for each in properties.get("PASS_REGULAR_EXPRESSION", [])]
        self.fails = [re.compile(each) for each in properties.get("FAIL_REGULAR_EXPRESSION", [])]
        if re.search(r"/python3?[.0-9]*$", self.words[0]):
            self.words[0] = sys.executable
        inside = f"{folder}/"
        self.built = [word[len(inside):] for word in self.words if word.startswith(inside)]
        self.programs = [path for path in self.built if not path.endswith(".so")]
        self.seconds = 0.0

    def outcome(self, status, said):
        """None if it is green, else why it is red."""
        if self.passes:
            return None if any(each.search(said) for each in self.passes) else "its words are missing"
        if any(each.search(said) for each in self.fails):
            return "its words say so"
        if status in (0, RESULT_SKIPPED):
            return None
        return f"exit {status}" if status > 0 else f"signal {signal.Signals(-status).name}"


class Place:
    """A folder in which one mutant at a time is linked and run, with caches of its own."""

    def __init__(self, path):
        self.path = path
        self.caches = {}
        shutil.rmtree(path, ignore_errors=True)
        for name in ("tmp", "cwd", "bin"):
            (path / name).mkdir(parents=True)

    def cache(self, original):
        if original not in self.caches:
            copy = self.path / f"cache-{len(self.caches)}"
            copy.mkdir(mode=0o700)
            if pathlib.Path(original).is_dir():
                shutil.copytree(original, copy, dirs_exist_ok=True)
                copy.chmod(0o700)
            self.caches[original] = copy
        return str(self.caches[original])

    def leave(self):
        shutil.rmtree(self.path, ignore_errors=True)


def run(test, words, place, limit_s, preset):
    """None if green, else why red."""
    environment = {**os.environ, **test.environment, "TMPDIR": str(place.path / "tmp")}
    if "MUSTER_CACHE" in environment:
        environment["MUSTER_CACHE"] = place.cache(environment["MUSTER_CACHE"])
    bounds = f"ulimit -c 0 -f {FILE_MAX_BLOCKS}; " + (f"ulimit -v {BYTES_MAX_KIB[preset]}; " if preset in BYTES_MAX_KIB else "")
    start = ["sh", "-c", bounds + 'exec "$@"', "sh", str(ROOT / "scripts" / "fixed-addresses")]
    if guard() is None:
        raise Mistake("root may not mount here, so a mutant could damage /dev; run it as another user")
    start = [*guard(), *start]
    with open(place.path / "said", "w+b") as said, \
         subprocess.Popen([*start, *words], cwd=place.path / "cwd", env=environment, stdin=subprocess.DEVNULL, stdout=said,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            process.wait(timeout=limit_s)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if hung:
            return f"hung for {limit_s:.0f} s"
        said.seek(0)
        return test.outcome(process.returncode, said.read(1 << 20).decode(errors="replace"))


class Suite:
    """The tests of a preset, each green and timed with nothing broken."""

    def __init__(self, preset, only):
        self.preset, self.build = preset, Build(preset)
        entries = self.listed()
        if not all(entry.get("command") for entry in entries):
            self.build.make(["all"])
            entries = self.listed()
        self.tests = [Test(entry, self.build.folder) for entry in entries
                      if entry.get("command") and not NEVER.match(entry["name"])]
        self.tests = [test for test in self.tests if test.programs and (not only or re.search(only, test.name))]
        self.symbols = {}

    def listed(self):
        """What ctest knows; it gives no command for a program that has not been built."""
        done = subprocess.run(["ctest", "--test-dir", str(self.build.folder), "--show-only=json-v1"], capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)["tests"]

    def prepare(self, files):
        """Builds and runs what is wanted for these files."""
        wanted = {test.name for file in files for test in self.named(file)}
        self.tests = [test for test in self.tests if test.name in wanted]
        if not self.tests:
            raise Mistake("there are no tests for what is to be broken")
        self.build.make(sorted({path for test in self.tests for path in test.built} |
                               {f"src/{name}/libmuster_{name}.a" for name in FOLDERS if name != "jobs"}))
        for test in self.tests:
            for program in test.programs:
                self.symbols.setdefault(program, symbols_of(self.build.folder / program))
        self.check()

    def check(self):
        """Times the tests; those that were timed with the same programs are not run again."""
        path = WORK / f"sound-{self.preset}.json"
        known = json.loads(path.read_text()) if path.is_file() else {}
        fresh = {}
        for test in self.tests:
            stats = [(self.build.folder / each).stat() for each in test.built]
            fresh[test.name] = str([test.words, [(stat.st_mtime_ns, stat.st_size) for stat in stats]])
        todo = [test for test in self.tests if known.get(test.name, {}).get("key") != fresh[test.name]]
        if todo:
            print(f"timing {len(todo)} tests with nothing broken", flush=True)

        def time_it(test):
            for _ in range(2):
                place = Place(WORK / f"sound-{os.getpid()}-{test.name}")
                began = time.monotonic()
                red = run(test, test.words, place, 300, self.preset)
                test.seconds = time.monotonic() - began
                place.leave()
                if not red:
                    break
            return {"key": fresh[test.name], "seconds": round(test.seconds, 3), "red": red}
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for test, result in zip(todo, pool.map(time_it, todo)):
                known[test.name] = result
        for test in self.tests:
            test.seconds = known[test.name]["seconds"]
            if known[test.name]["red"]:
                print(f"left out: {test.name} is red with nothing broken ({known[test.name]['red']})", flush=True)
                known[test.name]["key"] = ""
        written = WORK / f"sound-{os.getpid()}.json"
        written.write_text(json.dumps(known, indent=1))
        written.replace(path)
        self.tests = [test for test in self.tests if not known[test.name]["red"]]

    def named(self, file):
        """The tests of a file, by their names; those called like the file come first."""
        pattern = next((re.compile(tests) for files, tests in TESTS if re.match(files, file)), None)
        if not pattern:
            raise Mistake(f"no row of TESTS fits {file}")
        stem = pathlib.Path(file).stem
        words = re.compile(rf"_{re.escape(stem.rstrip('s'))}s?(_|$)")
        chosen = [test for test in self.tests if pattern.fullmatch(test.name) or words.search(test.name)]
        return sorted(chosen, key=lambda test: (not words.search(test.name), test.seconds))

    def of(self, file):
        """The same, each with those of its programs that hold the file, less the tests that have none."""
        words = self.build.compiling[str(ROOT / compiled_with(file, self.build))]
        own = symbols_of(self.build.folder / words[words.index("-o") + 1], True)

        def holds(program):
            is_shared = file.startswith("src/") and " libmuster.so" in self.build.link_line(program)
            return is_shared or bool(own & self.symbols[program])
        found = [(test, [program for program in test.programs if holds(program)]) for test in self.named(file)]
        return [(test, programs) for test, programs in found if programs]


def symbols_of(path, public=False):
    done = subprocess.run(["nm", "--defined-only", *(["-g"] if public else []), str(path)], capture_output=True, text=True,
                          check=False)
    return {words[2] for words in map(str.split, done.stdout.splitlines()) if len(words) == 3}


def compiled_with(file, build):
    """The source that the compiler is given: the file, or one that includes it."""
    if str(ROOT / file) in build.compiling:
        return file
    path = ROOT / file
    for other in sorted(path.parent.glob("*.c")):
        if str(other) in build.compiling and f'#include "{path.name}"' in other.read_text():
            return str(other.relative_to(ROOT))
    return None


class Maker:
    """Compiles mutants, and tells those that are none."""

    def __init__(self, build):
        self.build, self.sound = build, {}

    def compile(self, mutant, made, option):
        """The object's bytes, or None. The folder is called like no other, the file as it is: the object is the same if
        the code is. Debug information is left out."""
        holder = compiled_with(mutant[0], self.build)
        folder = made.with_suffix(".d")
        folder.mkdir(parents=True, exist_ok=True)
        for name in {mutant[0], holder}:
            text = mutant[1] if name == mutant[0] else (ROOT / name).read_text()
            (folder / pathlib.Path(name).name).write_text(f'#line 1 "{ROOT / name}"\n{text}')
        done = self.build.compile(ROOT / holder, folder / pathlib.Path(holder).name, made, "-g0", option,
                                  "-iquote", str((ROOT / holder).parent))
        shutil.rmtree(folder)
        return made.read_bytes() if done.returncode == 0 else None

    def sound_object(self, file, option):
        key = (file, option)
        if key not in self.sound:
            made = WORK / f"sound-{os.getpid()}-{hashlib.sha256(str(key).encode()).hexdigest()[:16]}.o"
            self.sound[key] = self.compile((file, (ROOT / file).read_text()), made, option)
            made.unlink(missing_ok=True)
            if self.sound[key] is None:
                raise Mistake(f"{file} cannot be compiled as it is")
        return self.sound[key]

    def make(self, mutant, made):
        """Whether it is a mutant: it compiles, to something else, and the optimiser sees a difference too."""
        text = mutant.broken((ROOT / mutant.file).read_text())
        own = self.build.compiling[str(ROOT / compiled_with(mutant.file, self.build))]
        level = [word for word in own if re.fullmatch(r"-O.", word)][-1:] or ["-O0"]
        for option in ("-O2", level[0]):
            found = self.compile((mutant.file, text), made, option)
            if found is None or found == self.sound_object(mutant.file, option):
                made.unlink(missing_ok=True)
                return False
        return True


    def remake(self, trials):
        """The same ones for another preset."""
        def remake_one(trial):
            trial.made = WORK / f"{self.build.folder.name}-{trial.made.name}"
            text = trial.mutant.broken((ROOT / trial.mutant.file).read_text())
            if self.compile((trial.mutant.file, text), trial.made, "-g") is None:
                raise Mistake(f"{trial.mutant.file}:{trial.mutant.line} does not compile in {self.build.folder.name}")
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(remake_one, trials))


def folder_of(file):
    words = file.split("/")
    return words[1] if words[0] == "src" else words[0]


def read_candidates(folders, files):
    """All mutants of these folders, by folder."""
    candidates = {}
    for folder in folders:
        top = ROOT / folder if folder == "jobs" else ROOT / "src" / folder
        candidates[folder] = []
        for path in sorted(top.rglob("*.c")):
            file = str(path.relative_to(ROOT))
            if is_among(file, files):
                candidates[folder] += Source(file, path.read_text()).mutants()
    return candidates


def in_order(mutants, seed):
    """As they are drawn: the kinds in turn, which one begins by the seed too."""
    def rank(*words):
        return hashlib.sha256("\0".join(map(str, (seed, *words))).encode()).digest()
    kinds = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for some in kinds.values():
        some.sort(key=lambda m: rank(m.file, m.function, m.kind, m.before, m.after, m.occurrence))
    names = sorted(kinds, key=lambda kind: rank(folder_of(mutants[0].file), kind))
    # One mistake at one place: no second constant for the same number.
    seen = set()
    for turn in itertools.zip_longest(*(kinds[name] for name in names)):
        for mutant in turn:
            if mutant and (mutant.file, mutant.kind, mutant.begin) not in seen:
                seen.add((mutant.file, mutant.kind, mutant.begin))
                yield mutant


def read_marks(path):
    """What was looked at and found to be no mistake: {"file", "function", "was", "is", "why"}."""
    marks = json.loads(path.read_text()) if path.is_file() else []
    for mark in marks:
        if set(mark) != {"file", "function", "was", "is", "why"} or not mark["why"].strip():
            raise Mistake(f"{path}: a mark needs file, function, was, is and why: {mark}")
    return {(mark["file"], mark["function"], plain(mark["was"]), plain(mark["is"])): mark["why"] for mark in marks}


class Trial:
    """A mutant that was drawn, and what came of it."""

    def __init__(self, mutant, made):
        self.mutant, self.made = mutant, made
        self.outcome, self.by, self.why, self.seconds = "", "", "", 0.0

    def as_dict(self):
        mutant = self.mutant
        return {"folder": folder_of(mutant.file), "file": mutant.file, "line": mutant.line, "function": mutant.function,
                "kind": mutant.kind, "was": mutant.before, "is": mutant.after, "outcome": self.outcome, "by": self.by,
                "why": self.why, "seconds": round(self.seconds, 2)}


def draw(candidates, count, seed, marks, maker):
    """This many of each folder; those that are no mutants do not count."""
    def draw_folder(folder):
        drawn = []
        for number, mutant in enumerate(in_order(candidates[folder], seed)):
            if len(drawn) == count:
                break
            made = WORK / f"{folder}-{os.getpid()}-{number}.o"
            if mutant.key() in marks:
                drawn.append(Trial(mutant, None))
            elif maker.make(mutant, made):
                drawn.append(Trial(mutant, made))
        return drawn
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        drawn = list(pool.map(draw_folder, [folder for folder in candidates if candidates[folder]]))
    # Neighbours are of different folders, so that the same test seldom runs twice at once.
    return [trial for turn in itertools.zip_longest(*drawn) for trial in turn if trial]


def again(candidates, path, files, marks, maker):
    """The survivors of an earlier run, where they still are."""
    found = json.loads(pathlib.Path(path).read_text())["mutants"]
    wanted = {(each["file"], each["function"], each["was"], each["is"]) for each in found
              if each["outcome"] == "survived"}
    trials = []
    for mutant in itertools.chain.from_iterable(candidates.values()):
        if mutant.key() in wanted:
            wanted.remove(mutant.key())
            made = WORK / f"again-{os.getpid()}-{len(trials)}.o"
            if mutant.key() in marks:
                trials.append(Trial(mutant, None))
            elif maker.make(mutant, made):
                trials.append(Trial(mutant, made))
    for file, function, was, _ in sorted(wanted):
        if folder_of(file) in candidates and is_among(file, files):
            print(f"not there any more: {file}: in {function}: {was}")
    return trials


def try_one(trial, suite, marks):
    """Runs the file's tests until one is red."""
    if trial.mutant.key() in marks:
        trial.outcome, trial.why = "equivalent", marks[trial.mutant.key()]
        return trial
    began = time.monotonic()
    trial.outcome = "survived"
    place = Place(WORK / trial.made.stem)
    linked = {}
    for test, programs in suite.of(trial.mutant.file):
        words = list(test.words)
        for program in programs:
            if program not in linked:
                linked[program] = place.path / "bin" / pathlib.Path(program).name
                done = suite.build.link(program, trial.made, linked[program])
                if done.returncode != 0:
                    raise Mistake(f"{program} cannot be linked with {trial.mutant.file}:\n{done.stdout}")
            words = [str(linked[program]) if word == f"{suite.build.folder}/{program}" else word for word in words]
        red = notices(test, words, place, suite.preset)
        if red:
            trial.outcome, trial.by, trial.why = "killed", test.name, red
            break
    for path in (trial.made, trial.made.with_suffix(".joined.o")):
        path.unlink(missing_ok=True)
    place.leave()
    trial.seconds += time.monotonic() - began
    return trial


def notices(test, words, place, preset):
    """None, or how the test is red. Once in three times may be due to the machine, and does not count; nor does a hang
    while the sound program is slow too."""
    limit_s = LIMIT_FACTOR * test.seconds + LIMIT_S
    red = run(test, words, place, limit_s, preset)
    if red and red.startswith("hung"):
        began = time.monotonic()
        run(test, test.words, place, 300, preset)
        now_s = time.monotonic() - began
        return red if now_s < 2 * test.seconds + 1 else run(test, words, place, LIMIT_FACTOR * now_s + LIMIT_S, preset)
    if not red or run(test, words, place, limit_s, preset) or run(test, words, place, limit_s, preset):
        return red
    return None


def try_all(trials, suite, marks):
    """Two or more at a time; each is printed when it is over."""
    if not trials:
        return
    suite.prepare({trial.mutant.file for trial in trials})
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        waiting = [pool.submit(try_one, trial, suite, marks) for trial in trials]
        try:
            for number, done in enumerate(concurrent.futures.as_completed(waiting)):
                print_trial(number + 1, len(trials), done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def print_trial(number, count, trial):
    mutant = trial.mutant
    words = {"killed": f"killed by {trial.by} ({trial.why})", "survived": "SURVIVED",
             "equivalent": f"equivalent: {trial.why}"}[trial.outcome]
    print(f"{number:4}/{count} {mutant.file}:{mutant.line} {mutant.kind}: {words}, {trial.seconds:.1f} s", flush=True)


def print_table(trials):
    """Returns the least rate of a folder, in percent."""
    print(f"\n{'folder':10} {'drawn':>6} {'killed':>7} {'survived':>9} {'equivalent':>11} {'rate':>7}")
    folders = [name for name in FOLDERS if any(folder_of(trial.mutant.file) == name for trial in trials)]
    rates = []
    for name in (*folders, "all"):
        some = [trial.outcome for trial in trials if name in ("all", folder_of(trial.mutant.file))]
        killed, survived = some.count("killed"), some.count("survived")
        rates.append(100 * killed / (killed + survived) if killed + survived else 100.0)
        print(f"{name:10} {len(some):6} {killed:7} {survived:9} {some.count('equivalent'):11} {rates[-1]:5.0f} %")
    return min(rates)


def print_survivors(trials):
    for trial in sorted((trial for trial in trials if trial.outcome == "survived"),
                        key=lambda trial: (FOLDERS.index(folder_of(trial.mutant.file)), trial.mutant.file, trial.mutant.line)):
        mutant = trial.mutant
        print(f"\n{mutant.file}:{mutant.line}: in {mutant.function or 'a table'}: {KINDS[mutant.kind]}\n"
              f"  - {mutant.before}\n  + {mutant.after}")


def is_among(file, files):
    return not files or any(re.search(each, file) for each in files)


def stale_marks(candidates, marks, files):
    """Marks of these folders and files that fit nothing any more."""
    there = {mutant.key() for some in candidates.values() for mutant in some}
    return [mark for mark in marks if folder_of(mark[0]) in candidates and is_among(mark[0], files) and mark not in there]


def main(arguments):
    folders = arguments.folder.split(",") if arguments.folder else list(FOLDERS)
    unknown = [name for name in folders if name not in FOLDERS]
    if unknown:
        raise Mistake(f"unknown folder {', '.join(unknown)}; known: {', '.join(FOLDERS)}")
    # What a shell starts in the background ignores it, and so would every test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    WORK.mkdir(parents=True, exist_ok=True)
    marks = read_marks(arguments.marks)
    candidates = read_candidates(folders, arguments.file)
    presets = arguments.preset.split(",")
    suites = [Suite(preset, arguments.tests) for preset in presets]
    for folder in candidates:
        candidates[folder] = [mutant for mutant in candidates[folder] if compiled_with(mutant.file, suites[0].build)]
    stale = stale_marks(candidates, marks, arguments.file)
    for file, function, was, now in stale:
        print(f"a mark fits nothing any more: {file}: in {function}\n  - {was}\n  + {now}")
    maker = Maker(suites[0].build)
    if arguments.again:
        trials = again(candidates, arguments.again, arguments.file, marks, maker)
    else:
        trials = draw(candidates, -(-arguments.random // len(folders)), arguments.seed, marks, maker)
    if arguments.list:
        for trial in trials:
            mutant = trial.mutant
            print(f"{mutant.file}:{mutant.line} {mutant.kind}\n  - {mutant.before}\n  + {mutant.after}")
            if trial.made:
                trial.made.unlink()
        return 0
    if not trials:
        print("nothing to break")
        return 0
    print(f"seed {arguments.seed}: {len(trials)} mutants drawn in {time.monotonic() - began:.0f} s", flush=True)
    for suite in suites:
        if suite is not suites[0]:
            Maker(suite.build).remake([trial for trial in trials if trial.outcome == "survived"])
        try_all([trial for trial in trials if trial.outcome in ("", "survived")], suite, marks)
    least = print_table(trials)
    print_survivors(trials)
    took = time.monotonic() - began
    print(f"\n{took:.0f} s, {took / len(trials):.1f} s a mutant")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"seed": arguments.seed, "preset": arguments.preset, "seconds": round(took, 1),
             "mutants": [trial.as_dict() for trial in trials],
             "stale_marks": [dict(zip(("file", "function", "was", "is"), mark)) for mark in stale]}, indent=1) + "\n")
    return 1 if arguments.least is not None and least < arguments.least else 0
