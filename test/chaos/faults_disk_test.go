package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// What becomes of the disks of engines. Kafka is right: whatever a store holds,
// what fires is what the topics say.
var diskFaults = []*fault{
	{
		name: "an engine's disk is full", needs: root, least: 8 * time.Second, most: 15 * time.Second,
		strike: func(w *world) func() {
			ballast := filepath.Join(w.anyEngine().dir, "ballast")
			if err := services.Fill(ballast); err != nil {
				w.t.Error(err)
			}
			return func() { w.must(os.Remove(ballast)) }
		},
	},
	{name: "an engine loses its disk", least: time.Second, most: 8 * time.Second, strike: func(w *world) func() {
		e := w.anyEngine()
		e.kill()
		w.must(os.RemoveAll(e.store()))
		return e.launch
	}},
	{name: "an engine gets an old copy of its disk", strike: func(w *world) func() {
		e := w.anyEngine()
		copied := filepath.Join(w.dir, "old")
		e.kill() // a copy of files that are being written would be another fault
		w.must(os.RemoveAll(copied))
		w.run("cp", "-a", e.store(), copied)
		e.launch()
		time.Sleep(w.between(8*time.Second, 14*time.Second))
		e.kill()
		w.must(os.RemoveAll(e.store()))
		w.run("cp", "-a", copied, e.store())
		e.launch()
		return nil
	}},
	{name: "two engines' disks are swapped", strike: func(w *world) func() {
		i := w.rng.IntN(engines)
		a, b := w.engines[i], w.engines[(i+1)%engines]
		a.kill()
		b.kill()
		between := filepath.Join(w.dir, "between")
		w.run("mv", a.store(), between)
		w.run("mv", b.store(), a.store())
		w.run("mv", between, b.store())
		a.launch()
		b.launch()
		return nil
	}},
	{name: "bytes of an engine's disk are flipped", strike: func(w *world) func() {
		e := w.anyEngine()
		e.kill()
		w.flip(e.store())
		e.launch()
		return nil
	}},
}

// flip changes bytes in three files of a directory.
func (w *world) flip(dir string) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	w.must(err)
	for range 3 {
		file := files[w.rng.IntN(len(files))]
		b, err := os.ReadFile(file)
		if err != nil || len(b) == 0 {
			continue
		}
		for range 1 + len(b)/4096 {
			b[w.rng.IntN(len(b))] ^= byte(1 + w.rng.IntN(255))
		}
		w.must(os.WriteFile(file, b, 0o600))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) run(name string, args ...string) {
	w.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		w.t.Errorf("%s %v: %v: %s", name, args, err, out)
	}
}
