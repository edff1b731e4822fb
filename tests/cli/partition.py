#!/usr/bin/env python3
"""muster partition against the rule, worked out here in Python's unbounded integers."""
import json
import random
import sys

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

LARGEST = 2**64 - 1


def truth(total, devices):
    if total == 0 or devices == 0:
        return {"unit": 0, "units": []}
    unit = max(1, total // (4 * devices))
    return {"unit": unit, "units": [[at, min(at + unit, total)] for at in range(0, total, unit)]}


def literal(value):
    return json.dumps(value, separators=(",", ":")) + "\n"


def partition(check, total, devices, *more):
    return check.run("partition", "--total", str(total), "--devices", str(devices), *more)


def text_form(total, devices):
    expected = truth(total, devices)
    units, unit = expected["units"], expected["unit"]
    if not units:
        return "0 units: there are no " + ("items" if total == 0 else "devices") + "\n"
    first = f"{len(units)} unit{'s' if len(units) != 1 else ''} of {unit} item{'s' if unit != 1 else ''}"
    last = units[-1][1] - units[-1][0]
    if last < unit:
        first += f", the last of {last}"
    index, item = len(str(len(units) - 1)), len(str(total))
    lines = [f"  {i:>{index}}  [{begin:>{item}}, {end:>{item}})" for i, (begin, end) in enumerate(units)]
    return "\n".join([first, *lines]) + "\n"


def same(check, total, devices):
    run = partition(check, total, devices, "--json")
    name = f"--total {total} --devices {devices}"
    check.equal(f"{name}: exit code", run.code, 0)
    check.equal(f"{name}: stderr", run.err, "")
    check.equal(name, run.out, literal(truth(total, devices)))
    check.equal(f"{name}: as text", partition(check, total, devices).out, text_form(total, devices))


def known_cases(check):
    run = partition(check, 10, 3, "--json")
    check.equal("ten items, three devices", run.out,
                '{"unit":1,"units":[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,7],[7,8],[8,9],[9,10]]}\n')
    check.equal("two items, all devices there can be", partition(check, 2, LARGEST, "--json").out,
                '{"unit":1,"units":[[0,1],[1,2]]}\n')
    for total, devices in [(0, 3), (7, 0), (0, 0), (0, LARGEST), (LARGEST, 0)]:
        run = partition(check, total, devices, "--json")
        check.equal(f"{total} over {devices}", (run.code, run.out, run.err), (0, '{"unit":0,"units":[]}\n', ""))
    for total in [1, 3, 4, 5, 1000, 4096, LARGEST - 1, LARGEST]:
        same(check, total, 1)
    for total, devices in [(LARGEST, 2), (LARGEST, 3), (LARGEST, 1000), (2**63, 999), (2**63 + 1, 1), (12, 3), (13, 3),
                           (100, 25), (99, 25), (1, LARGEST), (5, 2**62), (5, 2**62 + 1)]:
        same(check, total, devices)
    check.equal("--option=value", check.run("partition", "--json", "--devices=3", "--total=10").out,
                literal(truth(10, 3)))
    check.equal("leading zeros are digits", check.run("partition", "--json", "--devices=03", "--total=0010").out,
                literal(truth(10, 3)))


def random_cases(check):
    seed = 20240611
    print(f"seed {seed}")
    numbers = random.Random(seed)
    for _ in range(60):
        total = numbers.getrandbits(numbers.randint(1, 64))
        devices = numbers.randint(1, 300)
        run = partition(check, total, devices, "--json")
        answer = json.loads(run.out)
        units, name = answer["units"], f"{total} over {devices}"
        check.equal(name, answer, truth(total, devices))
        check.true(f"{name}: none empty", all(begin < end for begin, end in units))
        check.true(f"{name}: none larger than the unit", all(end - begin <= answer["unit"] for begin, end in units))
        edges = [0] + [end for _, end in units]
        check.true(f"{name}: contiguous", [begin for begin, _ in units] == edges[:-1])
        check.equal(f"{name}: covers everything", edges[-1], total)


def wrong_numbers(check):
    digits = "only the digits 0 to 9"
    for text, reason in [("-1", "negative"), ("+1", "plus sign"), ("1e3", digits), (" 1", digits), ("1 ", digits),
                         ("0x10", digits), ("", "empty"), ("1.5", digits), ("-", digits), ("-x", digits),
                         ("١", digits), ("18446744073709551616", "largest allowed is 18446744073709551615"),
                         ("9" * 400, "largest allowed")]:
        for option, other in [("--total", "--devices"), ("--devices", "--total")]:
            # What is there and is empty is no list either.
            for form in [[option, text], [f"{option}={text}"]]:
                run = check.run("partition", other, "1", *form, "--json")
                check.refused(f"{form}", run, 2, option, reason, "muster partition --help")


def lists(check):
    sim = {"MUSTER_SIM": '[{"items_per_s": 1e6, "count": 3}]'}
    for devices, count in [("sim", 3), ("sim:0,sim:2", 2), ("cpu:0,sim", 4)]:
        run = check.run("partition", "--total", "100", "--devices", devices, environment=sim)
        check.equal(f"--devices {devices}", run, check.run("partition", "--total", "100", "--devices", str(count)))
    check.refused("a device that is not there", check.run("partition", "--total", "1", "--devices", "sim:7", environment=sim), 3, "sim:7")
    check.refused("a slip", check.run("partition", "--total", "1", "--devices", "smi:1", environment=sim), 3, "did you mean sim:1?")


def wrong_usage(check):
    for arguments, parts in [
            ([], ["--total"]),
            (["--total", "1"], ["--devices"]),
            (["--devices", "1"], ["--total"]),
            (["--devices", "1", "--total"], ["--total", "needs a value"]),
            (["--total", "--devices", "1"], ["--total", "needs a value"]),
            (["--total", "1", "--devices", "2", "--total", "1"], ["--total", "twice"]),
            (["--total", "1", "--devices", "2", "--json", "--json"], ["--json", "twice"]),
            (["--total", "1", "--devices", "2", "--json=yes"], ["--json", "takes no value"]),
            (["--total", "1", "--devices", "2", "--units"], ["--units"]),
            (["--total", "1", "--devices", "2", "--jso"], ["--jso"]),
            (["--total", "1", "--devices", "2", "-j"], ["-j"]),
            (["--total", "1", "--devices", "2", "3"], ["'3'"]),
            (["--total", "1", "--devices", "2", "--", "--json"], ["'--json'"]),
            (["-total", "1", "--devices", "2"], ["-total"])]:
        check.refused(f"partition {arguments}", check.run("partition", *arguments), 2, *parts,
                      "muster partition --help")


check = Check()
known_cases(check)
random_cases(check)
wrong_numbers(check)
lists(check)
wrong_usage(check)
check.finish()
