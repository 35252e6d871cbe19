package pipelinetest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a connection through a gate: a proxy that knows what each answer
// answers. Kafka answers a connection's requests in their order, so one answer
// can be late only with those behind it; those of other connections overtake it.
type conn struct {
	net.Conn
	g      *gate
	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	asked    map[int32]asked // by correlation id
	deadline time.Time       // of reads

	rest []byte // of the answer that is being read; the reader's alone
}

// asked is a request under way, and what will happen to its answer.
type asked struct {
	key     kmsg.Key
	version int16
	late    time.Duration
	lost    bool
}

// A request begins with its length (4), key (2), version (2) and correlation id
// (4); an answer with its length (4) and correlation id (4).
const (
	requestHead = 12
	answerHead  = 8
)

// answersTake is how long writes and fetches take at least. kgo goes to the leader
// that an answer names (KIP-951) without a pause, once its metadata request has
// been answered, and asks the old leader again until then: were all that no time
// at all, it would ask for ever, and no clock would move.
const answersTake = time.Millisecond

// Write sends a request, which kgo writes in one piece.
func (c *conn) Write(b []byte) (int, error) {
	out := b
	if len(b) >= requestHead {
		key := kmsg.Key(binary.BigEndian.Uint16(b[4:]))
		if err := c.holdHeartbeat(key); err != nil {
			return 0, err
		}
		a := asked{key: key, version: int16(binary.BigEndian.Uint16(b[6:]))}
		if a.late, a.lost = c.g.fate(key); key == kmsg.Produce || key == kmsg.Fetch {
			a.late = max(a.late, answersTake)
		}
		c.mu.Lock()
		c.asked[int32(binary.BigEndian.Uint32(b[8:]))] = a
		c.mu.Unlock()
		if cut := c.g.cut.Load(); cut != nil {
			out = cut.request(a, b)
		}
	}
	if err := c.g.pass(c.closed); err != nil {
		return 0, err
	}
	if n, err := c.Conn.Write(out); err != nil {
		return min(n, len(b)), err
	}
	return len(b), nil
}

// holdHeartbeat waits while heartbeats are held back.
func (c *conn) holdHeartbeat(key kmsg.Key) error {
	if key != kmsg.Heartbeat && key != kmsg.ConsumerGroupHeartbeat {
		return nil
	}
	if muted := c.g.held(); muted != nil {
		select {
		case <-muted:
		case <-c.closed:
			return errGone
		}
	}
	return nil
}

// Read gives the bytes of answers.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// next waits for an answer, and lets happen to it what must.
func (c *conn) next() error {
	var head [answerHead]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return err
	}
	answer := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
	copy(answer, head[:])
	if _, err := io.ReadFull(c.Conn, answer[answerHead:]); err != nil {
		return err
	}
	a := c.answered(int32(binary.BigEndian.Uint32(head[4:])))
	if err := c.wait(a.late); err != nil {
		return err
	}
	if a.lost {
		c.Close()
		return io.EOF
	}
	if cut := c.g.cut.Load(); cut != nil {
		answer = cut.answer(a, answer)
	}
	c.rest = answer
	return c.g.pass(c.closed)
}

func (c *conn) answered(id int32) asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.asked[id]
	delete(c.asked, id)
	return a
}

// wait lets an answer be late, and ends with the read deadline.
func (c *conn) wait(late time.Duration) error {
	if late <= 0 {
		return nil
	}
	c.mu.Lock()
	left := time.Until(c.deadline)
	if c.deadline.IsZero() {
		left = late
	}
	c.mu.Unlock()
	select {
	case <-time.After(min(late, max(left, 0))):
	case <-c.closed:
		return errGone
	}
	if left < late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// SetReadDeadline keeps the read deadline, which counts for late answers, too.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline is SetReadDeadline, and the same for writes.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.g.mu.Lock()
	delete(c.g.conns, c.Conn)
	c.g.mu.Unlock()
	return c.Conn.Close()
}
