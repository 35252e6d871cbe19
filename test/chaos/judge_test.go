package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/test/built"
)

// keyspace has the history's tables, and again those that are made of the log
// afterwards.
const (
	keyspace = "chaos"
	second   = "chaos_again"
)

// rest heals, waits until all that is due has fired, and stops the engines. The
// history goes on until it has everything.
func (w *world) rest() {
	w.t.Helper()
	w.load.pace(0)
	w.load.stop()
	if err := w.recovered(2 * time.Minute); err != nil {
		w.t.Errorf("all is healed, and two minutes later not at rest: %v", err)
	}
	time.Sleep(2 * time.Second)
	w.end = time.Now()
	for _, e := range w.engines {
		e.stop()
	}
	if w.history != nil {
		w.awaitHistory()
		w.history.stop()
	}
	w.tape.finish()
}

// awaitHistory waits until every event is in the tables.
func (w *world) awaitHistory() {
	w.t.Helper()
	var lag []string
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(500 * time.Millisecond) {
		resp, err := w.http.Get(w.history.probe + "/metrics")
		if err != nil {
			continue
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		resp.Body.Close()
		lag = lag[:0]
		known := 0
		for line := range strings.Lines(b.String()) {
			if !strings.HasPrefix(line, "waterclock_history_lag_records{") {
				continue
			}
			known++
			if n, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64); n > 0 {
				lag = append(lag, strings.TrimSpace(line))
			}
		}
		if known == partitions && len(lag) == 0 {
			return
		}
	}
	w.t.Errorf("the history does not catch up: %v", lag)
}

// judge runs the history checker on the recording, compares the history's
// tables with the log, looks for panics, and prints the summary.
func (w *world) judge() {
	w.t.Helper()
	faults := w.evidence()
	report := w.verify(faults)
	tables := w.compareTables()
	w.findPanics()
	w.t.Log("\n" + w.summary(report, tables))
	if w.t.Failed() {
		w.tape.keep()
		w.t.Logf("judge the recording again: waterclock events verify --from %s --acks %s --faults %s --set "+
			"topics.prefix=%s --grace 5s",
			w.tape.dir, filepath.Join(w.tape.dir, "acks.ndjson"), filepath.Join(w.tape.dir, "faults.ndjson"), prefix)
	}
}

// evidence writes what the load was told, and when what was broken, beside the
// recording.
func (w *world) evidence() []check.Fault {
	w.t.Helper()
	var faults []check.Fault
	for _, r := range w.rounds {
		faults = append(faults, check.Fault{
			Name: r.phase.name + ": " + r.fault.name, From: r.from.UnixMilli(),
			To: r.to.UnixMilli(),
		})
	}
	writeLines(w, "acks.ndjson", w.load.acks)
	writeLines(w, "faults.ndjson", faults)
	return faults
}

func writeLines[T any](w *world, name string, lines []T) {
	w.t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.tape.dir, name), b.Bytes(), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) verify(faults []check.Fault) *check.Report {
	w.t.Helper()
	zones, err := check.LoadZones(calendar.EmbeddedZip())
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := check.OpenDump(w.tape.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	defer h.Close()
	// All was at rest for seconds when the engines were stopped: what was due then and
	// has not fired is lost, and no record is still on its way.
	r, err := check.Verify(h, check.Options{
		Zones: zones, End: w.end.UnixMilli(), Unread: -1, Grace: 5 * time.Second, Acks: w.load.acks,
		Faults: faults, Workers: runtime.GOMAXPROCS(0),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range r.Violations {
		if i == 10 {
			w.t.Errorf("checker: and %d more", r.Total()-10)
			break
		}
		v := &r.Violations[i]
		w.t.Errorf("checker: %s\n    %s", v, strings.Join(v.Timeline, "\n    "))
		if v.Class == check.Duplicate || v.Class == check.Torn {
			w.showLogs(h, v)
		}
	}
	if r.Counts[check.Duplicate]+r.Counts[check.Torn] > 0 {
		w.showMarkersLost()
	}
	if r.Fired == 0 {
		w.t.Error("nothing fired: this judged nothing")
	}
	return r
}

// compareTables makes the history's tables again from the log.
func (w *world) compareTables() string {
	w.t.Helper()
	if w.db == nil {
		return "not run: without Cassandra"
	}
	file, err := built.Waterclock()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := exec.Command(file, "history", "rebuild", "--keyspace", second, "--config", w.config).CombinedOutput()
	if err != nil {
		w.t.Errorf("history rebuild: %v\n%s", err, out)
		return "THE TABLES DIFFER from the event log"
	}
	return "the tables equal the event log"
}

// findPanics reads the processes' logs.
func (w *world) findPanics() {
	w.t.Helper()
	logs, err := filepath.Glob(filepath.Join(w.dir, "*.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range logs {
		b, _ := os.ReadFile(file)
		for _, sign := range []string{"\npanic: ", "\nfatal error: "} {
			if i := bytes.Index(b, []byte(sign)); i >= 0 {
				w.t.Errorf("%s: %s", filepath.Base(file), b[i:min(len(b), i+2000)])
			}
		}
	}
}

func (w *world) summary(r *check.Report, tables string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	network := "behind proxies"
	if w.s.root {
		network = "in namespaces"
	}
	say("chaos, seed %d: %d brokers and %d engines %s, %d partitions, standby %d, %.0f s", w.s.seed, nodes, engines,
		network, partitions, w.standby, time.Since(w.begin).Seconds())
	say("%8s  %-9s %-48s %7s %12s", "at", "phase", "fault", "lasted", "recovered in")
	for _, x := range w.rounds {
		say("%8s  %-9s %-48s %5.1f s %10.1f s", w.at(x.from), x.phase.name, x.fault.name,
			x.healed.Sub(x.from).Seconds(), x.to.Sub(x.healed).Seconds())
	}
	for _, s := range w.surprises {
		say("%s", s)
	}
	for _, s := range w.left {
		say("not done here: %s", s)
	}
	l := w.load
	say("load: %d triggers; %d commands acknowledged, %d with an unknown answer, %d calls over HTTP, %d receipts", l.n,
		len(l.acks), l.unknown, l.overHTTP, l.receipts)
	say("%-18s %8s%8s%8s%8s%8s%8s%8s%8s %9s %9s %9s", "late by up to", "10 ms", "100 ms", "1 s", "5 s", "10 s", "30 s",
		"1 min", "more", "p50", "p99", "max")
	for _, x := range []struct {
		name string
		late check.Lateness
	}{{"outside of faults", r.NoFaults}, {"in faults", r.InFaults}} {
		line := fmt.Sprintf("%-18s ", x.name)
		for _, n := range x.late.Within {
			line += fmt.Sprintf("%8d", n)
		}
		say("%s %6d ms %6d ms %6d ms", line, x.late.P50, x.late.P99, x.late.Max)
	}
	say("checker: %d violations; %d records, %d triggers (%d live), %d due events", r.Total(), r.Records, r.Triggers,
		r.Live, r.Fired)
	for _, c := range check.Classes {
		if n := r.Counts[c.Class]; n > 0 {
			say("  %-4s %-28s %d", c.Class, c.Means, n)
		}
	}
	for what, n := range r.Skipped {
		say("  not judged: %s: %d", what, n)
	}
	for what, n := range r.Trusted {
		say("  taken on trust: refused as %s: %d", what, n)
	}
	say("history: %s", tables)
	return b.String()
}
