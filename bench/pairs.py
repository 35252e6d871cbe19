#!/usr/bin/env python3
"""pairs.py DIR : what run.sh pairs has measured, as medians and as medians of the ratios of pairs.

DIR holds SCENARIO.WHICH.NUMBER.json, where WHICH is base or this.
"""

import json
import pathlib
import re
import statistics
import sys

FIELDS = [
    ("registers_per_s", "registers/s"),
    ("fires_per_s", "fires/s"),
    ("lives_per_s", "lives/s"),
    ("raw_lives_per_s", "raw lives/s"),
    ("of_raw", "lives ÷ raw"),
    ("lateness_ms.p50", "lateness p50, ms"),
    ("lateness_ms.p99", "lateness p99, ms"),
    ("cpu_us_per_life", "CPU a life, µs"),
    ("broker_cpu_us_per_life", "brokers' CPU a life, µs"),
    ("wire_bytes_per_life", "bytes produced a life"),
    ("rest_bytes_per_life.sum", "bytes at rest a life"),
    ("rss_bytes", "peak memory, bytes"),
]


def value(run, name):
    for part in name.split("."):
        if part == "sum":
            return sum(run.values()) if run else None
        run = run.get(part) if run else None
    return run


def main():
    runs = {}
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        scenario, which, number = re.fullmatch(r"(.+)\.(base|this)\.(\d+)\.json", file.name).groups()
        runs.setdefault(scenario, {}).setdefault(int(number), {})[which] = json.loads(file.read_text())
    for scenario, pairs in runs.items():
        both = [p for p in pairs.values() if len(p) == 2]
        one = both[0]
        print(f"{scenario}: {len(both)} pairs; {one['base']['triggers']} triggers, {one['base']['broker']}, "
              f"{one['base']['partitions']} partitions; {one['base']['machine']['cpus']} CPUs")
        for which in ("base", "this"):
            loads = ", ".join(p[which]["machine"].get("load_average", "?") for p in both)
            print(f"  {which}: commit {one[which]['machine'].get('commit', 'unknown')}, load average before: {loads}")
        bad = {k: sum(p[w][k] for p in both for w in p) for k in ("lost", "duplicates", "early")}
        print("  lost {lost}, doubled {duplicates}, early {early}".format(**bad))
        print(f"  {'':<26}{'base':>14}{'this':>14}{'this ÷ base':>14}")
        for field, label in FIELDS:
            base, this = ([value(p[w], field) for p in both] for w in ("base", "this"))
            medians = [statistics.median(v) if v and None not in v else None for v in (base, this)]
            if medians[0] is None and medians[1] is None:
                continue
            cells = ["-" if m is None else f"{m:,.2f}" if m < 100 else f"{m:,.0f}" for m in medians]
            ratio = "-"
            if None not in medians and all(base):
                ratio = f"{statistics.median(t / b for b, t in zip(base, this)):.2f}"
            print(f"  {label:<26}{cells[0]:>14}{cells[1]:>14}{ratio:>14}")


main()
