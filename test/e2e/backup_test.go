package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/built"
)

// A backup is taken of a dev under load, and dev is killed. The copy has all that
// was acknowledged when the backup began, fires each of it once, and repeats only
// what had fired since, under the same id.
func TestBackupOfDev(t *testing.T) {
	kafka, data := built.FreeAddr(t), filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "dev", "--kafka-listen", kafka, "--data-dir", data)
	p.ready(30 * time.Second)
	l := newLoad(t, []string{kafka}, "waterclock.")
	stop := l.start(200)
	time.Sleep(3 * time.Second) // some have fired, some are pending

	before, copied := l.known(), filepath.Join(t.TempDir(), "copy")
	begun := time.Now()
	report := backup(t, data, copied)
	if !report.Verified || report.TakenAt.Before(begun.Add(-time.Second)) || report.TakenAt.After(time.Now()) {
		t.Errorf("the report says %+v", report)
	}
	stop()
	time.Sleep(time.Second) // some of what the copy has pending fires here as well
	first := dump(t, []string{kafka}, "waterclock.due.default")
	p.kill()

	for key := range l.known().wishes { // in the copy or not: what came after it began
		if _, ok := before.wishes[key]; !ok {
			before.unknown[key] = true
		}
	}
	restored := built.FreeAddr(t)
	r := start(t, "restored", "dev", "--kafka-listen", restored, "--data-dir", copied)
	r.ready(30 * time.Second)
	awaitReady(t, r)
	before.judge([]string{restored}, "waterclock.")
	second := dump(t, []string{restored}, "waterclock.due.default")
	sameFires(t, first, second, report.TakenAt)
}

// known is the load as it is now, to be judged by itself.
func (l *load) known() *load {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &load{t: l.t, wishes: maps.Clone(l.wishes), unknown: maps.Clone(l.unknown), acks: slices.Clone(l.acks)}
}

type backupReport struct {
	TakenAt  time.Time `json:"taken_at"`
	Files    int
	Bytes    int64
	Verified bool
}

func backup(t *testing.T, data, to string) (report backupReport) {
	t.Helper()
	out, code, stderr := waterclock(t, "", "backup", to, "--data-dir", data, "-o", "json")
	if code != 0 {
		t.Fatalf("backup ended with %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stderr, "when the broker stopped") { // what a start repairs in the copy is no news
		t.Errorf("it says %s", stderr)
	}
	t.Logf("backup: %+v", report)
	return report
}

// sameFires compares the due events of the original with those of its copy.
func sameFires(t *testing.T, original, restored []*kgo.Record, taken time.Time) {
	t.Helper()
	id := func(r *kgo.Record) string { return header(r, "ce_id") }
	at, byKey := map[string]string{}, map[string]string{}
	for _, r := range restored {
		at[fmt.Sprint(r.Partition, r.Offset)], byKey[string(r.Key)] = id(r), id(r)
	}
	kept, repeated := 0, 0
	for _, r := range original {
		switch there, ok := byKey[string(r.Key)]; {
		case r.Timestamp.Before(taken):
			if kept++; at[fmt.Sprint(r.Partition, r.Offset)] != id(r) {
				t.Errorf("%s had fired before the backup began, and is not in it", r.Key)
			}
		case ok:
			if repeated++; there != id(r) {
				t.Errorf("%s fired as %s, and after the restore as %s", r.Key, id(r), there)
			}
		}
	}
	t.Logf("%d had fired before the backup, %d of the %d after it are in the copy too", kept, repeated,
		len(original)-kept)
	if kept == 0 || repeated == 0 {
		t.Error("this judged nothing")
	}
}

// What is no data directory, no empty target, or no whole copy is refused by name.
func TestBackupRefusals(t *testing.T) {
	kafka, data := built.FreeAddr(t), filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "dev", "--kafka-listen", kafka, "--data-dir", data)
	p.ready(30 * time.Second)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, from, to, want string }{
		{"full", data, full, "not empty"},
		{"no data", full, filepath.Join(t.TempDir(), "copy"), "not a data directory of `waterclock dev`"},
	} {
		if _, code, stderr := waterclock(t, "", "backup", row.to, "--data-dir", row.from); code != 1 ||
			!strings.Contains(stderr, row.want) {
			t.Errorf("%s: %d, %s", row.name, code, stderr)
		}
	}
	// A stopped dev is copied as well, and half of a copy is not opened.
	p.stop(10 * time.Second)
	copied := filepath.Join(t.TempDir(), "copy")
	if report := backup(t, data, copied); !report.Verified {
		t.Errorf("the report says %+v", report)
	}
	if err := os.Remove(filepath.Join(copied, "VERSION")); err != nil {
		t.Fatal(err)
	}
	_, err := try(t, "dev", "--kafka-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--data-dir", copied)
	if err == nil || !strings.Contains(err.Error(), "an incomplete backup") {
		t.Errorf("half a copy was opened: %v", err)
	}
}
