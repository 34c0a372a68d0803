"""The cost of recursion: kerasrec compared with other ways to recurse in TensorFlow.

    python -m benchmarks.recursion

prints four tables. Every ratio in them is of times taken in the same run, in turns.
"""

import argparse
import json

from benchmarks import calls, depth, growth, report

TABLES = {
    "calls": "One call at a time, as in Table 1 of Kostopoulou et al.",
    "batch": f"{calls.NUM_CALLS:,} calls at once",
    "depth": "Gradient descent on the exponent function, as in Figure 6.1 of Vasilakopoulos (2024)",
    "growth": "Compiling for more and more calls",
}


def main():
    arguments = parse_arguments()
    description = {"repeats": arguments.repeats, **report.machine()}
    print(report.line(description))
    results = dict(description)
    for name in arguments.tables:
        print(f"\n{TABLES[name]}\n")
        results[name] = run(name, arguments)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if arguments.plot:
        depth.plot(results["depth"], arguments.plot)


def run(table, arguments):
    """Prints a table; returns its rows."""
    if table == "calls":
        return calls.single_calls(arguments.functions, arguments.quick, arguments.repeats)
    if table == "batch":
        return calls.many_calls(arguments.functions, arguments.quick, arguments.repeats)
    if table == "depth":
        return depth.depth_test(arguments.quick, arguments.repeats)
    return growth.growth(arguments.functions, arguments.quick)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--functions", nargs="+", choices=calls.CALLS, default=list(calls.CALLS))
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each implementation")
    parser.add_argument("--quick", action="store_true", help="only small calls, to try it out")
    parser.add_argument("--json", metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--plot", metavar="FILE", help="draw the times of the depth test there")
    arguments = parser.parse_args()
    if arguments.plot and "depth" not in arguments.tables:
        parser.error("--plot needs the table depth")
    return arguments


if __name__ == "__main__":
    main()
