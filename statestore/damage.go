package statestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkFiles detects two kinds of damage that Pebble v2.1.7 does not notice. Either would
// silently lose batches on which newer ones depend. TestFlippedBits found both.
func checkFiles(fsys vfs.FS, dir string) error {
	desc, err := pebble.Peek(dir, fsys)
	if err != nil || !desc.Exists || desc.ManifestFilename == "" {
		return err
	}
	if err := checkFile(fsys, desc.ManifestFilename, damagedChunk); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		var number uint32
		if n, err := fmt.Sscanf(name, "%d.log", &number); n != 1 || err != nil {
			continue
		}
		if err := checkFile(fsys, fsys.PathJoin(dir, name), func(b []byte) int {
			return falseTrailer(b,
				number)
		}); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(fsys vfs.FS, name string, damaged func([]byte) int) error {
	b, err := readAll(fsys, name)
	if err != nil {
		return err
	}
	if at := damaged(b); at >= 0 {
		return corrupt("%s is damaged at byte %d", name, at)
	}
	return nil
}

func readAll(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// Pebble cuts records into chunks. No chunk crosses a block of 32 KiB. If the rest of a block is
// too short for a header, it is zero (pebble/record, legacy format).
//
//	┌────────────────┬────────────┬────────┬──────┐
//	│ checksum 4, LE │ length, 2  │ type 1 │ data │
//	└────────────────┴────────────┴────────┴──────┘
const (
	chunkBlock  = 32 << 10
	chunkHeader = 7
	lastType    = 4 // full, first, middle, last
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// damagedChunk returns the offset of the first damaged chunk in the manifest, or -1. A torn end
// is not damage. Pebble takes the first record with a wrong checksum for the torn end, wherever
// it is (version_set.go, load), and ignores the sorted files that later records name. Here only
// an end that is cut short, or zero, counts as torn.
func damagedChunk(b []byte) int {
	for at := 0; at < len(b); {
		blockEnd := min((at/chunkBlock+1)*chunkBlock, len(b))
		if blockEnd-at < chunkHeader {
			at = blockEnd
			continue
		}
		end := at + chunkHeader + int(binary.LittleEndian.Uint16(b[at+4:]))
		if zero(b[at:]) {
			return -1
		}
		if end > len(b) && end <= (at/chunkBlock+1)*chunkBlock && torn(b[at:]) {
			return -1
		}
		if end > blockEnd || !rightChunk(b[at:end]) {
			return at
		}
		at = end
	}
	return -1
}

// torn reports whether c, whose length field reaches beyond the file, was really cut short. If a
// valid chunk follows, it was not. If the checksum fits the bytes that are there, it was not
// either: only the length is wrong, which the checksum does not cover.
func torn(c []byte) bool {
	if c[6] < 1 || c[6] > lastType || rightChunk(c) {
		return false
	}
	for at := 1; at+chunkHeader <= len(c); at++ {
		end := at + chunkHeader + int(binary.LittleEndian.Uint16(c[at+4:]))
		if end <= len(c) && c[at+6] >= 1 && c[at+6] <= lastType && rightChunk(c[at:end]) {
			return false
		}
	}
	return true
}

// rightChunk verifies the checksum of a chunk. c ends where the chunk's data ends.
func rightChunk(c []byte) bool {
	sum := crc32.Checksum(c[6:], castagnoli)
	masked := (sum>>15 | sum<<17) + 0xa282ead8
	return masked == binary.LittleEndian.Uint32(c)
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// falseTrailer returns the offset of a data chunk that looks like the trailer of a closed log, or
// -1. number is the log's number. Pebble recognises a trailer by a log number that is too high by
// one, and it trusts that number before any checksum (record.go, nextChunk). So one flipped bit
// in a log with an even number makes it end cleanly too early.
//
//	┌────────────────┬────────────┬────────┬──────────────┬─────────────────────┬──────┐
//	│ checksum 4, LE │ length, 2  │ type 1 │ log number 4 │ synced 8, types 9-12 │ data │
//	└────────────────┴────────────┴────────┴──────────────┴─────────────────────┴──────┘
func falseTrailer(b []byte, number uint32) int {
	for at := 0; at < len(b); {
		blockEnd := min((at/chunkBlock+1)*chunkBlock, len(b))
		header := logHeader(b[at:blockEnd])
		if header == 0 {
			at = blockEnd // the rest is too short, or Pebble checks it
			continue
		}
		length := int(binary.LittleEndian.Uint16(b[at+4:]))
		switch binary.LittleEndian.Uint32(b[at+7:]) {
		case number:
			at += header + length
		case number + 1:
			if length != 0 || binary.LittleEndian.Uint32(b[at:]) != 0 {
				return at
			}
			return -1
		default: // a rest of an earlier use of the file
			return -1
		}
	}
	return -1
}

// logHeader returns the length of the chunk header at the start of b, or 0 if there is none.
func logHeader(b []byte) int {
	switch {
	case len(b) >= 11 && b[6] >= 5 && b[6] <= 8:
		return 11
	case len(b) >= 19 && b[6] >= 9 && b[6] <= 12:
		return 19
	}
	return 0
}
