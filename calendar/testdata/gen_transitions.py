#!/usr/bin/env python3
"""Writes transitions.txt.gz: what Python's zoneinfo makes of wall times around
every clock change from 1970 to 2037, in every distinct zone of
../tzdata/zoneinfo.zip. Run it in this directory; it takes about a minute.

A line is  zone wall,offset0,offset1 …  : the wall time in seconds as if UTC
(the first absolute, the others as differences), and the offsets that zoneinfo
applies with fold=0 and fold=1, in seconds. A missing offset1 equals offset0,
a missing offset0 the one before."""
import datetime as dt, gzip, io, zipfile, zoneinfo

EPOCH = dt.datetime(1970, 1, 1)
FROM, TO = 0, int((dt.datetime(2038, 1, 1) - EPOCH).total_seconds())

def offset(zone, utc):
    t = EPOCH.replace(tzinfo=dt.timezone.utc) + dt.timedelta(seconds=utc)
    return int(t.astimezone(zone).utcoffset().total_seconds())

def changes(zone):
    t, before = FROM, offset(zone, FROM)
    while t < TO:
        nxt = t + 86400
        after = offset(zone, nxt)
        if after != before:
            lo, hi = t, nxt
            while hi - lo > 1:
                mid = (lo + hi) // 2
                lo, hi = (mid, hi) if offset(zone, mid) == before else (lo, mid)
            yield hi, before, offset(zone, hi)
            after = offset(zone, nxt)
        t, before = nxt, after

def wall_offset(zone, wall, fold):
    t = (EPOCH + dt.timedelta(seconds=wall)).replace(tzinfo=zone, fold=fold)
    return int(t.utcoffset().total_seconds())

archive = zipfile.ZipFile("../tzdata/zoneinfo.zip")
seen, lines, points = set(), [], 0
for name in sorted(archive.namelist()):
    data = archive.read(name)
    if name.endswith("/") or name == "Factory" or data in seen:
        continue
    seen.add(data)
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key=name)
    walls = set()
    for t, a, b in changes(zone):
        lo, hi = t + min(a, b), t + max(a, b)
        walls.update((lo - 1, lo, lo + 1, (lo + hi) // 2, hi - 1, hi, hi + 1))
    line, last, last0 = [name], 0, None
    for w in sorted(walls):
        o0, o1 = wall_offset(zone, w, 0), wall_offset(zone, w, 1)
        item = str(w - last)
        if o0 != last0 or o1 != o0:
            item += "," + str(o0)
        if o1 != o0:
            item += "," + str(o1)
        line.append(item)
        last, last0 = w, o0
        points += 1
    lines.append(" ".join(line))
with gzip.GzipFile("transitions.txt.gz", "wb", mtime=0) as f:
    f.write(("\n".join(lines) + "\n").encode())
print(len(lines), "zones", points, "points")
