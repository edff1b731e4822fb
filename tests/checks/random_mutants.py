"""random_mutants.py MUTATE: mutants drawn by chance are the same for the same seed; one that a test notices is told from one
that none does; marks count, and those that fit nothing are named."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
from mutation.build import guard  # noqa: E402
from mutation.operators import Source  # noqa: E402

FILE = "src/core/partition.c"
SOURCE = """
#define LIMIT 3
/* if (a < b) free(a); */
int f(int a, int b)
{
    INVARIANT(a < 7);
    if (a < b && b > 0)
        return fail(err, "it is %d", a + 5);
    muster_status status = call(a, b);
    if (status != MUSTER_OK) {
        count++;
        return status;
    }
    platform_mutex_unlock(&lock);
    return a - 1;
}
static int check_one(int a)
{
    const char *why = a > 3 ? "too many" : "none";
    return a - 1;
}
int job_check(int a)
{
    return check_one(a) + 1;
}
int g(int a)
{
    const char *why = a > 3 ? "too many things" : "none";
    return (int)why[a];
}
"""
EXPECTED = {
    ("condition", "if (!(a < b && b > 0))"), ("comparison", "if (a > b && b > 0)"), ("boundary", "if (a <= b && b > 0)"),
    ("logic", "if (a < b || b > 0)"), ("comparison", "if (a < b && b < 0)"), ("boundary", "if (a < b && b >= 0)"),
    ("constant", "if (a < b && b > 1)"), ("statement", "if (a < b && b > 0) ;"),
    ("status", "muster_status status = (call(a, b), MUSTER_OK);"), ("arguments", "muster_status status = call(b, a);"),
    ("condition", "if (!(status != MUSTER_OK)) {"), ("comparison", "if (status == MUSTER_OK) {"), ("statement", ";"),
    ("arithmetic", "count--;"), ("status", "if (status != MUSTER_OK) { count++; ;"), ("release", ";"),
    ("arithmetic", "return a + 1;"), ("constant", "return a - 2;"), ("constant", "return a - 0;"),
}


def mutate(*words):
    done = subprocess.run([sys.executable, sys.argv[1], "--random", "1", "--file", FILE, "--folder", "core", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    return done.returncode, done.stdout


def check(condition, what):
    if not condition:
        sys.exit(f"not so: {what}")


def main():
    found = [(mutant.kind, mutant.after) for mutant in Source("f.c", SOURCE).mutants()]
    check(set(found) == EXPECTED, f"what can be broken: {set(found) ^ EXPECTED}")
    check(all(mutant.broken(SOURCE).count("\n") == SOURCE.count("\n") for mutant in Source("f.c", SOURCE).mutants()),
          "a mutant keeps the lines")

    first, second, other = (mutate("--list", "--seed", seed)[1] for seed in ("5", "5", "6"))
    check(FILE in first and first == second, "the same seed draws the same")
    check(first != other, "another seed draws another")

    if guard() is None:
        print("skipped: root may not mount here, so no mutant is run")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        results, marks = pathlib.Path(folder, "results.json"), pathlib.Path(folder, "marks.json")
        status, _ = mutate("--seed", "5", "--tests", "^unit_partition$", "--least", "100", "--json", str(results))
        drawn = json.loads(results.read_text())["mutants"]
        check(status == 0 and [each["outcome"] for each in drawn] == ["killed"], "its own test notices it")
        check(drawn[0]["by"] == "unit_partition", "it is said which")

        status, said = mutate("--seed", "5", "--tests", "^unit_plan$", "--least", "100", "--json", str(results))
        drawn = json.loads(results.read_text())["mutants"]
        check(status == 1 and [each["outcome"] for each in drawn] == ["survived"], "a test of something else does not")
        check(f"  - {drawn[0]['was']}\n  + {drawn[0]['is']}" in said, "the place is shown")

        status, said = mutate("--again", str(results), "--tests", "^unit_partition$", "--least", "100")
        check(status == 0 and "killed by unit_partition" in said, "a survivor can be tried again")

        mark = {key: drawn[0][key] for key in ("file", "function", "was", "is")}
        marks.write_text(json.dumps([{**mark, "why": "because"}]))
        status, said = mutate("--seed", "5", "--tests", "^unit_plan$", "--least", "100", "--marks", str(marks))
        check(status == 0 and "equivalent: because" in said, "a mark counts")
        marks.write_text(json.dumps([{**mark, "was": "never", "why": "because"}]))
        _, said = mutate("--seed", "5", "--list", "--marks", str(marks))
        check("a mark fits nothing any more" in said, "a mark that fits nothing is named")


main()
