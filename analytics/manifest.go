package analytics

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Manifest says what one step of an export added. All manifests together, from 0 on, say
// what is in the directory.
type Manifest struct {
	Version    int    `json:"version"`
	N          int    `json:"n"`
	Previous   string `json:"previous,omitempty"` // SHA-256 of the manifest before, in hex
	Topic      string `json:"topic"`
	TopicID    string `json:"topic_id"`
	Partitions int    `json:"partitions"`
	Span       int64  `json:"span"`  // no file has offsets of two multiples of it
	Users      string `json:"users"` // plain, absent, or hashed: and which key

	// Next is, by partition, the first offset that no sealed file covers.
	Next map[int32]int64 `json:"next"`

	// Watermark is, by partition, that of topic watermarks when Next last moved. A partition
	// without one is missing.
	Watermark map[int32]Watermark `json:"watermark,omitempty"`

	Files []File `json:"files"`
	Gaps  []Gap  `json:"gaps,omitempty"`

	// Snapshots are those that are new, in the order of their days.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
}

// File is a sealed file. It covers the offsets First to Last; Rows of them were committed
// records.
type File struct {
	Path      string `json:"path"` // in the directory, with slashes
	Partition int32  `json:"partition"`
	Date      string `json:"date"` // UTC, of its events
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	Rows      int64  `json:"rows"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	MinUS     int64  `json:"min_event_us,omitempty"`
	MaxUS     int64  `json:"max_event_us,omitempty"`
	Unknown   int64  `json:"unknown_fields,omitempty"` // fields in extra
	NotEvents int64  `json:"not_events,omitempty"`     // records that are no event
}

// count counts a row of the file.
func (f *File) count(r *Row) {
	f.Rows++
	switch {
	case r.Type == "":
		f.NotEvents++
	case r.Extra != "":
		f.Unknown += int64(fields(jsontext.Value(r.Extra)))
	}
}

// Gap is a part of the log that was gone before it was exported.
type Gap struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"`
	To        int64 `json:"to"` // the first offset behind it
}

// Last is the last offset of the gap.
func (g Gap) Last() int64 { return g.To - 1 }

const manifestVersion = 1

// chain is what the manifests of a directory say together.
type chain struct {
	last   *Manifest       // nil: there is none
	digest string          // of the last
	starts map[int32]int64 // where each partition begins
	next   map[int32]int64
	files  []File
	gaps   []Gap
	newest map[int32]*Snapshot // by partition
}

func manifestName(dir string, n int) string {
	return filepath.Join(dir, manifestDir, strconv.Itoa(n)+".json")
}

// Manifests reads all of them, in order. A directory without any has none.
func Manifests(dir string) ([]Manifest, error) {
	var all []Manifest
	previous := ""
	for n := 0; ; n++ {
		m, digest, err := readManifest(dir, n, previous)
		if err != nil || m == nil {
			return all, err
		}
		all, previous = append(all, *m), digest
	}
}

// readManifest is nil if there is none of that number, so the chain ends before it.
func readManifest(dir string, n int, previous string) (m *Manifest, digest string, err error) {
	name := manifestName(dir, n)
	text, err := os.ReadFile(name) //nolint:gosec // a file of the export
	if gone(err) {
		return nil, "", missing(dir, n)
	}
	if err != nil {
		return nil, "", err
	}
	m = &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, "", damaged(name, "is no manifest: %v", err)
	}
	if m.Version != manifestVersion {
		return nil, "", refused(CodeDamaged, "%s has version %d, and this waterclock knows %d: use the one that "+
			"wrote it", name, m.Version, manifestVersion)
	}
	if m.N != n || m.Previous != previous {
		return nil, "", damaged(name, "does not follow manifest %d", n-1)
	}
	return m, digestOf(text), nil
}

// missing finds a hole in the chain: manifests behind the first that is not there.
func missing(dir string, n int) error {
	entries, err := os.ReadDir(filepath.Join(dir, manifestDir))
	if err != nil {
		if gone(err) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		var k int
		if _, err := fmt.Sscanf(e.Name(), "%d.json", &k); err == nil && k > n {
			if _, err := os.Stat(manifestName(dir, n)); err == nil {
				return nil // another exporter has just made it
			}
			return damaged(manifestName(dir, n), "is missing, and %s is there", e.Name())
		}
	}
	return nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// load reads the chain from its beginning.
func load(dir string) (*chain, error) {
	c := &chain{next: map[int32]int64{}, newest: map[int32]*Snapshot{}}
	return c, c.more(dir)
}

// more reads the manifests behind those that are known.
func (c *chain) more(dir string) error {
	n := 0
	if c.last != nil {
		n = c.last.N + 1
	}
	for ; ; n++ {
		m, digest, err := readManifest(dir, n, c.digest)
		if err != nil || m == nil {
			return err
		}
		if c.last == nil {
			c.starts = m.Next
		}
		maps.Copy(c.next, m.Next)
		c.files = append(c.files, m.Files...)
		c.gaps = append(c.gaps, m.Gaps...)
		for i := range m.Snapshots {
			c.newest[m.Snapshots[i].Partition] = &m.Snapshots[i]
		}
		c.last, c.digest = m, digest
	}
}

// checkFiles finds files that are gone or torn. Older snapshots may be deleted: the next one
// is made of the newest.
func (c *chain) checkFiles(dir string) error {
	for i := range c.files {
		if err := checkFile(dir, c.files[i].Path, c.files[i].Bytes); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.newest)) {
		if err := checkFile(dir, c.newest[p].Path, c.newest[p].Bytes); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(dir, path string, size int64) error {
	name := filepath.Join(dir, filepath.FromSlash(path))
	info, err := os.Stat(name)
	switch {
	case gone(err):
		return damaged(name, "is missing, and manifests name it")
	case err != nil:
		return err
	case info.Size() != size:
		return damaged(name, "has %d bytes, and its manifest says %d", info.Size(), size)
	}
	return nil
}

// follow makes the manifest that comes next.
func (c *chain) follow(first Manifest) *Manifest {
	m := first
	m.Version, m.Files, m.Gaps, m.Snapshots = manifestVersion, []File{}, nil, nil
	m.Next = maps.Clone(c.next)
	if c.last != nil {
		m.N, m.Previous = c.last.N+1, c.digest
		m.Watermark = maps.Clone(c.last.Watermark)
	}
	return &m
}

// errRace says that another exporter has written the manifest first.
var errRace = errors.New("another exporter was first")

// publish creates a manifest whole, or not at all: errRace if there is one of its number.
func (e *Exporter) publish(m *Manifest) error {
	slices.SortFunc(m.Files, func(a, b File) int { return int(a.Partition - b.Partition) })
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	tmp := e.scratch()
	defer func() { _ = e.disk.Remove(tmp) }()
	if err := e.writeFile(tmp, text); err != nil {
		return err
	}
	if err := e.disk.Link(tmp, manifestName(e.opts.Dir, m.N)); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return errRace
		}
		return err
	}
	return e.disk.SyncDir(filepath.Join(e.opts.Dir, manifestDir))
}

// offer publishes a manifest, and returns all that there are then. If another exporter was
// first, the manifest is not among them.
func (e *Exporter) offer(m *Manifest) (*chain, error) {
	if err := e.publish(m); err != nil && !errors.Is(err, errRace) {
		return nil, err
	}
	c, err := e.known()
	if err != nil {
		return nil, err
	}
	return c, e.same(c.last)
}

func (e *Exporter) writeFile(name string, text []byte) error {
	f, err := e.disk.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
