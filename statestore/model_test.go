package statestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// model is the store as a map of rows, with random changes to it.
type model struct {
	r    *rand.Rand
	rows map[trigger.Key]Row
	turn int
}

func newModel(seed uint64) *model {
	return &model{r: rand.New(rand.NewPCG(seed, 0)), rows: map[trigger.Key]Row{}}
}

func (m *model) key() trigger.Key { return trigger.Key(fmt.Sprintf("k%d", m.r.IntN(60))) }

// row makes a random state of any kind.
func (m *model) row(key trigger.Key) Row {
	row := Row{Key: key, Value: []byte(fmt.Sprintf("%s turn %d %s", key, m.turn, strings.Repeat("x", m.r.IntN(200))))}
	if m.r.IntN(2) == 0 {
		row.Tenant, row.User = "t"+fmt.Sprint(m.r.IntN(2)), "u\x00"[:1+m.r.IntN(2)]+fmt.Sprint(m.r.IntN(3))
	}
	if m.r.IntN(2) == 0 {
		row.Zone = []string{"UTC", "Europe/Berlin", "Asia/Tokyo"}[m.r.IntN(3)]
	}
	switch m.r.IntN(4) {
	case 0: // paused
	case 1:
		row.ForgetAt = trigger.Instant(1 + m.r.IntN(1000))
	case 2:
		row.Timers = []trigger.Timer{m.timer()}
	case 3:
		for range 1 + m.r.IntN(5) {
			if t := m.timer(); !slices.Contains(row.Timers, t) {
				row.Timers = append(row.Timers, t)
			}
		}
		if m.r.IntN(4) == 0 { // both: an escalation that outlives its series
			row.ForgetAt = trigger.Instant(1 + m.r.IntN(1000))
		}
	}
	return row
}

func (m *model) timer() trigger.Timer {
	return trigger.Timer{
		Due: trigger.Instant(m.r.IntN(1000)), Priority: trigger.Priority(m.r.IntN(3)),
		Kind: trigger.TimerKind(1 + m.r.IntN(2)), Occurrence: fmt.Sprint(m.r.IntN(3)),
	}
}

// fill puts one turn's changes into b and into the model.
func (m *model) fill(b *Batch) {
	m.turn++
	for range m.r.IntN(20) {
		key := m.key()
		old, known := m.rows[key]
		switch {
		case known && m.r.IntN(4) == 0:
			b.Delete(old)
			delete(m.rows, key)
		case known:
			row := m.row(key)
			for _, t := range old.Timers { // some timers stay, and may no longer be the first
				if len(row.Timers) > 0 && m.r.IntN(2) == 0 && !slices.Contains(row.Timers, t) {
					row.Timers = append(row.Timers, t)
				}
			}
			b.Put(&old, row)
			m.rows[key] = row
		default:
			row := m.row(key)
			b.Put(nil, row)
			m.rows[key] = row
		}
	}
	if m.r.IntN(10) == 0 {
		m.fire(b, trigger.Instant(m.r.IntN(1000)))
	}
	b.SetMeta("turn", fmt.Append(nil, m.turn))
}

// fire ends every timer before due, in a random order.
func (m *model) fire(b *Batch, due trigger.Instant) {
	for key, old := range m.rows {
		row := old
		row.Timers = slices.DeleteFunc(slices.Clone(old.Timers), func(t trigger.Timer) bool { return t.Due < due })
		if len(row.Timers) != len(old.Timers) {
			b.Put(&old, row)
			m.rows[key] = row
		}
	}
}

// entries returns what the store should hold, byte for byte. It does not use the code under test.
func (m *model) entries() map[string]string {
	all := map[string]string{"m/format": "1"}
	pending, done := 0, 0
	for _, row := range m.rows {
		var homes []string
		for _, t := range row.Timers {
			homes = append(homes, fmt.Sprintf("d%s%c%s\x00%c%s", be(t.Due), t.Priority, row.Key, t.Kind, t.Occurrence))
		}
		slices.Sort(homes)
		finished := len(homes) == 0 && row.ForgetAt != 0
		if row.ForgetAt != 0 {
			homes = append(homes, "y"+be(row.ForgetAt)+string(row.Key))
		}
		for i, home := range homes {
			all[home] = ""
			if i == 0 {
				all[home] = string(row.Value)
			}
		}
		if row.User != "" {
			next := "\xff\xff\xff\xff\xff\xff\xff\xff"
			if len(row.Timers) > 0 {
				next = homes[0][1:9]
			}
			all["u"+row.Tenant+"\x00"+strings.ReplaceAll(row.User, "\x00", "\x01\x02")+"\x00"+next+string(row.Key)] = ""
		}
		if row.Zone != "" {
			all["z"+row.Zone+"\x00"+string(row.Key)] = ""
		}
		switch {
		case finished:
			done++
			all["t"+string(row.Key)] = "\x03" + varint(row.ForgetAt)
		case len(row.Timers) > 0:
			pending++
			h := homes[0]
			end := strings.IndexByte(h[10:], 0) + 10
			due := trigger.Instant(binary.BigEndian.Uint64([]byte(h[1:9])))
			all["t"+string(row.Key)] = "\x02" + varint(due) + h[9:10] + h[end+1:]
		default:
			pending++
			all["t"+string(row.Key)] = "\x01" + string(row.Value)
		}
	}
	if m.turn > 0 {
		all["m/turn"] = fmt.Sprint(m.turn)
	}
	all["m/counts"] = fmt.Sprintf("%c%c", pending, done)
	return all
}

func be(i trigger.Instant) string { return string(binary.BigEndian.AppendUint64(nil, uint64(i))) }
func varint(i trigger.Instant) string {
	return string(binary.AppendUvarint(nil, uint64(i)))
}

// dump returns what the store holds.
func dump(t *testing.T, s *Store) map[string]string {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for it.First(); it.Valid(); it.Next() {
		all[string(it.Key())] = string(it.Value())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if all["m/counts"] == "" {
		all["m/counts"] = "\x00\x00"
	}
	return all
}

func (m *model) check(t *testing.T, s *Store, where string) {
	t.Helper()
	if got, want := dump(t, s), m.entries(); !maps.Equal(got, want) {
		t.Fatalf("%s: the store differs:\n%s", where, difference(got, want))
	}
	m.checkDue(t, s, where)
	m.checkForget(t, s, where)
	m.checkStates(t, s, where)
	m.checkSnapshot(t, s, where)
	for i := range 60 {
		key := trigger.Key(fmt.Sprintf("k%d", i))
		v, err := s.Get(key, nil)
		if want, known := m.rows[key]; err != nil || (v != nil) != known || !bytes.Equal(v, want.Value) {
			t.Fatalf("%s: Get(%s) = %q %v, want %q", where, key, v, err, want.Value)
		}
	}
}

func difference(got, want map[string]string) string {
	var b strings.Builder
	for k, v := range got {
		if w, ok := want[k]; !ok || v != w {
			fmt.Fprintf(&b, "  %q is %q, want %q %v\n", k, v, w, ok)
		}
	}
	for k, v := range want {
		if _, ok := got[k]; !ok {
			fmt.Fprintf(&b, "  %q is missing, want %q\n", k, v)
		}
	}
	return b.String()
}

func (m *model) checkDue(t *testing.T, s *Store, where string) {
	t.Helper()
	var want, got []DueKey
	homes := map[DueKey][]byte{}
	for _, row := range m.rows {
		for i, timer := range sortedTimers(nil, row.Timers) {
			k := DueKey{timer.Due, Ref(timer, row.Key)}
			want = append(want, k)
			homes[k] = nil
			if i == 0 {
				homes[k] = row.Value
			}
		}
	}
	slices.SortFunc(want, func(a, b DueKey) int {
		if a.Due != b.Due {
			return int(a.Due - b.Due)
		}
		return strings.Compare(a.Ref, b.Ref)
	})
	from := DueKey{}
	if len(want) > 0 && m.r.IntN(2) == 0 { // after a random one
		i := m.r.IntN(len(want))
		from, want = want[i], want[i+1:]
	}
	if err := s.ScanDue(from, func(due trigger.Instant, ref string) bool {
		got = append(got, DueKey{due, ref})
		return true
	}); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: ScanDue(%v) = %v %v, want %v", where, from, got, err, want)
	}
	r := s.NewDueReader()
	defer r.Close()
	for _, k := range want {
		if m.r.IntN(8) == 0 {
			k = want[m.r.IntN(len(want))]
		}
		if v, ok, err := r.Get(k.Due, k.Ref); !ok || err != nil || v == nil || !bytes.Equal(v, homes[k]) {
			t.Fatalf("%s: DueReader.Get(%v) = %q %v %v, want %q", where, k, v, ok, err, homes[k])
		}
		if v, ok, err := r.Get(k.Due, k.Ref+"?"); ok || err != nil {
			t.Fatalf("%s: DueReader found %q for an unknown ref, %v", where, v, err)
		}
	}
}

// checkStates reads all keys in random order, and some that are unknown, through one reader.
func (m *model) checkStates(t *testing.T, s *Store, where string) {
	t.Helper()
	r := s.NewStateReader()
	defer r.Close()
	keys := slices.Sorted(maps.Keys(m.rows))
	m.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var buf []byte
	for _, key := range keys {
		var err error
		if buf, err = r.Get(key, buf); err != nil || !bytes.Equal(buf, m.rows[key].Value) {
			t.Fatalf("%s: StateReader.Get(%q) = %q %v, want %q", where, key, buf, err, m.rows[key].Value)
		}
		if v, err := r.Get(key+"?", nil); v != nil || err != nil {
			t.Fatalf("%s: StateReader found %q for an unknown key, %v", where, v, err)
		}
	}
}

func (m *model) checkForget(t *testing.T, s *Store, where string) {
	t.Helper()
	now := trigger.Instant(m.r.IntN(1000))
	want, got := map[trigger.Key]trigger.Instant{}, map[trigger.Key]trigger.Instant{}
	for key, row := range m.rows {
		if row.ForgetAt != 0 && row.ForgetAt <= now {
			want[key] = row.ForgetAt
		}
	}
	last := trigger.Instant(0)
	if err := s.ScanForget(now, func(at trigger.Instant, key trigger.Key, value []byte) bool {
		row := m.rows[key]
		if at < last || row.finished() && !bytes.Equal(value, row.Value) {
			t.Fatalf("%s: ScanForget calls %d %s %q after %d, want %q", where, at, key, value, last, row.Value)
		}
		last, got[key] = at, at
		return true
	}); err != nil || !maps.Equal(got, want) {
		t.Fatalf("%s: ScanForget(%d) = %v %v, want %v", where, now, got, err, want)
	}
}

func (m *model) checkSnapshot(t *testing.T, s *Store, where string) {
	t.Helper()
	sn := s.Snapshot()
	defer sn.Close()
	keys, err := byPages(func(after trigger.Key, f func(trigger.Key) bool) error {
		return sn.Scan(after, func(key trigger.Key, value []byte) bool {
			return f(key) &&
				bytes.Equal(value, m.rows[key].Value)
		})
	})
	if err != nil || !slices.Equal(keys, slices.Sorted(maps.Keys(m.rows))) {
		t.Fatalf("%s: Scan = %v %v", where, keys, err)
	}
	var users, zones, wantUsers, wantZones []string
	for key, row := range m.rows {
		if row.Tenant == "t1" && row.User == "u0" {
			wantUsers = append(wantUsers, string(key))
		}
		if row.Zone != "" {
			wantZones = append(wantZones, row.Zone+" "+string(key))
		}
	}
	for at := (UserCursor{}); ; { // page by page
		n := 0
		if err := sn.ScanUser("t1", "u0", at, func(c UserCursor, value []byte) bool {
			row := m.rows[c.Key]
			if c.Due < at.Due || c.Due != nextDue(sortedTimers(nil, row.Timers)) || !bytes.Equal(value, row.Value) {
				t.Fatalf("%s: ScanUser at %v calls %v %q, want %v", where, at, c, value, row)
			}
			users, at, n = append(users, string(c.Key)), c, n+1
			return n < 2
		}); err != nil {
			t.Fatalf("%s: ScanUser: %v", where, err)
		}
		if n == 0 {
			break
		}
	}
	if err := sn.Zones(func(zone string) bool {
		keys, err := byPages(func(after trigger.Key, f func(trigger.Key) bool) error {
			return sn.ScanZone(zone, after, func(key trigger.Key, _ []byte) bool { return f(key) })
		})
		for _, key := range keys {
			zones = append(zones, zone+" "+string(key))
		}
		return err == nil
	}); err != nil {
		t.Fatalf("%s: zones: %v", where, err)
	}
	slices.Sort(users)
	slices.Sort(wantUsers)
	slices.Sort(wantZones)
	if !slices.Equal(users, wantUsers) || !slices.Equal(zones, wantZones) {
		t.Fatalf("%s: users %v, want %v; zones %v, want %v", where, users, wantUsers, zones, wantZones)
	}
}

// byPages scans seven keys at a time, each page from where the last one ended.
func byPages(scan func(after trigger.Key, f func(trigger.Key) bool) error) (keys []trigger.Key, err error) {
	for more := true; more && err == nil; {
		var after trigger.Key
		if n := len(keys); n > 0 {
			after = keys[n-1]
		}
		n := 0
		more = false
		err = scan(after, func(key trigger.Key) bool {
			keys, n = append(keys, key), n+1
			more = n == 7 && len(keys) < 1000
			return n < 7
		})
	}
	return keys, err
}

func TestModel(t *testing.T) {
	for _, c := range []struct {
		name string
		o    func(t *testing.T) Options
	}{
		{"memory", func(*testing.T) Options { return Options{Dir: "/p0", FS: vfs.NewMem()} }},
		{"memory without log", func(*testing.T) Options {
			return Options{
				Dir: "/p0", FS: vfs.NewMem(),
				DisableWAL: true,
			}
		}},
		{"disk", func(t *testing.T) Options { return Options{Dir: t.TempDir() + "/p0"} }},
		{"shared cache", func(t *testing.T) Options {
			c := NewCache(8 << 20)
			t.Cleanup(c.Close)
			return Options{Dir: "/p0", FS: vfs.NewMem(), Cache: c, MemTableBytes: 64 << 10}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			runModel(t, c.o(t), uint64(time.Now().UnixNano()), 150)
		})
	}
}

func runModel(t *testing.T, o Options, seed uint64, turns int) {
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	m := newModel(seed)
	b := s.NewBatch()
	for i := range turns {
		where := fmt.Sprintf("seed %d turn %d", seed, i)
		m.fill(b)
		if err := b.Commit(); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		switch m.r.IntN(12) {
		case 0:
			if err := s.Close(); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if s, err = Open(o); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			b = s.NewBatch()
		case 1:
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
		}
		m.check(t, s, where)
	}
}

// openDump opens a store and returns what it holds.
func openDump(t *testing.T, o Options) (map[string]string, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	it, err := s.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		return nil, firstErr(failed("dump", err), s.Close())
	}
	all := map[string]string{}
	for it.First(); it.Valid(); it.Next() {
		all[string(it.Key())] = string(it.Value())
	}
	if err := firstErr(failed("dump", it.Close()), s.Close()); err != nil {
		return nil, err
	}
	if all["m/counts"] == "" {
		all["m/counts"] = "\x00\x00"
	}
	return all, nil
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
