package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// AuditRecord is an act over HTTP, or a refused attempt.
type AuditRecord struct {
	At      string `json:"at" format:"date-time"`
	Actor   string `json:"actor" doc:"The name of the API key, or the subject of the token; empty where no log-in is needed"`
	Role    string `json:"role" doc:"Of the actor; several with commas"`
	Address string `json:"address" doc:"Of the caller, or of the proxy in front"`
	Agent   string `json:"agent" doc:"Its User-Agent"`
	Verb    string `json:"verb" doc:"An op, such as cancel; else the operation of this document, such as put_calendar"`
	Trigger string `json:"trigger,omitempty" doc:"Key of the trigger"`
	Target  string `json:"target,omitempty" doc:"What else it is about, such as calendars/us-holidays"`
	Tenant  string `json:"tenant" doc:"Of the actor; empty without a valid credential"`
	Note    string `json:"note,omitempty" doc:"Why, as the actor says"`
	Status  int    `json:"status" doc:"Of the answer; 400 and above: it was refused"`
}

// AuditRecords is a page of acts, the newest first.
type AuditRecords struct {
	Items      []AuditRecord `json:"items"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"Absent on the last page. A page may be short, or empty, and have one"`
	Visited    int64         `json:"looked_at" doc:"How many records were visited for this page"`
}

func auditRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/audit", right: auth.Operate, handle: p.audit.listAudit,
		costly: true, doc: operation{
			id: "listAudit", summary: "List who did what over HTTP within the last 400 days, the newest first",
			query: []parameter{
				{name: "tenant", doc: "By callers of this tenant", kind: of[string]()},
				{name: "actor", doc: "By this actor", kind: of[string]()},
				{name: "trigger", doc: "To this trigger: its key, or its id in the tenant", kind: of[string]()},
				{name: "verb", doc: "Only this verb", kind: of[string]()},
				{name: "from", doc: "Recorded at or after this instant", kind: of[string]()},
				{name: "to", doc: "Recorded before this instant", kind: of[string]()},
				{name: "cursor", doc: "next_cursor of the page before, with the same filters", kind: of[string]()},
				limitParameter,
			},
			answers: answers{200: of[AuditRecords]()},
		},
	}}
}

// Bounds of a page: records and bytes visited, and how many offsets are read at once.
const (
	maxAuditRead  = 20_000
	maxAuditBytes = 16 << 20
	auditAtOnce   = 512
	auditQuestion = "\x00audit"
)

// auditList lists topic audit.
type auditList struct {
	cursors *cursorSeal
	records *topicReader

	readWithin time.Duration
}

// auditQuery is what a list asks for.
type auditQuery struct {
	tenant, actor, trigger, verb string // "": any
	key                          string // of trigger as an id; "": any
	listRange
	sealed *peer.Query // to what cursors belong
	before int64       // list what is below this offset; negative: from the end
}

func (q *auditQuery) matches(a *topics.Audit) bool {
	return (q.tenant == "" || a.Tenant == q.tenant) && (q.actor == "" || a.Actor == q.actor) &&
		(q.trigger == "" || string(a.Trigger) == q.trigger || string(a.Trigger) == q.key) &&
		(q.verb == "" || a.Verb == q.verb)
}

func (s *auditList) listAudit(w http.ResponseWriter, r *request) error {
	q, err := s.query(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	answer, next, err := s.page(ctx, q)
	r.read.charge(int(answer.Visited)) // also of a page that is cut off
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return problem.Unavailable(err, "there is no audit topic: run `waterclock topics apply`")
	case err != nil:
		return problem.Unavailable(err, "Kafka does not answer")
	}
	if next > 0 {
		answer.NextCursor = s.cursors.seal(q.sealed, peer.UserCursor{Due: trigger.Instant(next)})
	}
	return sendJSON(w, http.StatusOK, answer)
}

// query reads the parameters of a list.
func (s *auditList) query(r *request) (*auditQuery, error) {
	v := r.query
	if err := r.refuseEmpty("tenant", "actor", "trigger", "verb", "from", "to"); err != nil {
		return nil, err
	}
	q := &auditQuery{
		tenant: v.Get("tenant"), actor: v.Get("actor"), trigger: v.Get("trigger"), verb: v.Get("verb"), before: -1,
	}
	if q.key = q.trigger; q.trigger != "" {
		if tenant := q.tenant; tenant != "" {
			q.key = string(trigger.NewKey(tenant, q.trigger))
		} else {
			q.key = string(trigger.NewKey(r.who.Tenant, q.trigger))
		}
	}
	var err error
	if q.listRange, err = r.listRange(); err != nil {
		return nil, err
	}
	q.sealed = &peer.Query{
		Tenant: q.tenant, User: q.actor, Channel: auditQuestion + q.verb, From: q.from, To: q.to, Prefix: q.trigger,
	}
	if text := v.Get("cursor"); text != "" {
		at, err := s.cursors.open(q.sealed, text)
		if err != nil {
			return nil, err
		}
		q.before = int64(at.Due)
	}
	return q, nil
}

// page reads the topic from its end, or from a cursor, towards its beginning. next is the
// offset below which the next page begins; 0: there is none.
func (s *auditList) page(ctx context.Context, q *auditQuery) (page AuditRecords, next int64, err error) {
	page.Items = []AuditRecord{}
	first, end, err := s.records.between(ctx, 0, q.from, q.to, q.before)
	if err != nil {
		return page, 0, err
	}
	at := backward{first: first, from: end}
	for at.from > first && at.visited < maxAuditRead && at.bytes < maxAuditBytes {
		var found []*kgo.Record
		err := at.more(ctx, auditAtOnce, s.records.read, func(r *kgo.Record) { found = append(found, r) })
		if page.Visited = at.visited; err != nil {
			return page, 0, err
		}
		for _, r := range slices.Backward(found) {
			if a, err := topics.DecodeAudit(r.Key, r.Value); err == nil && q.matches(a) {
				page.Items = append(page.Items, auditJSON(a))
			}
			if len(page.Items) == q.limit {
				return page, above(r.Offset, first), nil
			}
		}
	}
	return page, above(at.from, first), nil
}

// above is an offset, or 0 if nothing from first on is below it.
func above(offset, first int64) int64 {
	if offset <= first {
		return 0
	}
	return offset
}

func auditJSON(a *topics.Audit) AuditRecord {
	return AuditRecord{
		At: a.At.String(), Actor: a.Actor, Role: a.Role, Address: a.Address, Agent: a.Agent, Verb: a.Verb,
		Trigger: string(a.Trigger), Target: a.Target, Tenant: a.Tenant, Note: a.Note, Status: a.Status,
	}
}
