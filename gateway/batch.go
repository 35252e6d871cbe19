package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// maxBatch bounds the lines of a batch.
const maxBatch = 10_000

// batchWithin bounds a whole batch in time, maxBatchBytes in size: lines wait
// in memory for their decisions.
const (
	batchWithin   = 2 * time.Minute
	maxBatchBytes = 64 << 20
)

// postBatch obeys commands, a JSON object a line, and answers a line each in
// the order they came. They are written in that order too; how many wait for
// their decision at a time is bounded. A refused line is a problem with the
// line's id, and disturbs no other.
//
// Answers are held back until the request is read to its end: a caller that
// sends all before it reads would else stand still, and so would we.
func (s *Server) postBatch(w http.ResponseWriter, r *request) error {
	select {
	case s.batches <- struct{}{}:
		defer func() { <-s.batches }()
	default:
		return unavailable(nil, fmt.Sprintf("%d batches are under way, which is the bound here", cap(s.batches)))
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(batchWithin))
	_ = control.SetWriteDeadline(time.Now().Add(batchWithin + responseWithin))
	answers, err := s.batch(r, http.MaxBytesReader(w, r.Body, max(maxBatchBytes, 64*s.maxBody())))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 64<<10)
	for _, a := range answers {
		_, _ = out.Write(<-a)
		_ = out.WriteByte('\n')
	}
	return out.Flush()
}

// batch begins every line and returns where their answers will come.
func (s *Server) batch(r *request, from io.Reader) ([]<-chan []byte, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), int(s.maxBody()))
	window := make(chan struct{}, s.opts.BatchAtOnce)
	var answers []<-chan []byte
	n := 0
	for lines.Scan() {
		if n++; len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if len(answers) == maxBatch {
			p := problem(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", fmt.Sprintf("a batch has at most %d lines; this and what follows was not read", maxBatch))
			p.Line = n
			return append(answers, ready(spell(p))), nil
		}
		window <- struct{}{}
		answers = append(answers, s.line(r, bytes.Clone(lines.Bytes()), n, window))
	}
	err := lines.Err()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		p := problem(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", "the batch is too large; this line and what follows was not read: send it as several")
		p.Line = n + 1
		return append(answers, ready(spell(p))), nil
	case errors.Is(err, bufio.ErrTooLong):
		p := problem(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", fmt.Sprintf("the line has over %d bytes; this and what follows was not read", s.maxBody()))
		p.Line = n + 1
		return append(answers, ready(spell(p))), nil
	case err != nil:
		return nil, malformed("the body ended before it was complete; the lines read were obeyed, and repeating them under their ids is safe")
	}
	return answers, nil
}

// BatchAnswer is the answer to a line that was not refused.
type BatchAnswer struct {
	ID        string `json:"id"`
	Status    int    `json:"status" enum:"200,201,202"`
	TriggerID string `json:"trigger_id"`
	State     string `json:"state,omitempty" doc:"Absent for registers"`
	FireAt    string `json:"fire_at,omitempty" format:"date-time"`
	Revision  int64  `json:"revision,omitempty"`
}

// line writes the command of one line at once, so that lines keep their order,
// and waits for its decision beside the others.
func (s *Server) line(r *request, b []byte, n int, window <-chan struct{}) <-chan []byte {
	id := ""
	refuse := func(err error) []byte {
		p := *asProblem(err)
		if p.Status == http.StatusInternalServerError {
			s.log.Error("line of a batch failed", "error", p.cause)
		}
		p.ID, p.Line = id, n
		return spell(&p)
	}
	c, err := s.lineCommand(r, b, &id)
	if err == nil {
		err = s.withinRate(r, c)
	}
	if err != nil {
		<-window
		return ready(refuse(err))
	}
	done := s.produce(r.Context(), c)
	answer := make(chan []byte, 1)
	go func() {
		defer func() { <-window }()
		defer func() {
			if v := recover(); v != nil {
				answer <- refuse(fmt.Errorf("panic: %v", v))
			}
		}()
		a, err := s.settleLine(r, c, done)
		if err != nil {
			answer <- refuse(err)
			return
		}
		answer <- spell(a)
	}()
	return answer
}

// lineCommand reads one line: a register, or with op another command, of the
// trigger id names.
func (s *Server) lineCommand(r *request, b []byte, id *string) (*command, error) {
	fs, err := parseFields(b)
	if err != nil {
		return nil, err
	}
	if i := fs.index("id"); i >= 0 && fs[i].value.Kind() == '"' {
		text, _ := jsontext.AppendUnquote(nil, fs[i].value)
		*id = string(text)
	}
	name, err := fs.takeText("op")
	if err != nil {
		return nil, err
	}
	line := *r // a line has no conditions of the request's headers
	plain := *r.Request
	plain.Header = http.Header{}
	line.Request, line.conditional = &plain, false
	if name == "" || name == trigger.OpRegister.String() {
		return s.registerCommand(&line, fs)
	}
	op, ok := trigger.ParseOp(name)
	if !ok || op == trigger.OpRedrive || op == trigger.OpErase || op == trigger.OpAck {
		return nil, problem(http.StatusUnprocessableEntity, trigger.CodeUnknownOp, "op", quoted(name)+" is no op of a batch: register, cancel, reschedule, snooze, skip, pause, resume, run_now or rezone")
	}
	target, err := fs.takeText("id")
	if err != nil {
		return nil, err
	}
	if target == "" {
		return nil, problem(http.StatusUnprocessableEntity, trigger.CodeInvalid, "id", name+" needs the id of a trigger")
	}
	return s.command(&line, op, target, fs)
}

func (s *Server) settleLine(r *request, c *command, done <-chan place) (*BatchAnswer, error) {
	at := s.durable(done)
	if at.err != nil {
		return nil, notWritten(at.err).about(c)
	}
	a := &BatchAnswer{ID: c.id, Status: http.StatusAccepted, TriggerID: c.id}
	if wantsAsync(r.Request) {
		return a, nil
	}
	v, err := s.decision(r.Context(), c, at)
	if err != nil || !v.decided {
		return a, err
	}
	if p := problemOfCancel(c, v); p != nil {
		return nil, p
	}
	if a.Status = http.StatusOK; c.op == trigger.OpRegister {
		a.Status = v.statusOfRegister()
	} else if v.state != nil {
		a.State = v.state.Status.String()
	}
	if v.state != nil {
		a.FireAt, a.Revision = instantText(nominal(v.state)), v.state.Revision
	}
	return a, nil
}

// spell is one line of the answer.
func spell(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("answer cannot be spelled: %v", err)) // our own structs of texts and numbers
	}
	return b
}

func ready(b []byte) <-chan []byte {
	c := make(chan []byte, 1)
	c <- b
	return c
}
