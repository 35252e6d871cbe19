package broker

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// journal makes what was appended to many files durable by one fsync of one
// file: it holds copies of the bytes, and a start puts back what a power cut
// took from their own files. docs/formats/broker.md draws it.
//
// Two files take turns. While one is written, the files whose bytes the other
// holds are synced where they lie (a checkpoint); then it is written over,
// which is cheaper to sync than a file that grows.
type journal struct {
	root  string // what paths are relative to
	fsync func(*os.File) error

	files [2]*os.File
	run   journalRun
	size  int64  // of the file being written, as far as it counts
	buf   []byte // frames behind size, not written yet
}

// journalRun is one file's content between two times it is written over.
type journalRun struct {
	number uint64 // the order of runs; its lowest bit says in which file
	nonce  [8]byte
}

const (
	// journalMagic opens a journal file; its last byte is the version.
	journalMagic  = "WCJOURN\x01"
	journalHeader = len(journalMagic) + 8 + 8 + 4

	journalChunk  = 256 << 10 // of a file in one frame
	journalBuffer = 1 << 20   // written at once
)

func journalName(i int) string { return fmt.Sprintf("journal.%d", i) }

// openJournal begins an empty journal.
func openJournal(root string, fsync func(*os.File) error) (*journal, error) {
	j := &journal{root: root, fsync: fsync}
	for i := range j.files {
		f, err := os.OpenFile(filepath.Join(root, journalName(i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			j.close()
			return nil, err
		}
		j.files[i] = f
	}
	if err := errors.Join(syncDir(root), j.void()); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *journal) file() *os.File { return j.files[j.run.number%2] }

// turn begins a new run in the other file. Whatever that held is in place.
func (j *journal) turn() {
	j.run.number++
	rand.Read(j.run.nonce[:])
	j.size = 0
	j.buf = j.run.appendTo(j.buf[:0])
}

// void forgets all that was written, durably. Whatever it held is in place.
func (j *journal) void() error {
	for _, f := range j.files {
		if _, err := f.WriteAt(make([]byte, journalHeader), 0); err != nil {
			return err
		}
		if err := j.fsync(f); err != nil {
			return err
		}
	}
	j.turn()
	return nil
}

// capture takes what f holds from byte from on, but nothing from byte upTo on,
// and says where that ends.
func (j *journal) capture(f *os.File, from, upTo int64) (end int64, err error) {
	path, err := filepath.Rel(j.root, f.Name())
	if err != nil {
		return from, err
	}
	for from < upTo {
		n, err := j.frame(f, path, from, min(journalChunk, upTo-from))
		if n == 0 || err != nil {
			return from, err
		}
		from += int64(n)
		if len(j.buf) >= journalBuffer {
			if err := j.flush(); err != nil {
				return from, err
			}
		}
	}
	return from, nil
}

// frame appends one frame, and returns how many bytes of f are in it.
func (j *journal) frame(f *os.File, path string, from, most int64) (int, error) {
	at := len(j.buf)
	j.buf = append(j.buf, make([]byte, frameHeader)...)
	j.buf = appendString(j.buf, path)
	j.buf = binary.AppendUvarint(j.buf, uint64(from))
	head := len(j.buf)
	j.buf = slices.Grow(j.buf, int(most))
	n, err := f.ReadAt(j.buf[head:head+int(most)], from)
	if n == 0 {
		j.buf = j.buf[:at]
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return 0, err
	}
	j.buf = j.buf[:head+n]
	body := j.buf[at+frameHeader:]
	binary.BigEndian.PutUint32(j.buf[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(j.buf[at+4:], j.run.checksum(body))
	return n, nil
}

// flush writes, and does not sync.
func (j *journal) flush() error {
	n, err := j.file().WriteAt(j.buf, j.size)
	j.size += int64(n)
	j.buf = j.buf[:0]
	return err
}

// commit makes all that was captured durable.
func (j *journal) commit() error {
	if err := j.flush(); err != nil {
		return err
	}
	return j.fsync(j.file())
}

func (j *journal) close() {
	for _, f := range j.files {
		if f != nil {
			f.Close()
		}
	}
}

func (r journalRun) appendTo(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, journalMagic...)
	dst = binary.BigEndian.AppendUint64(dst, r.number)
	dst = append(dst, r.nonce[:]...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], crcTable))
}

// checksum is of the nonce and the body, so that frames of an earlier run
// behind the end of this one are none of its.
func (r journalRun) checksum(body []byte) uint32 {
	return crc32.Update(crc32.Checksum(r.nonce[:], crcTable), crcTable, body)
}

var errJournalMagic = errors.New("not a journal of version 1")

// extent is what one frame holds: bytes of a file, from where they stood.
type extent struct {
	path string
	at   int64
	data []byte
}

// readJournal decodes one journal file; ok is false if it holds nothing. A
// frame that is cut off or fails its checksum ends it: nothing behind it was
// ever acted on.
func readJournal(raw []byte) (r journalRun, list []extent, ok bool, err error) {
	if len(raw) < journalHeader || [journalHeader]byte(raw) == [journalHeader]byte{} {
		return r, nil, false, nil
	}
	if string(raw[:len(journalMagic)]) != journalMagic {
		return r, nil, false, errJournalMagic
	}
	sum := journalHeader - 4
	if crc32.Checksum(raw[:sum], crcTable) != binary.BigEndian.Uint32(raw[sum:]) {
		return r, nil, false, nil // torn: what it was to replace is in place
	}
	r.number = binary.BigEndian.Uint64(raw[len(journalMagic):])
	copy(r.nonce[:], raw[len(journalMagic)+8:])
	for rest := raw[journalHeader:]; ; {
		body := nextFrame(rest, r.checksum)
		if body == nil {
			return r, list, true, nil
		}
		e, err := decodeExtent(body)
		if err != nil {
			return r, list, true, fmt.Errorf("at byte %d: %w", len(raw)-len(rest), err)
		}
		list = append(list, e)
		rest = rest[frameHeader+len(body):]
	}
}

var errExtent = errors.New("extent is malformed")

func decodeExtent(body []byte) (extent, error) {
	r := reader{src: body}
	e := extent{path: r.string(), at: r.int64()}
	if r.bad || len(r.src) == 0 || !filepath.IsLocal(e.path) {
		return extent{}, errExtent
	}
	e.data = r.src
	return e, nil
}

// loadJournal reads both files, in the order in which they were written.
func loadJournal(root string) ([]extent, error) {
	type run struct {
		number uint64
		list   []extent
	}
	var runs []run
	for i := range 2 {
		raw, err := os.ReadFile(filepath.Join(root, journalName(i)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		r, extents, ok, err := readJournal(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", journalName(i), err)
		}
		if ok {
			runs = append(runs, run{r.number, extents})
		}
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.number, b.number) })
	var list []extent
	for _, r := range runs {
		list = append(list, r.list...)
	}
	return list, nil
}
