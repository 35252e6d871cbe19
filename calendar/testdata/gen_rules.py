#!/usr/bin/env python3
"""Writes rules.jsonl.gz: random rules with instants computed by python-dateutil
on wall times and by zoneinfo from there. Run it in this directory.

The rules keep away from what dateutil is known to get wrong (TIME section 1.1,
D9-D12, inherited by rrule-go): plain beside numbered BYDAY, BYWEEKNO, and WEEKLY
with BYSETPOS; and from what the contract refuses. Lines are those of
time-cases.jsonl."""
import datetime as dt, gzip, io, itertools, json, random, zipfile, zoneinfo
from dateutil.rrule import rrulestr

random.seed(20261120)
ZONES = ["UTC", "America/New_York", "Europe/London", "Europe/Berlin", "Atlantic/Azores", "America/Havana",
         "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll",
         "Asia/Kathmandu", "Europe/Dublin", "Pacific/Chatham", "Asia/Gaza", "America/St_Johns", "Africa/Cairo",
         "Asia/Beirut", "America/Sao_Paulo", "America/Nuuk", "Asia/Tehran", "America/Asuncion"]
archive = zipfile.ZipFile("../tzdata/zoneinfo.zip")
zones = {n: zoneinfo.ZoneInfo.from_file(io.BytesIO(archive.read(n)), key=n) for n in ZONES}
DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]

def some(lo, hi, most, signed=False):
    n = random.randint(1, most)
    return ",".join(str(random.randint(lo, hi) * (-1 if signed and random.random() < .3 else 1)) for _ in range(n))

def rule():
    freq = random.choice(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
    p = {"FREQ": freq}
    if random.random() < .5: p["INTERVAL"] = random.randint(2, 6)
    if random.random() < .3: p["WKST"] = random.choice(DAYS)
    if random.random() < .35: p["BYMONTH"] = some(1, 12, 4)
    if freq != "WEEKLY" and random.random() < .35 and (freq != "YEARLY" or "BYMONTH" in p):
        p["BYMONTHDAY"] = some(1, 31, 5, True)
    if freq == "YEARLY" and random.random() < .2: p["BYYEARDAY"] = some(1, 366, 6, True)
    if random.random() < .5:
        if freq in ("MONTHLY", "YEARLY") and random.random() < .5:
            top = 5 if freq == "MONTHLY" or "BYMONTH" in p else 53
            p["BYDAY"] = ",".join(f"{random.choice([-1,1])*random.randint(1, random.choice([5, top]))}{random.choice(DAYS)}" for _ in range(random.randint(1, 3)))
        else:
            p["BYDAY"] = ",".join(random.sample(DAYS, random.randint(1, 5)))
    if random.random() < .35: p["BYHOUR"] = some(0, 23, 3)
    if random.random() < .3: p["BYMINUTE"] = some(0, 59, 3)
    if random.random() < .1: p["BYSECOND"] = some(0, 59, 2)
    if freq != "WEEKLY" and any(k.startswith("BY") for k in p) and random.random() < .25:
        p["BYSETPOS"] = some(1, 8, 3, True)
    for k in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "BYDAY"):
        if k in p: p[k] = ",".join(dict.fromkeys(p[k].split(",")))  # duplicates eat COUNT (D13)
    if random.random() < .25: p["COUNT"] = random.randint(1, 30)
    return ";".join(f"{k}={v}" for k, v in p.items())

def instant(wall, zone):
    return wall.replace(tzinfo=zones[zone]).astimezone(dt.timezone.utc)

lines = []
while len(lines) < 1500:
    text, zone = rule(), random.choice(ZONES)
    start = dt.datetime(random.randint(1995, 2025), random.randint(1, 12), random.randint(1, 28),
                        random.choice([0, 1, 2, 3, 9, 14, 23]), random.choice([0, 0, 15, 30, 59]))
    walls = list(itertools.takewhile(lambda w: w.year < 2060, itertools.islice(rrulestr(text, dtstart=start), 300)))
    if not walls:
        continue
    skip = random.choice([0, 0, random.randint(0, max(0, len(walls) - 1))])
    after = instant(walls[skip], zone) - dt.timedelta(seconds=random.choice([0, 1]))
    # around a gap two walls may change places or collapse: decide on the set of instants
    instants = sorted({instant(w, zone) for w in walls})
    later = [t for t in instants if t > after]
    if len(later) <= 12 and ("COUNT" not in text or len(walls) != int(text.split("COUNT=")[1])):
        continue  # cut off, by the list or by the year
    complete = later[:10]
    lines.append(json.dumps({"id": f"d{len(lines)+1:04}", "dtstart_local": start.isoformat(), "tz": zone, "rrule": text,
        "after": after.strftime("%Y-%m-%dT%H:%M:%SZ"), "limit": 10,
        "expected_utc": [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in complete]}))
with gzip.GzipFile("rules.jsonl.gz", "wb", mtime=0) as f:
    f.write(("\n".join(lines) + "\n").encode())
print(len(lines), "rules")
