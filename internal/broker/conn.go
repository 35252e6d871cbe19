package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// listener hands kfake connections that speak through us.
type listener struct {
	net.Listener
	b *node
}

func (l listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.b.ready()
		c := &conn{Conn: nc, b: l.b}
		_, c.inner = nc.(innerDoor)
		if l.b.conns.add(c) {
			return c, nil
		}
		nc.Close()
	}
}

// conn sees each request whole before kfake does, and each answer whole
// before the client does. kfake reads a frame by two reads, its length and
// its body, and writes an answer by one write. Anything else is an error.
//
// kfake reads one request ahead, but handles a connection's requests one at a
// time and answers in order.
type conn struct {
	net.Conn
	b     *node
	inner bool // of a client in this process

	body  int    // length of the body to come; 0 between frames
	early []byte // what of it is there, of a long one

	mu    sync.Mutex
	calls []*call // read and not answered, oldest first
	ahead *call   // of these, the one that kfake has read and may not have turned to: it reads no further before
	idle  *sync.Cond
	queue []answer
	bytes int // in queue
	dead  error
}

// call is a request on its way.
type call struct {
	key     int16
	version int16
	corr    int32
	produce *produceCall
	end     *kmsg.EndTxnRequest
	init    *kmsg.InitProducerIDRequest
	offsets *kmsg.TxnOffsetCommitRequest
	join    *kmsg.JoinGroupRequest
	txns    []inEpoch // what it adds to
	silent  bool      // acks=0: the client expects no answer
	writes  []target  // what must be durable before it is answered
}

// forget drops what was kept for kfake's turn to the call.
func (cl *call) forget(b *node) {
	if cl.produce != nil {
		b.tickets.take(cl.produce.ticket)
	}
}

// answer is a response that waits for the disk.
type answer struct {
	frame []byte
	after *round
}

const (
	maxQueueBytes  = 8 << 20
	maxQueueFrames = 256
)

var (
	errFrame   = errors.New("request is not of the Kafka protocol")
	errTooLong = errors.New("request is too long")
)

func (c *conn) Read(p []byte) (int, error) {
	if c.body == 0 {
		return c.readSize(p)
	}
	if len(p) < c.body {
		return 0, fmt.Errorf("read %d bytes of a request of %d: kfake frames otherwise than we know", len(p), c.body)
	}
	body := p[:c.body]
	c.body = 0
	n, err := c.readBody(body)
	if err != nil {
		return n, err
	}
	if err := c.request(body); err != nil {
		return 0, err // io.ReadFull forgets the error of a full read
	}
	return n, nil
}

const (
	// frameWithin bounds how long a request may take to come once its length is
	// known.
	frameWithin = 30 * time.Second
	// eagerBytes is the longest request that kfake makes room for before it is
	// there. Of longer ones we take room as they come: a length is only a claim.
	eagerBytes = 64 << 10
)

// readBody reads a request whole, within frameWithin of its length.
func (c *conn) readBody(body []byte) (int, error) {
	n := copy(body, c.early)
	c.b.early.put(c.early)
	c.early = nil
	if n < len(body) {
		m, err := io.ReadFull(c.Conn, body[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, c.SetReadDeadline(time.Time{})
}

// readEarly reads a long request before there is room for all of it.
func (c *conn) readEarly(size int) error {
	c.early = c.b.early.get()
	for len(c.early) < size {
		have := len(c.early)
		more := min(size-have, max(have, eagerBytes))
		c.early = slices.Grow(c.early, more)[:have+more]
		if _, err := io.ReadFull(c.Conn, c.early[have:]); err != nil {
			return err
		}
	}
	return nil
}

// buffers keeps the memory of long requests for the next ones: a producer that is busy sends nothing else.
type buffers struct{ pool sync.Pool }

// maxKeptBuffer is the largest buffer that is kept.
const maxKeptBuffer = 1 << 20

func (s *buffers) get() []byte {
	if b, ok := s.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

func (s *buffers) put(b []byte) {
	if n := cap(b); n > 0 && n <= maxKeptBuffer {
		s.pool.Put(&b)
	}
}

func (c *conn) readSize(p []byte) (int, error) {
	if len(p) != 4 {
		return 0, fmt.Errorf("read %d bytes of a length of 4: kfake frames otherwise than we know", len(p))
	}
	c.mu.Lock()
	c.ahead = nil
	c.mu.Unlock()
	n, err := c.await(p)
	if err != nil {
		return n, err
	}
	switch size := binary.BigEndian.Uint32(p); {
	case size < 8:
		return 0, errFrame
	case uint64(size) > uint64(c.b.opts.MaxRequestBytes):
		return 0, errTooLong
	default:
		c.body = int(size)
	}
	if err := c.SetReadDeadline(time.Now().Add(frameWithin)); err != nil {
		return 0, err
	}
	if c.body > eagerBytes {
		if err := c.readEarly(c.body); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// await reads the length of the next request. Over the network it must begin within the idle timeout, but
// for as long as others wait for their answers.
func (c *conn) await(p []byte) (int, error) {
	idle := c.b.opts.IdleTimeout
	if c.inner || idle < 0 {
		return io.ReadFull(c.Conn, p)
	}
	for {
		if err := c.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return 0, err
		}
		n, err := io.ReadFull(c.Conn, p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !c.busy() {
			return n, err
		}
	}
}

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)+len(c.queue) > 0
}

// request looks at a request before kfake does. It may change it in place,
// keeping its length, and may wait.
func (c *conn) request(body []byte) error {
	r := kbin.Reader{Src: body}
	cl := &call{key: r.Int16(), version: r.Int16(), corr: r.Int32()}
	r.NullableString() // client id
	req := kmsg.RequestForKey(cl.key)
	if req == nil {
		return errFrame
	}
	req.SetVersion(cl.version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	known := cl.version >= 0 && cl.version <= req.MaxVersion() || cl.key == int16(kmsg.ApiVersions)
	if !r.Ok() || !known {
		return errFrame // kfake hangs up too, but our hooks see it before
	}
	if err := c.b.inspect(c, cl, req, body, r.Src); err != nil {
		return err
	}
	if c.inner {
		cl.txns = nil // a client in this process does not outlive a power cut, so it does not wait for vouch
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil {
		cl.forget(c.b)
		return c.dead
	}
	c.calls = append(c.calls, cl)
	c.ahead = cl
	return nil
}

// drained waits until every request before this one is answered.
func (c *conn) drained() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = sync.NewCond(&c.mu)
	}
	for len(c.calls) > 0 && c.dead == nil {
		c.idle.Wait()
	}
	return c.dead
}

// Write takes one answer of kfake's.
func (c *conn) Write(frame []byte) (int, error) {
	n := len(frame)
	cl, err := c.answered(frame)
	if err != nil {
		return 0, err
	}
	frame, after := c.b.respond(cl, frame)
	if err := c.b.failure(); err != nil {
		c.Close()
		return 0, err // it may tell of what was not written
	}
	if cl.silent {
		frame = nil
	}
	if err := c.send(frame, after); err != nil {
		return 0, err
	}
	return n, nil
}

func (c *conn) answered(frame []byte) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil {
		return nil, c.dead
	}
	if len(c.calls) == 0 || len(frame) < 8 || int32(binary.BigEndian.Uint32(frame[4:])) != c.calls[0].corr {
		return nil, errors.New("answer without its request: kfake answers otherwise than we know")
	}
	cl := c.calls[0]
	c.calls = c.calls[1:]
	if c.idle != nil {
		c.idle.Broadcast()
	}
	return cl, nil
}

// send writes the frame at once if nothing holds it back, and queues it
// otherwise, so that kfake can take the connection's next request.
func (c *conn) send(frame []byte, after *round) error {
	c.mu.Lock()
	if len(c.queue) == 0 && after == nil {
		c.mu.Unlock() // only kfake's writer sends, so nobody overtakes
		_, err := c.Conn.Write(frame)
		return err
	}
	if c.idle == nil {
		c.idle = sync.NewCond(&c.mu)
	}
	for c.dead == nil && len(c.queue) > 0 && (c.bytes+len(frame) > maxQueueBytes || len(c.queue) >= maxQueueFrames) {
		c.idle.Wait()
	}
	defer c.mu.Unlock()
	if c.dead != nil {
		return c.dead
	}
	c.bytes += len(frame)
	c.queue = append(c.queue, answer{append([]byte(nil), frame...), after})
	if len(c.queue) == 1 {
		go c.drain()
	}
	return nil
}

// drain writes the queue, in order, until it is empty.
func (c *conn) drain() {
	for {
		c.mu.Lock()
		a, dead := c.queue[0], c.dead
		c.mu.Unlock()
		if dead != nil {
			return
		}
		if err := a.release(c.Conn); err != nil {
			c.Close()
			return
		}
		c.mu.Lock()
		c.queue[0] = answer{}
		c.queue = c.queue[1:]
		c.bytes -= len(a.frame)
		left := len(c.queue)
		if c.idle != nil {
			c.idle.Broadcast()
		}
		c.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

func (a answer) release(w io.Writer) error {
	if a.after != nil {
		<-a.after.done
		if a.after.err != nil {
			return a.after.err
		}
	}
	if len(a.frame) == 0 {
		return nil
	}
	_, err := w.Write(a.frame)
	return err
}

func (c *conn) Close() error {
	c.mu.Lock()
	if c.dead == nil {
		c.dead = net.ErrClosed
	}
	if c.idle != nil {
		c.idle.Broadcast()
	}
	if c.ahead != nil {
		c.ahead.forget(c.b) // kfake turns to all the others
		c.ahead = nil
	}
	for _, cl := range c.calls {
		if cl.join != nil {
			c.b.loseMember(cl.join)
		}
	}
	c.calls = nil // Close is called more than once
	c.mu.Unlock()
	c.b.conns.remove(c)
	return c.Conn.Close()
}

// conns are the open connections.
type conns struct {
	mu    sync.Mutex
	max   int // of those over the network; -1: no bound
	outer int
	shut  bool
	set   map[*conn]struct{}
}

func (s *conns) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || !c.inner && s.max >= 0 && s.outer >= s.max {
		return false
	}
	s.set[c] = struct{}{}
	s.count(c, 1)
	return true
}

func (s *conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.set[c]; ok { // a connection is closed more than once
		delete(s.set, c)
		s.count(c, -1)
	}
}

func (s *conns) count(c *conn, n int) {
	if !c.inner {
		s.outer += n
	}
}

// closeAll closes every connection, and every later one.
func (s *conns) closeAll() {
	s.mu.Lock()
	s.shut = true
	open := make([]*conn, 0, len(s.set))
	for c := range s.set {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}
