package gateway

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// RejectedCommand is a command that was refused, without its content: that stands on topic
// rejected.
type RejectedCommand struct {
	TriggerID string `json:"trigger_id" doc:"Empty where the record has no key that may be a trigger's"`
	Tenant    string `json:"tenant" doc:"Empty where trigger_id is; operators alone see those"`
	Code      string `json:"code"`
	Field     string `json:"field,omitempty" doc:"The field at fault"`
	Detail    string `json:"detail,omitempty" doc:"What to write instead"`
	At        string `json:"at" format:"date-time" doc:"When it was refused"`
	Source    string `json:"source" doc:"topic/partition/offset of the command"`
	Partition int32  `json:"partition" doc:"Of topic rejected"`
	Offset    int64  `json:"offset"`
	Truncated bool   `json:"truncated,omitempty" doc:"The record on topic rejected has not all of the command"`
}

// RejectedCommands is a page of refused commands, the newest first.
type RejectedCommands struct {
	Items      []RejectedCommand `json:"items"`
	NextCursor string            `json:"next_cursor,omitempty" doc:"Absent on the last page. A page may be short, or empty, and have one"`
	Visited    int64             `json:"looked_at" doc:"How many records were visited for this page: for operators of all tenants, for others those of the page"`
}

// RejectedEither is a page, or with group_by counts.
type RejectedEither struct{}

// Schema describes it for the OpenAPI document.
func (RejectedEither) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[RejectedCommands](r), schemaOf[Groups](r)}}
}

func rejectedRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/rejected", right: auth.Read, handle: p.rejected.listRejected,
		costly: true, doc: operation{
			id: "listRejected", summary: "List commands that were refused within the last 14 days, the newest first",
			query: []parameter{
				{name: "tenant", doc: "Of this tenant; operators see all without it", kind: of[string]()},
				{name: "trigger_id", doc: "About this trigger", kind: of[string]()},
				{name: "code", doc: "With this code", kind: of[string]()},
				{name: "from", doc: "Refused at or after this instant", kind: of[string]()},
				{name: "to", doc: "Refused before this instant", kind: of[string]()},
				{name: "group_by", doc: "Count instead of listing", kind: of[string](), oneOf: []string{"code"}},
				{name: "cursor", doc: "next_cursor of the page before, with the same filters", kind: of[string]()},
				limitParameter,
			},
			answers: answers{200: of[RejectedEither]()},
		},
	}}
}

// How many offsets of a partition are read at once. A page reads backwardRecords and backwardBytes, a count maxCounted
// records and as many bytes.
const (
	refusalsAtOnce   = 256
	refusalsCounted  = 2000
	refusalsOffsets  = 16 // partitions asked at once
	rejectedQuestion = "\x00rejected"
)

// rejections lists topic rejected.
type rejections struct {
	auditor *auditor
	cursors *cursorSeal
	records *topicReader

	partitions int32
	readWithin time.Duration
}

// refusalQuery is what a list asks for.
type refusalQuery struct {
	tenant, id, code string // tenant "": all
	listRange
	key    trigger.Key // of tenant and id; "": any
	sealed *peer.Query // to what cursors belong
	after  []int64     // by partition the offset behind which all was listed; nil: the first page
}

func (q *refusalQuery) matches(c *RejectedCommand) bool {
	return (q.tenant == "" || c.Tenant == q.tenant) && (q.key == "" || c.TriggerID == q.id) &&
		(q.code == "" || c.Code == q.code)
}

func (s *rejections) listRejected(w http.ResponseWriter, r *request) error {
	q, err := s.query(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	scans, err := s.scans(ctx, q)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	walk := refusalWalk{q: q, scans: scans, read: s.records.read, atOnce: refusalsAtOnce}
	defer func() { r.read.charge(int(walk.visited)) }() // also of a page that is cut off
	if r.query.Has("group_by") {
		return s.countRejected(ctx, w, r, &walk)
	}
	items, err := walk.page(ctx)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	answer := RejectedCommands{Items: items, Visited: r.visited(walk.visited, len(items))}
	if next, more := walk.rest(s.partitions); more {
		answer.NextCursor = s.cursors.seal(q.sealed, peer.UserCursor{Key: trigger.Key(next)})
	}
	return sendJSON(w, http.StatusOK, answer)
}

// countRejected answers group_by.
func (s *rejections) countRejected(ctx context.Context, w http.ResponseWriter, r *request, walk *refusalWalk) error {
	var sums counts
	walk.atOnce = walk.share()
	counted, err := walk.count(ctx, &sums)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	answer := Groups{Groups: sums.list(), Other: sums.other, Visited: r.visited(walk.visited, counted)}
	if next, more := walk.rest(s.partitions); more {
		answer.NextCursor = s.cursors.seal(walk.q.sealed, peer.UserCursor{Key: trigger.Key(next)})
	}
	return sendJSON(w, http.StatusOK, answer)
}

// query reads the parameters of a list.
func (s *rejections) query(r *request) (*refusalQuery, error) {
	v := r.query
	if err := r.refuseEmpty("tenant", "trigger_id", "code", "from", "to", "group_by"); err != nil {
		return nil, err
	}
	q := &refusalQuery{code: v.Get("code"), id: v.Get("trigger_id")}
	var err error
	if q.tenant, err = s.auditor.tenantOf(r, "refused commands", v.Get("tenant")); err != nil {
		return nil, err
	}
	if q.id != "" {
		var key string
		if q.tenant, key, err = r.letterTrigger(q.tenant, q.id); err != nil {
			return nil, problem.BadParameter("trigger_id", "trigger_id is not the id of a trigger")
		}
		q.key = trigger.Key(key)
	}
	if q.listRange, err = r.listRange(); err != nil {
		return nil, err
	}
	q.sealed = &peer.Query{
		Tenant: q.tenant, User: q.id, Channel: rejectedQuestion + q.code, From: q.from, To: q.to,
	}
	if text := v.Get("cursor"); text != "" {
		at, err := s.cursors.open(q.sealed, text)
		if err != nil {
			return nil, err
		}
		for rest := []byte(at.Key); len(rest) > 0; {
			n, size := binary.Varint(rest)
			if size <= 0 {
				break
			}
			q.after, rest = append(q.after, n), rest[size:]
		}
	}
	return q, nil
}

// scans finds where to read each partition.
func (s *rejections) scans(ctx context.Context, q *refusalQuery) ([]*refusalScan, error) {
	var all []*refusalScan
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(refusalsOffsets)
	for p := range s.partitions {
		if q.key != "" && p != topics.Partition([]byte(q.key), s.partitions) {
			continue
		}
		one := &refusalScan{backward: backward{partition: p}}
		all = append(all, one)
		before := int64(-1)
		if int(p) < len(q.after) {
			before = q.after[p]
		}
		g.Go(func() (err error) {
			one.first, one.from, err = s.records.between(ctx, p, q.from, q.to, before)
			return err
		})
	}
	return all, g.Wait()
}

// refusalScan reads a partition from its end to its beginning.
type refusalScan struct {
	backward

	found []refusal // read, and not listed yet; the newest last
}

type refusal struct {
	RejectedCommand
	at trigger.Instant
}

// newest is the one to list next. There must be one.
func (s *refusalScan) newest() *refusal { return &s.found[len(s.found)-1] }

// refusalWalk merges partitions, the newest record first.
type refusalWalk struct {
	q       *refusalQuery
	scans   []*refusalScan
	read    readRecords
	atOnce  int64 // offsets of a partition
	visited int64
	bytes   int64
}

// share is how many offsets of each partition a count reads at once: so many that each has its turn, and the newest of
// all are counted first.
func (k *refusalWalk) share() int64 {
	return max(1, min(refusalsCounted, maxCounted/(2*max(1, int64(len(k.scans))))))
}

func (k *refusalWalk) page(ctx context.Context) ([]RejectedCommand, error) {
	items := []RejectedCommand{}
	for len(items) < k.q.limit {
		var newest *refusalScan
		for _, s := range k.scans {
			for len(s.found) == 0 && s.from > s.first {
				if k.visited >= backwardRecords || k.bytes >= backwardBytes {
					return items, nil // an unread partition may have the newest
				}
				if err := k.more(ctx, s); err != nil {
					return nil, err
				}
			}
			if len(s.found) > 0 && (newest == nil || s.newest().at > newest.newest().at) {
				newest = s
			}
		}
		if newest == nil {
			return items, nil
		}
		items = append(items, newest.newest().RejectedCommand)
		newest.found = newest.found[:len(newest.found)-1]
	}
	return items, nil
}

// count counts what the partitions have, some records of each in turn, so that the newest are among them if they are
// too many. It returns how many match.
func (k *refusalWalk) count(ctx context.Context, to *counts) (n int, err error) {
	for more := true; more; {
		more = false
		for _, s := range k.scans {
			if s.from <= s.first {
				continue
			}
			if k.visited >= maxCounted || k.bytes >= backwardBytes {
				return n, nil
			}
			if err := k.more(ctx, s); err != nil {
				return n, err
			}
			for i := range s.found {
				c := &s.found[i]
				to.add(c.Code, c.at, GroupSample{c.TriggerID, c.Tenant, c.Detail})
			}
			n, s.found, more = n+len(s.found), nil, true
		}
	}
	return n, nil
}

// more reads the next records of a partition towards its beginning.
func (k *refusalWalk) more(ctx context.Context, s *refusalScan) error {
	visited, bytes := s.visited, s.bytes
	err := s.backward.more(ctx, k.atOnce, k.read, func(r *kgo.Record) {
		if c := rejectedJSON(r); k.q.matches(&c) {
			s.found = append(s.found, refusal{c, trigger.At(r.Timestamp)})
		}
	})
	k.visited, k.bytes = k.visited+s.visited-visited, k.bytes+s.bytes-bytes
	return err
}

// rest encodes where the next page begins: for each partition the offset before which nothing
// was listed. more is false if there is nothing left.
func (k *refusalWalk) rest(partitions int32) (cursor []byte, more bool) {
	next := make([]int64, partitions)
	for _, s := range k.scans {
		if next[s.partition] = s.from; len(s.found) > 0 {
			next[s.partition] = s.newest().Offset + 1
		}
		more = more || next[s.partition] > s.first
	}
	for _, at := range next {
		cursor = binary.AppendVarint(cursor, at)
	}
	return cursor, more
}

func rejectedJSON(r *kgo.Record) RejectedCommand {
	rec := kafkarec.Of(r)
	why := topics.RejectionOf(rec.Headers)
	c := RejectedCommand{
		Code: why.Code, Field: why.Field, Detail: why.Detail, At: rec.Timestamp.String(), Source: why.Source,
		Partition: r.Partition, Offset: r.Offset, Truncated: why.Cut,
	}
	if key, err := trigger.ParseKey(slices.Clone(r.Key)); err == nil {
		c.TriggerID, c.Tenant = key.ID(), key.Tenant()
	}
	return c
}
