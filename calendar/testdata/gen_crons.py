#!/usr/bin/env python3
"""Writes crons.jsonl.gz: random cron expressions with instants found by trying
every minute of every day against the definition (CONTRACT section 2, cron(5)),
on Python's zoneinfo. Run it in this directory. Lines are those of
time-cases.jsonl."""
import calendar, datetime as dt, gzip, io, json, random, zipfile, zoneinfo

random.seed(20261121)
UTC = dt.timezone.utc
ZONES = ["UTC", "America/New_York", "Europe/London", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana",
         "America/Santiago", "Atlantic/Azores", "Africa/Casablanca", "Antarctica/Troll", "Asia/Kolkata"]
archive = zipfile.ZipFile("../tzdata/zoneinfo.zip")
zones = {n: zoneinfo.ZoneInfo.from_file(io.BytesIO(archive.read(n)), key=n) for n in ZONES}
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
AFTER = ["2026-03-07T12:00:00Z", "2026-10-31T20:00:00Z", "2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z",
         "2026-02-27T00:00:30Z", "2024-02-28T23:59:00Z", "2026-04-03T20:00:00Z", "2026-09-05T10:00:00Z"]

def spell(n, names, base):
    """A number as written: plain, with a leading zero, or by name in any case."""
    if names and base <= n < base + len(names) and random.random() < .5:
        return random.choice([str.upper, str.lower, str.title])(names[n - base])
    return f"{n:02}" if random.random() < .15 else str(n)

def item(lo, hi, last, names=None):
    """One plain item: its text and what it means."""
    a, b = sorted(random.randint(lo, hi) for _ in range(2))
    step = random.choice([1, 2, 3, 5, 7, 10, 15, 20, 90])
    w = lambda n: spell(n, names, lo)
    match random.random():
        case r if r < .45: return w(a), {a}
        case r if r < .65: return w(a) + "-" + w(b), set(range(a, b + 1))
        case r if r < .8: return f"{w(a)}-{w(b)}/{step}", set(range(a, b + 1, step))
        case r if r < .9: return f"{w(a)}/{step}", set(range(a, max(a, last) + 1, step))
    return f"*/{step}", set(range(lo, last + 1, step))

def field(lo, hi, last, names=None, odds=.3):
    if random.random() < odds:
        return "*", set(range(lo, last + 1))
    items = [item(lo, hi, last, names) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    return ",".join(t for t, _ in items), set().union(*(v for _, v in items))

def day_of_month():
    if random.random() < .8:
        text, days = field(1, 31, 31, odds=.6)
        return text, lambda d: d.day in days
    n = random.randint(1, 31)
    last = lambda d: calendar.monthrange(d.year, d.month)[1]
    def weekday(d, n):  # the Monday to Friday nearest the nth, within the month
        if n > last(d): return False
        return d.day == min((x for x in range(1, last(d) + 1) if d.replace(day=x).weekday() < 5), key=lambda x: abs(x - n))
    return random.choice([("L", lambda d: d.day == last(d)), (f"{n}W", lambda d: weekday(d, n)), (f"{n},L", lambda d: d.day in (n, last(d))),
        ("LW", lambda d: d.day == max(x for x in range(last(d) - 6, last(d) + 1) if d.replace(day=x).weekday() < 5)), ("?", lambda d: True)])

def day_of_week():
    sunday = lambda d: (d.weekday() + 1) % 7
    if random.random() < .8:
        text, days = field(0, 7, 6, DAYS, odds=.5)
        return text, lambda d: sunday(d) in {x % 7 for x in days}
    n, nth = random.randint(0, 7), random.randint(1, 5)
    return random.choice([(f"{spell(n, DAYS, 0)}#{nth}", lambda d: sunday(d) == n % 7 and (d.day + 6) // 7 == nth), ("?", lambda d: True),
        (f"{n}L", lambda d: sunday(d) == n % 7 and (d + dt.timedelta(7)).month != d.month)])

def instants(minute, hour, day, zone, after, limit):
    """The first instants of an expression, by trying."""
    real = minute[0][0] == "*" or hour[0][0] == "*"
    found, date = set(), after.astimezone(zone).date() - dt.timedelta(2)
    for _ in range(366 * 12):
        if day(date) and real:  # the real timeline, read on the wall
            noon = dt.datetime(date.year, date.month, date.day, 12, tzinfo=UTC)
            for u in (noon + dt.timedelta(minutes=m) for m in range(-28 * 60, 28 * 60)):
                w = u.astimezone(zone)
                if w.date() == date and w.hour in hour[1] and w.minute in minute[1]: found.add(u)
        elif day(date):         # wall times: fold 0 shifts in a gap and takes the first pass
            found |= {dt.datetime(date.year, date.month, date.day, h, m, tzinfo=zone).astimezone(UTC) for h in hour[1] for m in minute[1]}
        later = sorted(t for t in found if t > after)
        if len(later) >= limit and later[limit - 1].astimezone(zone).date() < date - dt.timedelta(2):
            return later[:limit]
        date += dt.timedelta(1)

lines = []
while len(lines) < 700:
    minute, hour, month = field(0, 59, 59), field(0, 23, 23, odds=.4), field(1, 12, 12, MONTHS, odds=.7)
    (dom, in_month), (dow, in_week) = day_of_month(), day_of_week()
    either = dom[0] not in "*?" and dow[0] not in "*?"
    day = lambda d: d.month in month[1] and ((in_month(d) or in_week(d)) if either else (in_month(d) and in_week(d)))
    text, zone, after = random.choice([" ", "  ", "\t"]).join([minute[0], hour[0], dom, month[0], dow]), random.choice(ZONES), random.choice(AFTER)
    got = instants(minute, hour, day, zones[zone], dt.datetime.fromisoformat(after), 8)
    if got:
        lines.append(json.dumps({"id": f"k{len(lines)+1:03}", "tz": zone, "rrule": "cron:" + text, "after": after, "limit": 8,
                                 "expected_utc": [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in got]}))
with gzip.GzipFile("crons.jsonl.gz", "wb", mtime=0) as f:
    f.write(("\n".join(lines) + "\n").encode())
print(len(lines), "expressions")
