package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/trigger"
)

// client asks other instances about their partitions (handler.go answers).
type client struct {
	trust   *Credentials
	signer  *signer
	http    *http.Client
	waiting []*slots.Slots // of each partition: one for each question that waits for decisions
}

// decisionsAtOnce bounds the connections that wait for decisions of one partition.
// No tenant has all of them. Partitions do not share them: one whose owner does not
// answer would hold all others up.
const decisionsAtOnce = 256

// idleConnections bounds those to one instance that wait for the next question.
const idleConnections = 512

func newClient(trust *Credentials, partitions int32) *client {
	waiting := make([]*slots.Slots, partitions)
	for p := range waiting {
		waiting[p] = slots.New(decisionsAtOnce, true)
	}
	return &client{trust: trust, signer: newSigner(), waiting: waiting, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         trust.dial,
			DialTLSContext:      trust.dial,
			MaxIdleConnsPerHost: idleConnections,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) get(ctx context.Context, addr string, key trigger.Key) (*trigger.State, error) {
	return c.trigger(ctx, addr, url.Values{"key": {string(key)}})
}

// peek is get without the read barrier, which an instance of before takes all the same.
func (c *client) peek(ctx context.Context, addr string, key trigger.Key) (*trigger.State, error) {
	return c.trigger(ctx, addr, url.Values{"key": {string(key)}, "stale": {"1"}})
}

func (c *client) trigger(ctx context.Context, addr string, v url.Values) (s *trigger.State, err error) {
	err = c.ask(ctx, addr, "trigger", v, func(body io.Reader) error {
		page, err := readPage(body, nil)
		if err == nil && len(page.Items) == 1 {
			s = page.Items[0].State
		}
		return err
	})
	return s, err
}

// answerAhead is how much sooner than we give up an owner answers with what it
// has.
const answerAhead = 100 * time.Millisecond

// decisions asks another instance about commands of one of its partitions.
func (c *client) decisions(ctx context.Context, addr string, partition int32, list []Question) error {
	tenant := list[0].Key.Tenant()
	if err := c.waiting[partition].Wait(ctx, tenant); err != nil {
		return noSlot(err)
	}
	defer c.waiting[partition].Release(tenant)
	q := url.Values{"key": {string(list[0].Key)}, "offsets": {packOffsets(list)}}
	q.Set("partition", strconv.Itoa(int(partition)))
	if end, ok := ctx.Deadline(); ok {
		q.Set("within", (time.Until(end) - answerAhead).String())
	}
	var wires []decisionWire
	if err := c.askJSON(ctx, addr, "outcomes", q, &wires); err != nil {
		return err
	}
	if err := takeDecisions(wires, list); err != nil {
		return brokeOff(addr, err)
	}
	return nil
}

// takeDecisions fills in what an owner answered; the error says why some are
// without an answer.
func takeDecisions(wires []decisionWire, list []Question) (missing error) {
	if len(wires) != len(list) {
		return errOffsets
	}
	for i := range wires {
		if !wires[i].Answered {
			missing = context.DeadlineExceeded
			continue
		}
		d, err := wires[i].decision()
		if err != nil {
			return err
		}
		list[i].Answered, list[i].Known, list[i].Decision = true, wires[i].OK, d
	}
	return missing
}

// noSlot is the end of a wait without a slot: the commands are durable, and not
// known to be decided.
func noSlot(err error) error {
	if errors.Is(err, slots.ErrFull) {
		return context.DeadlineExceeded
	}
	return err
}

func (c *client) find(ctx context.Context, addr string, partition int32, q *Query) (page Page, err error) {
	v := url.Values{"partition": {strconv.Itoa(int(partition))}}
	q.addTo(v)
	what := "find"
	if q.ByNextFire {
		what = "find-next" // an instance of before would list in another order
	}
	err = c.ask(ctx, addr, what, v, func(body io.Reader) error {
		page, err = readPage(body, func(s *trigger.State) {
			if q.Cost.Taken != nil {
				q.Cost.Taken(storedBytes(s))
			}
		})
		return err
	})
	return page, err
}

func (c *client) forecast(ctx context.Context, addr string, partition int32, q *ForecastQuery) (f Forecast, err error) {
	v := url.Values{"partition": {strconv.Itoa(int(partition))}}
	q.addTo(v)
	err = c.askJSON(ctx, addr, "forecast", v, &f)
	return f, err
}

func (c *client) partitions(ctx context.Context, addr string) (list []PartitionStatus, err error) {
	err = c.askJSON(ctx, addr, "partitions", nil, &list)
	return list, err
}

func (c *client) askJSON(ctx context.Context, addr, what string, q url.Values, into any) error {
	return c.ask(ctx, addr, what, q, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

// ask sends one signed request. 421 becomes CodeNotOwner. An owner that is gone,
// or breaks off, is no fault of ours: the partition will have another. What read
// took counts only if ask returns nil: the signature of an answer comes last.
func (c *client) ask(ctx context.Context, addr, what string, q url.Values, read func(io.Reader) error) error {
	scheme := "https://"
	if c.trust.plain() {
		scheme = "http://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+internalPath+what+"?"+q.Encode(), nil)
	if err != nil {
		return problem.Unavailable(fmt.Errorf("ask %s: %w", addr, err),
			"the partition's owner has no known address")
	}
	secret := c.trust.Secrets()[0]
	signed := newAnswerHash(secret, c.signer.sign(secret, req, addr, nil, time.Now()))
	resp, err := c.http.Do(req)
	if err != nil {
		return problem.Unavailable(fmt.Errorf("ask %s: %w", addr, err), "the partition's owner does not answer")
	}
	defer resp.Body.Close()
	body := io.TeeReader(resp.Body, signed.body)
	switch resp.StatusCode {
	case http.StatusOK:
		if err := read(body); err != nil {
			return brokeOff(addr, err)
		}
		if err := checkAnswer(resp, body, signed); err != nil {
			return brokeOff(addr, err)
		}
		return nil
	case http.StatusMisdirectedRequest:
		if err := checkAnswer(resp, body, signed); err != nil {
			return brokeOff(addr, err)
		}
		return ErrNoOwner
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode == http.StatusNotFound {
		return problem.Unavailable(fmt.Errorf("ask %s: it does not know %s", addr, what),
			"the partition's owner runs an older version, which cannot answer this; upgrade it")
	}
	return problem.Unavailable(fmt.Errorf("ask %s: %s: %s", addr, resp.Status, strings.TrimSpace(string(text))),
		"the partition's owner could not answer")
}

func brokeOff(addr string, err error) error {
	return problem.Unavailable(fmt.Errorf("answer of %s: %w", addr, err), "the partition's owner cut off its answer")
}
