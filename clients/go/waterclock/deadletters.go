package waterclock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// DeadLetter is an occurrence that nobody could deliver. Its content is on topic dead-letter only.
type DeadLetter struct {
	TriggerID   string    `json:"trigger_id"`
	Tenant      string    `json:"tenant,omitempty"`
	CeID        string    `json:"ce_id"`
	Code        string    `json:"code"` // why it is a dead letter
	Detail      string    `json:"detail,omitempty"`
	Attempts    int       `json:"attempts"`
	Channel     string    `json:"channel,omitempty"`
	Endpoint    string    `json:"endpoint,omitempty"` // origin of its callback
	FailedAt    time.Time `json:"failed_at"`
	ScheduledAt time.Time `json:"scheduled_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	Status      string    `json:"status"` // open, redriven, resolved
	EndedAt     time.Time `json:"ended_at,omitzero"`
	Partition   int32     `json:"partition"` // of topic dead-letter
	Offset      int64     `json:"offset"`
	Truncated   bool      `json:"truncated,omitempty"` // it did not fit its topic, and cannot be redriven
}

// DeadLetterFilter selects dead letters. An empty one selects all that are open.
type DeadLetterFilter struct {
	TriggerID string
	Tenant    string // for operators, who see all tenants without it
	Channel   string
	Code      string
	Endpoint  string    // an origin, such as https://example.com
	From, To  time.Time // failed at or after From, and before To
	Status    string    // open (the default), redriven, resolved, all
	Cursor    string
	Limit     int // of one page
}

func (f *DeadLetterFilter) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{
		"trigger_id": f.TriggerID, "tenant": f.Tenant, "channel": f.Channel, "code": f.Code, "endpoint": f.Endpoint,
		"from": instant(f.From), "to": instant(f.To), "status": f.Status,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	page(q, f.Cursor, f.Limit)
	return q
}

// instant formats t for a query or a body; the zero time is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// DeadLetters reads one page, the newest first. For those of one trigger, set TriggerID; Status
// "all" has also those that were delivered since.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (*Page[DeadLetter], error) {
	return read[Page[DeadLetter]](ctx, c, f.query(), "v1", "dead-letters")
}

// AllDeadLetters reads all pages, each one when the loop needs it. It ends after an error.
func (c *Client) AllDeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[*DeadLetter, error] {
	return pages(f.Cursor, func(cursor string) (*Page[DeadLetter], error) {
		f.Cursor = cursor
		return c.DeadLetters(ctx, f)
	})
}

// DeadLetterCount is how many dead letters have one value in common.
type DeadLetterCount struct {
	Value  string    `json:"value"` // the tenant, code or endpoint
	Count  int64     `json:"count"`
	Oldest time.Time `json:"oldest"` // when the first of them failed
	Newest time.Time `json:"newest"`
}

// CountDeadLetters counts by "tenant", "code" or "endpoint", the largest count first.
func (c *Client) CountDeadLetters(ctx context.Context, by string, f DeadLetterFilter) ([]DeadLetterCount, error) {
	q := f.query()
	q.Set("group_by", by)
	list, err := read[struct{ Groups []DeadLetterCount }](ctx, c, q, "v1", "dead-letters")
	if err != nil {
		return nil, err
	}
	return list.Groups, nil
}

// Redrive selects dead letters to try again, and says how. Only open ones are tried.
type Redrive struct {
	CeID string // for a Redrive of one trigger: only this occurrence

	Tenant   string // the filters of RedriveAll, as in DeadLetterFilter
	Channel  string
	Code     string
	Endpoint string
	From, To time.Time
	All      bool // needed for a RedriveAll without filters

	Rate           float64 // dead letters a second; the default is 100
	DryRun         bool    // only count
	IncludeExpired bool    // try also what is past its ExpiresAt
	Note           string  // why: the detail of the event of each
	Cursor         string  // where an earlier RedriveAll with the same filter ended
}

func (r *Redrive) fields(id string) *fields {
	f := empty()
	f.text("trigger_id", id)
	f.text("ce_id", r.CeID)
	f.text("tenant", r.Tenant)
	f.text("channel", r.Channel)
	f.text("code", r.Code)
	f.text("endpoint", r.Endpoint)
	f.text("from", instant(r.From))
	f.text("to", instant(r.To))
	f.text("note", r.Note)
	f.text("cursor", r.Cursor)
	if r.Rate != 0 {
		f.add("rate", r.Rate)
	}
	f.flag("all", r.All)
	f.flag("dry_run", r.DryRun)
	f.flag("include_expired", r.IncludeExpired)
	return f
}

// RedriveProgress is how far a redrive is: counts since its beginning.
type RedriveProgress struct {
	Matched   int64  `json:"matched"`
	Redriven  int64  `json:"redriven"`
	Duplicate int64  `json:"duplicate"` // under way, or redriven before
	Expired   int64  `json:"expired"`   // left out: see IncludeExpired
	Refused   int64  `json:"refused"`
	Pending   int64  `json:"pending"` // durable, but the engine has not decided yet
	Cursor    string `json:"cursor,omitempty"`
	Done      bool   `json:"done"`

	// Refusals has an error for each dead letter that was refused since the last progress.
	Refusals []*Error `json:"-"`
}

// Redrive tries the dead letters of a trigger again, and returns once all were sent. Each goes out
// once, so the call is safe to repeat.
func (c *Client) Redrive(ctx context.Context, id string, r Redrive) (*RedriveProgress, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	var last *RedriveProgress
	var refusals []*Error
	for p, err := range c.redrive(ctx, r.fields(id), true) {
		if err != nil {
			return nil, err
		}
		last, refusals = p, append(refusals, p.Refusals...)
	}
	if last != nil {
		last.Refusals = refusals
	}
	return last, nil
}

// RedriveAll tries again what a filter selects, or All, and says about once a second how far it is;
// the last progress is Done. To leave the loop stops it. It is safe to repeat: it goes on with what
// is open. If it breaks off, the error is Unavailable.
func (c *Client) RedriveAll(ctx context.Context, r Redrive) iter.Seq2[*RedriveProgress, error] {
	return c.redrive(ctx, r.fields(""), false)
}

// redrive sends a redrive. If whole, the caller holds all of the answer until it ends.
func (c *Client) redrive(ctx context.Context, f *fields, whole bool) iter.Seq2[*RedriveProgress, error] {
	return func(yield func(*RedriveProgress, error) bool) {
		body, err := f.bytes()
		if err != nil {
			yield(nil, err)
			return
		}
		run := redriver{c: c, yield: yield, whole: whole, r: &request{
			method: http.MethodPost, path: []string{"v1"}, verb: "/dead-letters:redrive", body: body,
			kind: "application/json", repeat: safely, write: true,
		}}
		unsure := false
		for attempt := 1; ; attempt++ {
			sent, err := run.stream(ctx)
			if err == nil {
				return
			}
			unsure = unsure || err.leavesOpen(sent)
			err.Attempts, err.MaybeApplied = attempt, unsure
			wait, ok := c.retry(err, safely, sent)
			if run.begun || !ok || !sleep(ctx, wait) {
				yield(nil, err)
				return
			}
		}
	}
}

// redriver is a redrive under way.
type redriver struct {
	c     *Client
	r     *request
	whole bool // all of the answer is held
	begun bool // it is not repeated by itself any more
	yield func(*RedriveProgress, error) bool
}

// stream makes one attempt. nil means that it is done, or that the caller has left.
func (d *redriver) stream(ctx context.Context) (sent bool, e *Error) {
	e = d.c.listen(ctx, func(ctx context.Context, listen func(io.Reader) io.Reader) (e *Error) {
		var res *http.Response
		if res, sent, e = d.c.begin(ctx, d.r); e != nil {
			return e
		}
		defer res.Body.Close()
		from := listen(res.Body)
		if res.StatusCode < 200 || res.StatusCode > 299 {
			body, _ := io.ReadAll(io.LimitReader(from, 1<<20))
			return answered(res.StatusCode, res.Header, body)
		}
		d.begun = true
		return d.lines(from)
	})
	return sent, e
}

// lines reads progress. A problem is about one dead letter, unless it is the last line.
func (d *redriver) lines(from io.Reader) *Error {
	lines := d.c.lines(from)
	lines.Split(wholeLine)
	var refused []*Error
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		p, of := &RedriveProgress{}, problem{}
		if err := errors.Join(json.Unmarshal(lines.Bytes(), p), json.Unmarshal(lines.Bytes(), &of)); err != nil {
			return unreadable(http.StatusOK, err)
		}
		if of.Code != "" {
			refused = append(refused, of.error(of.Status))
			continue
		}
		p.Refusals, refused = refused, nil
		if !d.whole {
			lines.held = 0
		}
		if !d.yield(p, nil) || p.Done {
			return nil
		}
	}
	if lines.tooLong() {
		return d.c.tooLong(http.StatusOK)
	}
	if len(refused) > 0 && lines.Err() == nil {
		return refused[len(refused)-1]
	}
	return brokenOff(lines.Err())
}

// wholeLine splits at line ends. What follows the last one is an error: the answer was cut off in it.
func wholeLine(b []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(b, '\n'); end >= 0 {
		return end + 1, b[:end], nil
	}
	if atEOF && len(b) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

func brokenOff(cause error) *Error {
	return &Error{
		Type: Unavailable, Detail: "the redrive broke off: repeat it, and it goes on with what is open", cause: cause,
	}
}
