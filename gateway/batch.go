package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/trigger"
)

// maxBatch bounds the lines of a batch.
const maxBatch = peer.MaxQuestions

// batchWithin bounds the time of a whole batch, maxBatchBytes its size. Lines wait in
// memory for their decisions.
const (
	batchWithin   = 2 * time.Minute
	maxBatchBytes = 64 << 20
)

// batches takes batches of commands.
type batches struct {
	admits  admits
	acts    *acts
	bodies  *bodies
	encoder *encoder
	rate    *writeRate

	answerWithin time.Duration
	atOnce       int // how many lines of a batch wait for their decision
	auditor      *auditor
	commands     *commandLog
	decider      *decider
	log          *slog.Logger
	slots        *slots.Slots // one for each batch under way
	undecided    *undecided   // lines that wait; nil without log-in
	inFlight     *lineRoom    // bytes of lines without an answer
}

// postBatch applies commands, one JSON object per line, and answers one line each, in the
// same order. Commands are written in that order too, and their decisions are asked for
// chunk by chunk (batch_chunk.go). A refused line is a problem with the line's id; the
// other lines go on.
//
// Answers wait until the request is read to its end. Otherwise a caller that sends
// everything before it reads would block, and so would we.
func (s *batches) postBatch(w http.ResponseWriter, r *request) error {
	if err := encoded(w, r); err != nil {
		return err
	}
	if !s.slots.Take(r.who.Tenant) {
		return problem.Unavailable(nil, "too many batches are under way")
	}
	defer s.slots.Release(r.who.Tenant)
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(batchWithin + responseWithin))
	body := http.MaxBytesReader(w, r.Body, max(maxBatchBytes, 64*s.bodies.maxBody()))
	chunks, err := s.batch(r, s.bodies.steadily(w, body, batchWithin))
	if err != nil {
		return err
	}
	if wantsAsync(r.Request) {
		applied(w)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 64<<10)
	for _, c := range chunks {
		<-c.finished
		for i := range c.lines {
			_, _ = out.Write(c.lines[i].answer)
			_ = out.WriteByte('\n')
		}
	}
	_ = out.Flush() // an error means that the caller is gone
	return nil
}

// batch starts every line and returns the chunks that will hold the answers.
func (s *batches) batch(r *request, from io.Reader) ([]*chunk, error) {
	plain := *r // a line has neither the request's conditions nor its trace: there may be 10,000
	plain.span = tracing.Span{}
	plain.Request = r.Clone(r.Context())
	plain.Header = http.Header{}
	b := &batchOf{
		s: s, r: &plain, async: wantsAsync(r.Request),
		window: make(chan struct{}, max(1, s.atOnce/chunkLines)),
	}
	lines := bufio.NewReaderSize(from, int(s.bodies.maxBody()))
	ctx, stop := s.admits.during(r)
	defer stop()
	n, taken := 0, 0
	for {
		text, err := lines.ReadSlice('\n')
		_, large := errors.AsType[*http.MaxBytesError](err)
		switch n++; {
		case large:
			b.refuse(n, problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "",
				"the batch is too large; this line and the rest were not read: send several batches"))
			return b.chunks, nil
		case errors.Is(err, bufio.ErrBufferFull):
			b.refuse(n, problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "",
				fmt.Sprintf("the line has over %d bytes; this line and the rest were not read", s.bodies.maxBody())))
			return b.chunks, nil
		case err != nil && err != io.EOF:
			b.seal()
			return nil,
				s.bodies.bodyEnded(err, "the body ended before it was complete; the lines read were applied, and "+
					"repeating them under their ids is safe")
		}
		if p := withdrawn(ctx); p != nil { // this line and the rest are not applied
			b.refuse(n, p)
			return b.chunks, nil
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if taken++; taken > maxBatch {
				b.refuse(n, problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "",
					fmt.Sprintf("a batch has at most %d lines; this line and the rest were not read", maxBatch)))
				return b.chunks, nil
			}
			b.take(text, n)
		}
		if err == io.EOF {
			b.seal()
			return b.chunks, nil
		}
		if lines.Buffered() == 0 { // the caller pauses: finish what is here
			b.seal()
		}
	}
}

// BatchAnswer is the answer to a line that was not refused.
type BatchAnswer struct {
	ID        string `json:"id"`
	Status    int    `json:"status" enum:"200,201,202"`
	TriggerID string `json:"trigger_id"`
	State     string `json:"state,omitempty" doc:"Of a register only if it is a repeat and the trigger will not fire"`
	FireAt    string `json:"fire_at,omitempty" format:"date-time"`
	Revision  int64  `json:"revision,omitempty"`

	Notes []string `json:"notes,omitempty" doc:"Notes on this write"`
}

// lineCommand reads one line: a register, or with op another command, of the
// trigger id names.
func (s *batches) lineCommand(r *request, b []byte, id *string) (*command, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return nil,
			problem.Malformed("this is not a JSON object: send one JSON object per line (NDJSON), with nothing " +
				"around or between them")
	}
	fs, err := parseFields(b)
	if err != nil {
		return nil, err
	}
	if i := fs.index("id"); i >= 0 && fs[i].value.Kind() == '"' {
		if text, _ := jsontext.AppendUnquote(nil, fs[i].value); len(text) <= trigger.MaxKeyBytes { // else it is none
			*id = string(text)
		}
	}
	name, err := fs.takeText("op")
	if err != nil {
		return nil, err
	}
	if name == "" || name == trigger.OpRegister.String() {
		target, err := registerID(r, &fs)
		if err != nil {
			return nil, err
		}
		return s.encoder.command(r, trigger.OpRegister, target, fs)
	}
	op, ok := trigger.ParseOp(name)
	if !ok || op == trigger.OpRedrive || op == trigger.OpErase {
		return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownOp, "op",
			printable.Quoted(name)+" is not an op of a batch: register, cancel, reschedule, snooze, skip, pause, "+
				"resume, "+
				"run_now, rezone or ack")
	}
	target, err := fs.takeText("id")
	if err != nil {
		return nil, err
	}
	if target == "" {
		return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "id",
			name+" needs the id of a trigger")
	}
	return s.encoder.command(r, op, target, fs)
}
