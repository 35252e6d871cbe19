package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/trigger"
)

// chunkLines is how many lines of a batch are finished together. Each owner is asked once
// for all of them.
const chunkLines = 1024

// batchOf is one batch under way.
type batchOf struct {
	s      *batches
	r      *request
	async  bool
	chunks []*chunk
	open   *chunk        // the last chunk, while it takes lines
	window chan struct{} // one slot per unfinished chunk
}

// chunk is some lines of a batch.
type chunk struct {
	lines    []batchLine
	finished chan struct{} // closed when every line has its answer

	lacking int // lines that have room among the undecided
	bytes   int // of lines, in flight

	mu        sync.Mutex
	locations []location // location of each line that Kafka has acknowledged
	waiting   int        // lines without acknowledgement; one more while the chunk takes lines
	durable   chan struct{}
}

// batchLine is one line: refused at once, or a command.
type batchLine struct {
	n       int
	id      string // as the line has it
	command *command
	answer  []byte
	said    *BatchAnswer // what answer says, unless the line was refused
	audit   *auditEntry  // nil: it is not recorded
}

// take starts a line. Its command is written now, so that lines keep their order.
func (b *batchOf) take(text []byte, n int) {
	l := b.line(n)
	c, err := b.s.lineCommand(b.r, text, &l.id)
	if err == nil {
		err = b.s.rate.withinRate(b.r, c)
	}
	if err == nil {
		err = b.s.acts.refusalOfLine(b.r, c)
	}
	if err != nil {
		if id, was := b.s.auditor.trespass(b.r, err); was {
			b.s.acts.triedLine(b.r, id)
		}
		l.answer = b.s.refuseLine(l, err)
	} else {
		l = b.room(l)
		l = b.bytes(l, len(text))
		l.command = c
		b.open.lacking++
		b.open.write(b.r.Context(), b.s.commands, len(b.open.lines)-1)
	}
	if len(b.open.lines) == chunkLines {
		b.seal()
	}
}

// room waits until one more line may be undecided. What the chunk has is sealed
// meanwhile, else it would wait for itself; then the line goes into the next one.
func (b *batchOf) room(l *batchLine) *batchLine {
	tenant := b.r.who.Tenant
	if b.s.undecided.try(tenant) {
		return l
	}
	return b.afterSealed(l, func() {
		_ = b.s.undecided.wait(context.WithoutCancel(b.r.Context()), tenant) // this ctx does not end
	})
}

// bytes waits in the same way until n more bytes of lines may be without an answer.
func (b *batchOf) bytes(l *batchLine, n int) *batchLine {
	cost, tenant := b.s.inFlight.cost(n), b.r.who.Tenant
	if !b.s.inFlight.TakeN(tenant, cost) {
		l = b.afterSealed(l, func() {
			_ = b.s.inFlight.WaitN(context.WithoutCancel(b.r.Context()), tenant, cost) // few enough batches wait
		})
	}
	b.open.bytes += cost
	return l
}

// afterSealed seals what the chunk has before line l, waits, and opens a chunk with the line.
func (b *batchOf) afterSealed(l *batchLine, wait func()) *batchLine {
	moved := *l
	c := b.open
	c.mu.Lock()
	c.lines, c.locations = c.lines[:len(c.lines)-1], c.locations[:len(c.locations)-1]
	c.mu.Unlock()
	b.seal()
	wait()
	l = b.line(moved.n)
	*l = moved
	return l
}

// lineRoom is room for lines of all batches, in bytes, from when they are read until they have their answers. A
// tenant whose batches stop half-way keeps no other's out.
type lineRoom struct {
	*slots.Slots

	most int
}

func newLineRoom(most int64, shared bool) *lineRoom {
	return &lineRoom{slots.New(int(most), shared), int(most)}
}

// lineBytes is about what a line takes in memory beside its text: its command, and its answer.
const lineBytes = 1 << 10

// cost is what a line of so many bytes takes. One line always has room.
func (r *lineRoom) cost(text int) int { return min(text+lineBytes, r.most) }

// line is the next line, in an open chunk.
func (b *batchOf) line(n int) *batchLine {
	if b.open == nil {
		b.window <- struct{}{}
		b.open = &chunk{finished: make(chan struct{}), waiting: 1, durable: make(chan struct{})}
		b.chunks = append(b.chunks, b.open)
	}
	b.open.mu.Lock()
	b.open.locations = append(b.open.locations, location{err: errKafkaSilent})
	b.open.mu.Unlock()
	b.open.lines = append(b.open.lines, batchLine{n: n})
	return &b.open.lines[len(b.open.lines)-1]
}

// refuse ends a batch with a problem.
func (b *batchOf) refuse(n int, p *problem.Problem) {
	l := b.line(n)
	l.answer = b.s.refuseLine(l, p)
	b.seal()
}

// seal closes the open chunk, which finishes when its lines are durable and decided.
func (b *batchOf) seal() {
	c := b.open
	if c == nil {
		return
	}
	b.open = nil
	c.acknowledged()
	go func() {
		defer b.decided(c)
		defer func() { <-b.window }()
		defer close(c.finished)
		defer func() {
			if v := recover(); v != nil {
				c.refuseRest(b.s, fmt.Errorf("panic: %v", v))
			}
		}()
		c.finish(b.r, b.s, b.async)
	}()
}

// decided gives the room of a chunk's lines back.
func (b *batchOf) decided(c *chunk) {
	b.s.inFlight.ReleaseN(b.r.who.Tenant, c.bytes)
	awaited := !b.async && b.r.Context().Err() == nil
	b.s.undecided.release(b.r.who.Tenant, c.lacking, awaited, b.s.answerWithin, func(ctx context.Context) {
		c.decide(ctx, b.s.decider, c.known(), make([]*peer.Question, len(c.lines)))
	})
}

// known are the locations of its lines by now.
func (c *chunk) known() []location {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]location(nil), c.locations...)
}

// knownAfter are the locations of its lines by now. why says why those without an acknowledgement have
// none; it may still come.
func (c *chunk) knownAfter(why error) []location {
	locations := c.known()
	for i := range locations {
		if why != nil && errors.Is(locations[i].err, errKafkaSilent) {
			locations[i].err = why
		}
	}
	return locations
}

// write begins to write the command of line i.
func (c *chunk) write(ctx context.Context, commands *commandLog, i int) {
	c.mu.Lock()
	c.waiting++
	c.mu.Unlock()
	commands.send(ctx, c.lines[i].command, func(at location) {
		c.mu.Lock()
		c.locations[i] = at
		c.mu.Unlock()
		c.acknowledged()
	})
}

// acknowledged counts an acknowledged line.
func (c *chunk) acknowledged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		close(c.durable)
	}
}

// finish waits until the lines are durable and decided, and builds the answers.
func (c *chunk) finish(r *request, s *batches, async bool) {
	_, late := acknowledged(s.commands, c.durable)
	locations := c.knownAfter(late)
	ctx, cancel := context.WithTimeout(r.Context(), s.answerWithin)
	defer cancel()
	decided := make([]*peer.Question, len(c.lines))
	if !async {
		c.decide(ctx, s.decider, locations, decided)
	}
	for i := range c.lines {
		if l := &c.lines[i]; l.command != nil {
			l.finish(ctx, s, r, locations[i].err, decided[i])
			l.command = &command{key: l.command.key} // the rest of it would stay until the batch ends
		}
	}
	c.awaitAudit(s.acts.log)
}

// awaitAudit waits until the lines are on record. Else their answers say that they are not.
func (c *chunk) awaitAudit(log *auditLog) {
	var must []*auditEntry
	for i := range c.lines {
		if e := c.lines[i].audit; e != nil && e.weight == auditMust {
			must = append(must, e)
		}
	}
	if len(must) == 0 || log.await(must...) == nil {
		return
	}
	for i := range c.lines {
		if l := &c.lines[i]; l.said != nil && l.audit != nil && l.audit.weight == auditMust {
			l.said.Notes = append(l.said.Notes, "this is not on the audit topic now")
			l.answer = spell(l.said)
		}
	}
}

// decide asks the owner of each partition once.
func (c *chunk) decide(ctx context.Context, d *decider, locations []location, decided []*peer.Question) {
	lists := map[int32][]peer.Question{}
	index := map[int32][]int{} // line of each question
	for i := range c.lines {
		if at := locations[i]; c.lines[i].command != nil && at.err == nil {
			lists[at.partition] = append(lists[at.partition],
				peer.Question{Key: c.lines[i].command.key, Offset: at.offset})
			index[at.partition] = append(index[at.partition], i)
		}
	}
	var all sync.WaitGroup
	for partition, list := range lists {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					d.log.Error("asking for decisions panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				}
			}()
			d.decisions(ctx, partition, list)
		})
	}
	all.Wait()
	for partition, list := range lists {
		for j := range list {
			decided[index[partition][j]] = &list[j]
		}
	}
}

// finish builds the answer of one line; a is nil if no owner was asked.
func (l *batchLine) finish(ctx context.Context, s *batches, r *request, failed error, a *peer.Question) {
	answer, err := l.word(ctx, s, failed, a)
	if err != nil {
		_, trespass := s.auditor.trespass(r, err)
		l.answer = s.refuseLine(l, err)
		l.audit = s.acts.line(r, l.command, problem.Of(err).Status, trespass)
		return
	}
	l.said, l.answer = answer, spell(answer)
	l.audit = s.acts.line(r, l.command, answer.Status, false)
}

func (l *batchLine) word(ctx context.Context, s *batches, failed error, a *peer.Question) (*BatchAnswer, error) {
	c := l.command
	if failed != nil {
		return nil, notWritten(failed).About(c.id)
	}
	accepted := &BatchAnswer{ID: c.id, Status: http.StatusAccepted, TriggerID: c.id}
	if a == nil {
		return accepted, nil
	}
	v, err := s.decider.judge(ctx, c, a)
	if err != nil || !v.decided {
		return accepted, err
	}
	if p := problemOfChange(c, v); p != nil {
		return nil, p
	}
	if c.op == trigger.OpRegister {
		is := registered(c, &v)
		return &BatchAnswer{c.id, v.statusOfRegister(), c.id, is.State, is.FireAt, is.Revision, is.Notes}, nil
	}
	is := changed(c, &v)
	return &BatchAnswer{c.id, http.StatusOK, c.id, is.State, is.FireAt, is.Revision, is.Notes}, nil
}

// refuseLine is the answer to a refused line.
func (s *batches) refuseLine(l *batchLine, err error) []byte {
	p := *problem.Of(err)
	if p.Status == http.StatusInternalServerError {
		s.log.Error("line of a batch failed", "error", p.Unwrap())
	}
	p.ID, p.Line = l.id, l.n
	return spell(&p)
}

// refuseRest answers the lines that have no answer yet.
func (c *chunk) refuseRest(s *batches, err error) {
	for i := range c.lines {
		if l := &c.lines[i]; l.answer == nil {
			l.answer = s.refuseLine(l, err)
		}
	}
}

// spell encodes one line of the answer.
func spell(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("answer cannot be encoded: %v", err)) // a struct of our own always encodes
	}
	return problem.ShowHidden(b)
}
