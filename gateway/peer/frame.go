package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A page travels between instances as
//
//	┌───┬─────────┬─────┬───────────┬───────┐
//	│ 1 │ due     │ key │ state     │ item, repeated
//	├───┼─────────┼─────┼───────────┘
//	│ 0 │ due     │ key │ more │ visited │ spent │   end: Through, More, Visited and Spent
//	└───┴─────────┴─────┴──────┴─────────┴───────┘
//
// numbers as varints, key and state with their length before them, a state as
// topics.AppendState writes it. A stream without its end is an error.

// maxFrameText bounds a key or a state that another instance sends.
const maxFrameText = 4 << 20

func writePage(w io.Writer, p *Page) error {
	var b []byte
	for i := range p.Items {
		f := &p.Items[i]
		state, err := topics.AppendState(nil, f.State)
		if err != nil {
			return err
		}
		b = f.At.AppendTo(append(b[:0], 1))
		b = binary.AppendUvarint(b, uint64(len(state)))
		if _, err := w.Write(append(b, state...)); err != nil {
			return err
		}
	}
	more := byte(0)
	if p.More {
		more = 1
	}
	b = binary.AppendUvarint(append(p.Through.AppendTo(append(b[:0], 0)), more), uint64(p.Visited))
	_, err := w.Write(binary.AppendUvarint(b, uint64(p.Spent)))
	return err
}

// AppendTo spells a cursor: its due time, and its key with the length before it.
func (c UserCursor) AppendTo(b []byte) []byte {
	b = binary.AppendVarint(b, int64(c.Due))
	b = binary.AppendUvarint(b, uint64(len(c.Key)))
	return append(b, c.Key...)
}

// readPage reads a page; taken hears of each item's bytes.
func readPage(from io.Reader, taken func(*trigger.State)) (Page, error) {
	r := bufio.NewReader(from)
	var p Page
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return Page{}, fmt.Errorf("read page: %w", noEOF(err))
		}
		at, err := readCursor(r)
		if err != nil {
			return Page{}, fmt.Errorf("read page: %w", err)
		}
		if kind == 0 {
			more, err := r.ReadByte()
			if err != nil {
				return Page{}, noEOF(err)
			}
			p.Through, p.More = at, more != 0
			if n, err := binary.ReadUvarint(r); err == nil { // an instance of before does not say
				p.Visited = int64(n)
			}
			if n, err := binary.ReadUvarint(r); err == nil { // nor this
				p.Spent = time.Duration(n)
			}
			return p, nil
		}
		value, err := readText(r)
		if err != nil {
			return Page{}, fmt.Errorf("read page: %w", err)
		}
		s, err := topics.DecodeState(at.Key, value)
		if err != nil {
			return Page{}, fmt.Errorf("read page: %w", err)
		}
		p.Items = append(p.Items, Found{at, s})
		if taken != nil {
			taken(s)
		}
	}
}

func readCursor(r *bufio.Reader) (UserCursor, error) {
	due, err := binary.ReadVarint(r)
	if err != nil {
		return UserCursor{}, noEOF(err)
	}
	key, err := readText(r)
	return UserCursor{trigger.Instant(due), trigger.Key(key)}, err
}

func readText(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, noEOF(err)
	}
	if n > maxFrameText {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, noEOF(err)
}

// noEOF makes an end where something must follow an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
