package calendar

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/near"
)

// The tz database this binary carries: lib/time/zoneinfo.zip of the Go
// distribution, byte for byte. Package time would prefer the host's copy, so
// that two replicas on different images could disagree; we never ask it.
//
//go:embed tzdata/zoneinfo.zip
var embedded []byte

// EmbeddedZip is the blob of Embedded: what an operator writes to the log to
// make it the release in force.
func EmbeddedZip() []byte { return slices.Clone(embedded) }

// embeddedRelease is the IANA release of tzdata/zoneinfo.zip. Nothing inside
// the file says it; lib/time/update.bash of the Go distribution does.
const embeddedRelease = "2025c"

// Zones is one release of the tz database. It never changes and is safe for
// concurrent use; zones are parsed when first asked for.
type Zones struct {
	release string
	id      string
	raw     map[string][]byte // TZif by IANA name
	names   []string          // sorted

	mu     sync.RWMutex
	parsed map[string]*Zone
}

// Embedded is the release the binary carries.
var Embedded = sync.OnceValue(func() *Zones {
	z, err := index(embedded, embeddedRelease)
	if err != nil {
		panic("calendar: embedded tz database: " + err.Error())
	}
	return z
})

// LoadZones reads a release from a zip of TZif files, such as the Go
// distribution's. The label is for people; the identity is the SHA-256 of the
// bytes. Every zone is parsed before the release is accepted.
func LoadZones(blob []byte, label string) (*Zones, error) {
	z, err := index(blob, label)
	if err != nil {
		return nil, fmt.Errorf("load tz database %s: %w", label, err)
	}
	for _, name := range z.names {
		if _, err := z.Lookup(name); err != nil {
			return nil, fmt.Errorf("load tz database %s: %w", label, err)
		}
	}
	return z, nil
}

// Release is the label, "2025c".
func (z *Zones) Release() string { return z.release }

// ID is the hexadecimal SHA-256 of the database's bytes.
func (z *Zones) ID() string { return z.id }

// Names lists the IANA names of the release, sorted.
func (z *Zones) Names() []string { return slices.Clone(z.names) }

// Lookup finds a zone by its exact IANA name; links (Europe/Kiev) count.
// Offsets, "Local", the empty name and host spellings (posix/, right/) are no
// zones: the Error is unknown_zone and suggests the nearest name.
func (z *Zones) Lookup(name string) (*Zone, error) {
	z.mu.RLock()
	zone := z.parsed[name]
	z.mu.RUnlock()
	if zone != nil {
		return zone, nil
	}
	raw, ok := z.raw[name]
	if !ok {
		return nil, z.unknown(name)
	}
	loc, err := time.LoadLocationFromTZData(name, raw)
	if err != nil {
		return nil, fmt.Errorf("parse zone %s: %w", name, err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if zone = z.parsed[name]; zone == nil {
		zone = &Zone{name: name, loc: loc}
		z.parsed[name] = zone
	}
	return zone, nil
}

func (z *Zones) unknown(name string) *Error {
	switch {
	case name == "":
		return fail(CodeUnknownZone, "timezone",
			"is empty; leave it out for UTC, or name a zone such as America/New_York")
	case name == "Local" || name == "localtime":
		return fail(CodeUnknownZone, "timezone",
			"%s differs from machine to machine; name a zone such as America/New_York", clip(name))
	case resemblesOffset(name):
		return fail(CodeUnknownZone, "timezone",
			"%s is an offset, not a zone: it cannot know when clocks change; name a zone such as America/New_York",
			clip(name))
	}
	return fail(CodeUnknownZone, "timezone", "%s is not an IANA zone of tz database %s%s", clip(name), z.release,
		z.suggest(name))
}

// suggest finds the zone somebody probably meant. A city is typed more often
// than its continent, so it is compared alone too.
func (z *Zones) suggest(name string) string {
	if len(name) > 64 {
		return ""
	}
	want := strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	for _, n := range z.names {
		if strings.EqualFold(n, want) {
			return "; did you mean " + n + "?"
		}
	}
	for _, n := range z.names {
		if _, city, ok := strings.Cut(n, "/"); ok && strings.EqualFold(city, want) {
			return "; did you mean " + n + "?"
		}
	}
	return near.Hint(want, z.names)
}

func resemblesOffset(s string) bool {
	for _, p := range []string{"UTC", "GMT", ""} {
		rest, ok := strings.CutPrefix(strings.ToUpper(s), p)
		if ok && rest != "" && (rest[0] == '+' || rest[0] == '-') {
			return true
		}
	}
	return false
}

// index checks the archive and remembers where each zone's bytes are.
func index(blob []byte, label string) (*Zones, error) {
	r, err := zip.NewReader(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		return nil, fmt.Errorf("open zip: %w", err)
	}
	sum := sha256.Sum256(blob)
	z := &Zones{
		release: label,
		id:      hex.EncodeToString(sum[:]),
		raw:     make(map[string][]byte, len(r.File)),
		parsed:  make(map[string]*Zone),
	}
	size := 0
	for _, f := range r.File {
		if !isZoneName(f.Name) {
			continue
		}
		if z.raw[f.Name], err = readEntry(f); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		if size += len(z.raw[f.Name]); size > maxReleaseBytes {
			return nil, fmt.Errorf("its zones take over %d MiB", maxReleaseBytes>>20)
		}
		z.names = append(z.names, f.Name)
	}
	slices.Sort(z.names)
	if _, ok := z.raw["UTC"]; !ok {
		return nil, fmt.Errorf("no zone UTC among %d entries", len(r.File))
	}
	return z, nil
}

// isZoneName leaves out directories, host spellings, and the placeholder
// "Factory", which means that nobody has set a zone.
func isZoneName(n string) bool {
	switch {
	case n == "" || strings.HasSuffix(n, "/"),
		n == "Factory" || n == "localtime" || n == "posixrules" || n == "Local",
		strings.HasPrefix(n, "posix/") || strings.HasPrefix(n, "right/"),
		strings.Contains(n, "..") || strings.HasPrefix(n, "/"):
		return false
	}
	return true
}

// maxZoneBytes bounds one entry; the largest of a fat build is under 4 KB.
// maxReleaseBytes bounds all of them; a fat build has 2 MB.
const (
	maxZoneBytes    = 1 << 16
	maxReleaseBytes = 16 << 20
)

func readEntry(f *zip.File) ([]byte, error) {
	rc, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, maxZoneBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxZoneBytes {
		return nil, fmt.Errorf("over %d bytes", maxZoneBytes)
	}
	return b, nil
}
