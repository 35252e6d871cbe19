package loadtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// lean is a minimal HTTP/1.1 client with one connection. The server shares the machine, so the
// cost of net/http's client would show in the figures.
type lean struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
}

func dialLean(host string) (*lean, error) {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	return &lean{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), host: host}, nil
}

// answerWithin is longer than every timeout of the server, including a batch's.
const answerWithin = 4 * time.Minute

// do sends a request and returns the status. It discards the body, unless keep is given.
func (l *lean) do(method, path string, body []byte, keep *bytes.Buffer) (status int, err error) {
	l.out = append(append(append(append(append(l.out[:0], method...), ' '), path...), " HTTP/1.1\r\nHost: "...),
		l.host...)
	if body != nil {
		l.out = append(l.out, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		l.out = strconv.AppendInt(l.out, int64(len(body)), 10)
	}
	l.out = append(append(l.out, "\r\n\r\n"...), body...)
	_ = l.conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err := l.conn.Write(l.out); err != nil {
		return 0, err
	}
	return l.answer(keep)
}

func (l *lean) answer(keep *bytes.Buffer) (status int, err error) {
	line, err := l.line()
	if err != nil || len(line) < 12 {
		return 0, fmt.Errorf("status line %q: %w", line, err)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length, chunked := 0, false
	for {
		if line, err = l.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	for {
		if chunked {
			if line, err = l.line(); err != nil {
				return 0, err
			}
			n, err := strconv.ParseInt(string(line), 16, 32)
			if err != nil {
				return 0, err
			}
			length = int(n)
		}
		if err := l.take(length, keep); err != nil {
			return 0, err
		}
		if !chunked {
			return status, nil
		}
		if _, err := l.line(); err != nil || length == 0 {
			return status, err
		}
	}
}

func (l *lean) take(n int, keep *bytes.Buffer) error {
	if keep != nil {
		_, err := io.CopyN(keep, l.in, int64(n))
		return err
	}
	_, err := l.in.Discard(n)
	return err
}

func (l *lean) line() ([]byte, error) {
	b, err := l.in.ReadSlice('\n')
	return bytes.TrimRight(b, "\r\n"), err
}
