package waterclock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxBatch bounds the lines of a batch. The server has the same limit.
const maxBatch = 10_000

// BatchResult is the result of one command of a batch: either Err, or the other fields.
type BatchResult struct {
	ID        string    `json:"id,omitempty"`
	Line      int       `json:"line,omitempty"` // line of a refused command, from 1
	Status    int       `json:"status,omitempty"`
	TriggerID string    `json:"trigger_id,omitempty"`
	State     string    `json:"state,omitempty"`
	FireAt    time.Time `json:"fire_at,omitzero"`
	Revision  int64     `json:"revision,omitempty"`
	Notes     []string  `json:"notes,omitempty"`

	Err *Error `json:"-"`
}

// Batch sends up to 10,000 commands in one request. The engine applies them in order. A refused
// command does not affect the others. There is one result per command, unless the error says that
// the whole request failed.
//
// A register with neither an id nor an IdempotencyKey gets a generated key, so that it is safe to
// repeat. The client repeats the batch only if that is safe for every command (see IfRevision), and if no id
// is there twice.
//
// If all commands have Async, the batch does not wait for decisions: Status is then 202.
func (c *Client) Batch(ctx context.Context, commands ...*Command) ([]BatchResult, error) {
	if len(commands) > maxBatch {
		return nil, refuse("too_large", "", fmt.Sprintf("a batch has at most %d commands; send several", maxBatch))
	}
	if len(commands) == 0 {
		return nil, nil
	}
	var body bytes.Buffer
	repeat, async := safely, commands[0].async
	ids := map[string]bool{}
	for i, cmd := range commands {
		if err := cmd.checkBatch(async); err != nil {
			return nil, fmt.Errorf("command %d: %w", i+1, err)
		}
		line, err := cmd.line()
		if err != nil {
			return nil, fmt.Errorf("command %d: %w", i+1, err)
		}
		body.Write(line)
		body.WriteByte('\n')
		repeat = min(repeat, cmd.repeatable())
		if cmd.ID != "" {
			if ids[cmd.ID] {
				repeat = never // the first command would meet what the second one left
			}
			ids[cmd.ID] = true
		}
	}
	one := *c
	if one.timeout <= 0 {
		one.timeout = time.Minute
	}
	req := &request{
		method: http.MethodPost, path: []string{"v1"}, verb: "/triggers:batch", body: body.Bytes(),
		kind: "application/x-ndjson", repeat: repeat, write: true,
	}
	(&options{async: async}).conditions(req)
	a, err := one.do(ctx, req)
	if err != nil {
		return nil, err
	}
	return batchResults(a, len(commands))
}

// checkBatch refuses what a command of a batch cannot have. All of the batch waits, or nothing does.
func (c *Command) checkBatch(async bool) error {
	switch {
	case len(c.Headers) > 0:
		return errRecordHeaders()
	case c.async != async:
		return refuse("invalid", "async", "give Async to all commands of a batch, or to none")
	}
	return nil
}

// line returns the command as a line of a batch.
func (c *Command) line() ([]byte, error) {
	own := *c
	if c.fields != nil {
		f := *c.fields
		f.b = f.b[:len(f.b):len(f.b)]
		own.fields = &f
	}
	if c.isRegister() && c.ID == "" && !c.hasKey {
		if own.fields == nil {
			own.fields = empty()
		}
		own.fields.add("idempotency_key", newKey())
	}
	return own.json("id", c.ID, true)
}

func (c *Command) isRegister() bool { return c.Op == OpRegister || c.Op == "" }

// repeatable returns whether the command may be repeated, by the same rules as a single call.
func (c *Command) repeatable() repeatable {
	switch c.Op {
	case "", OpRegister, OpCancel, OpPause, OpResume, OpRezone, OpErase:
		return safely
	case OpAck:
		if c.names {
			return safely
		}
		return never
	case OpRunNow:
		return never
	}
	if c.ifRevision {
		return safely
	}
	return never
}

func batchResults(a *answer, want int) ([]BatchResult, error) {
	broken := func(err error) ([]BatchResult, error) {
		e := unreadable(a.status, err)
		e.MaybeApplied, e.Attempts = true, a.attempts
		return nil, e
	}
	results := make([]BatchResult, 0, want)
	for line := range bytes.Lines(a.body) {
		var r BatchResult
		var p problem
		if err := errors.Join(json.Unmarshal(line, &r), json.Unmarshal(line, &p)); err != nil {
			return broken(err)
		}
		if p.Code != "" {
			r = BatchResult{ID: p.ID, Line: p.Line, Status: p.Status, Err: p.error(p.Status)}
			r.Err.Attempts, r.Err.MaybeApplied = a.attempts, a.unsure || p.Status >= 500
		}
		results = append(results, r)
	}
	if len(results) != want {
		return broken(fmt.Errorf("it has %d lines, for %d commands", len(results), want))
	}
	return results, nil
}
