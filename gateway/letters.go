package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Letters is what a gateway asks of the projection of topic dead-letter.
type Letters interface {
	// Letters lists dead letters, by tenant and time.
	Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error)
	// LettersNext is, by partition, the offset of the first record that is not in
	// the projection yet: of topic dead-letter, and of topic events, which says what
	// became of letters.
	LettersNext(ctx context.Context) (letters, events map[int32]int64, err error)
}

// DeadLetter is an item of a list. It has no content: that stands on topic
// dead-letter.
type DeadLetter struct {
	TriggerID   string `json:"trigger_id"`
	Tenant      string `json:"tenant"`
	CeID        string `json:"ce_id" doc:"The ce_id of the due event"`
	Code        string `json:"code" doc:"Why it is a dead letter"`
	Detail      string `json:"detail,omitempty"`
	Attempts    int    `json:"attempts" doc:"How often it was tried"`
	Channel     string `json:"channel"`
	Endpoint    string `json:"endpoint,omitempty" doc:"The origin of the callback"`
	FailedAt    string `json:"failed_at" format:"date-time"`
	ScheduledAt string `json:"scheduled_at,omitempty" format:"date-time"`
	ExpiresAt   string `json:"expires_at,omitempty" format:"date-time" doc:"From then on it is of no use"`
	Status      string `json:"status" enum:"open,redriven,resolved" doc:"resolved: it was delivered after all"`
	EndedAt     string `json:"ended_at,omitempty" format:"date-time" doc:"When it was redriven or delivered"`
	Partition   int32  `json:"partition" doc:"Of topic dead-letter"`
	Offset      int64  `json:"offset"`
	Truncated   bool   `json:"truncated,omitempty" doc:"It did not fit its topic, and cannot be redriven"`
}

// DeadLetters is a page of dead letters, the newest first.
type DeadLetters struct {
	Items      []DeadLetter `json:"items"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"Absent on the last page. A page may be short and have one"`
}

// DeadLettersEither is a page, or with group_by counts.
type DeadLettersEither struct{}

// Schema describes it for the OpenAPI document.
func (DeadLettersEither) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[DeadLetters](r), schemaOf[Groups](r)}}
}

// letterGroups are what dead letters may be counted by.
var letterGroups = []string{"tenant", "code", "endpoint"}

func letterRoutes(p *parts) []route {
	filters := []parameter{
		{name: "tenant", doc: "Of this tenant; operators see all without it", kind: of[string]()},
		{name: "trigger_id", doc: "Of this trigger", kind: of[string]()},
		{name: "channel", doc: "On this channel", kind: of[string]()},
		{name: "code", doc: "With this code", kind: of[string]()},
		{name: "endpoint", doc: "To this origin, such as https://example.com", kind: of[string]()},
		{name: "from", doc: "Failed at or after this instant", kind: of[string]()},
		{name: "to", doc: "Failed before this instant", kind: of[string]()},
		{
			name: "status", doc: "open (the default), redriven, resolved or all", kind: of[string](),
			oneOf: topics.LetterStatuses(),
		},
		{
			name: "group_by", doc: "Count instead of listing", kind: of[string](),
			oneOf: letterGroups,
		},
		{name: "cursor", doc: "next_cursor of the page before, with the same filters", kind: of[string]()},
		limitParameter,
		{
			name: "fresh", kind: of[string](), oneOf: flags,
			doc: "false: without waiting, a second at most, until the history has what happened before; an answer " +
				"that others of the tenant with the same roles have got may do, up to a second old",
		},
	}
	return []route{
		{
			method: http.MethodGet, pattern: "/v1/dead-letters", right: auth.Read, handle: p.letters.listLetters,
			costly: true, shared: true, doc: operation{
				id:      "listDeadLetters",
				summary: "List dead letters by tenant, within one the newest first",
				query:   filters, answers: answers{200: of[DeadLettersEither]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/v1/dead-letters:redrive", right: auth.Act,
			handle: p.redrives.postRedrive, doc: operation{
				id: "redriveDeadLetters",
				summary: "Redrive dead letters: those of a trigger, of a filter, or all; answers its progress, one " +
					"line at a time, the last with done",
				body:    of[RedriveBody](),
				answers: answers{200: of[string]()}, answerType: "application/x-ndjson",
			},
		},
	}
}

// Bounds of counting: how many letters one answer looks at, and how many values
// it tells apart.
const (
	maxCounted    = 50_000
	maxGroups     = 1000
	historyWithin = time.Second // how long a list waits for what was appended before
	historyPoll   = 20 * time.Millisecond
)

// deadLetters lists dead letters, with their contents.
type deadLetters struct {
	history *historyWait
	auditor *auditor

	cursors    *cursorSeal
	kafka      *producer.Producer
	names      topics.Names
	partitions int32
	readWithin time.Duration
	records    *topicReader
	rows       Letters // of the history; nil: there is none
}

// listLetters lists dead letters, or counts them.
func (s *deadLetters) listLetters(w http.ResponseWriter, r *request) error {
	q, of, err := s.letterQuery(r)
	if err != nil {
		return err
	}
	by := r.query.Get("group_by")
	if err := s.lettersThere(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	if !r.stale() {
		s.awaitLetters(ctx, q)
	}
	if by != "" {
		return s.countLetters(ctx, w, r, q, of, by)
	}
	page, err := s.letterPage(ctx, q)
	if r.read.charge(page.Visited); err != nil {
		return err
	}
	answer := DeadLetters{Items: make([]DeadLetter, 0, len(page.Items))}
	answer.NextCursor = s.cursors.sealLetter(of, page.Next)
	for i := range page.Items {
		answer.Items = append(answer.Items, letterJSON(&page.Items[i]))
	}
	return sendJSON(w, http.StatusOK, answer)
}

func (s *deadLetters) lettersThere() error {
	if s.rows == nil {
		return noHistory(errNoHistory)
	}
	return nil
}

func (s *deadLetters) letterPage(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	page, err := s.rows.Letters(ctx, q)
	if err != nil {
		return page, problem.Unavailable(err, "the history does not answer")
	}
	return page, nil
}

// letterQuery reads the parameters of a list, and to what its cursors are sealed.
func (s *deadLetters) letterQuery(r *request) (q topics.LetterQuery, sealed *letterQuestion, err error) {
	if q, err = s.letterFilters(r); err != nil {
		return q, nil, err
	}
	sealed = &letterQuestion{what: "list", caller: r.who.Tenant, q: q}
	q.After, err = s.cursors.openLetter(sealed, r.query.Get("cursor"))
	return q, sealed, err
}

func (s *deadLetters) letterFilters(r *request) (q topics.LetterQuery, err error) {
	v := r.query
	if err := r.refuseEmpty("tenant", "trigger_id", "channel", "code", "endpoint", "from", "to", "status", "group_by",
		"cursor"); err != nil {
		return q, err
	}
	q = topics.LetterQuery{
		Channel: v.Get("channel"), Code: v.Get("code"), Newest: true,
	}
	if q.Endpoint, err = letterEndpoint(v.Get("endpoint")); err != nil {
		return q, err
	}
	of, err := r.listRange()
	if err != nil {
		return q, err
	}
	q.Limit, q.From, q.To = of.limit, of.from, of.to
	if q.Tenant, err = s.auditor.tenantOf(r, "dead letters", v.Get("tenant")); err != nil {
		return q, err
	}
	if id := v.Get("trigger_id"); id != "" {
		if q.Tenant, q.Trigger, err = r.letterTrigger(q.Tenant, id); err != nil {
			return q, problem.BadParameter("trigger_id", "trigger_id is not the id of a trigger")
		}
	}
	if v.Has("status") {
		status, ok := topics.ParseLetterStatus(v.Get("status"))
		if !ok {
			return q, problem.BadParameter("status", "status is open, redriven, resolved or all")
		}
		q.Status = status
	}
	return q, nil
}

// letterEndpoint spells an origin as dead letters do. What is no origin is refused: it would
// match nothing, and a caller would take that for the absence of dead letters.
func letterEndpoint(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if _, err := egress.ParseOrigin(text); err != nil {
		return "", problem.BadParameter("endpoint", "endpoint "+err.Error())
	}
	return egress.OriginOf(text), nil
}

// tenantOf is whose dead letters or refused commands a caller asks for: its own, or if it is an
// operator anybody's; "" is all. To ask for another's is on record.
func (a *auditor) tenantOf(r *request, what, asked string) (string, error) {
	switch {
	case r.who.May(auth.Operate):
		return asked, nil
	case asked != "" && asked != r.who.Tenant:
		a.audit(r.Request, r.who, anothersRecords, "named", recordable(asked))
		return "", problem.New(http.StatusForbidden, problem.CodeForbidden, "tenant",
			what+" of another tenant are for operators: omit tenant")
	}
	return r.who.Tenant, nil
}

// letterTrigger is the key of an id: of a tenant that was named, else of the
// caller's own.
func (r *request) letterTrigger(tenant, id string) (of, key string, err error) {
	if tenant == "" {
		tenant = r.who.Tenant
	}
	other := *r
	other.who.Tenant = tenant
	k, err := other.key(id)
	return tenant, string(k), err
}

func letterJSON(l *topics.Letter) DeadLetter {
	d := DeadLetter{
		TriggerID: trigger.Key(l.Trigger).ID(), Tenant: l.Tenant, CeID: l.DueID, Code: l.Code, Detail: l.Detail,
		Attempts: l.Attempt, Channel: l.Channel, Endpoint: l.Endpoint, FailedAt: l.FailedAt.String(),
		Status: l.Status.String(), Partition: l.Partition, Offset: l.Offset, Truncated: l.Cut,
	}
	if l.ScheduledAt != 0 {
		d.ScheduledAt = l.ScheduledAt.String()
	}
	if l.ExpiresAt != 0 {
		d.ExpiresAt = l.ExpiresAt.String()
	}
	if l.EndedUS != 0 {
		d.EndedAt = trigger.Instant(l.EndedUS / 1000).String()
	}
	return d
}

// countLetters answers group_by.
func (s *deadLetters) countLetters(
	ctx context.Context, w http.ResponseWriter, r *request, q topics.LetterQuery, of *letterQuestion, by string,
) error {
	var sums counts
	var answer Groups
	q.Limit = maxPage
	for {
		page, err := s.letterPage(ctx, q)
		if r.read.charge(page.Visited); err != nil {
			return err
		}
		answer.Visited += int64(page.Visited)
		for i := range page.Items {
			l := &page.Items[i]
			value := map[string]string{"tenant": l.Tenant, "code": l.Code, "endpoint": l.Endpoint}[by]
			sums.add(value, l.FailedAt, GroupSample{trigger.Key(l.Trigger).ID(), l.Tenant, l.Detail})
		}
		if q.After = page.Next; q.After.IsZero() || answer.Visited >= maxCounted {
			break
		}
	}
	answer.Groups, answer.Other = sums.list(), sums.other
	answer.NextCursor = s.cursors.sealLetter(of, q.After)
	return sendJSON(w, http.StatusOK, answer)
}

// awaitLetters waits, for a second at most, until what was appended before is in
// the projection.
func (s *deadLetters) awaitLetters(ctx context.Context, q topics.LetterQuery) {
	all, next := s.lettersNext(q)
	s.history.awaitHistory(ctx, all, next)
}

// requireLetters is awaitLetters for as long as ctx allows, and fails if the projection is still behind.
func (s *deadLetters) requireLetters(ctx context.Context, q topics.LetterQuery) error {
	all, next := s.lettersNext(q)
	return s.history.requireHistory(ctx, all, next)
}

// lettersNext returns the partitions that say what became of a query's letters, and a question for how far the
// history has read them.
func (s *deadLetters) lettersNext(q topics.LetterQuery) ([]kafkapart.TopicPartition, historyNext) {
	letters, events := s.names.DeadLetter(), s.names.Events()
	all := s.history.partitionsOf(letters, trigger.Key(q.Trigger))
	all = append(all, s.history.partitionsOf(events, trigger.Key(q.Trigger))...)
	return all, func(ctx context.Context) (map[kafkapart.TopicPartition]int64, error) {
		dead, happened, err := s.rows.LettersNext(ctx)
		next := map[kafkapart.TopicPartition]int64{}
		for _, at := range all {
			if next[at] = dead[at.Partition]; at.Topic == events {
				next[at] = happened[at.Partition]
			}
		}
		return next, err
	}
}

// historyNext asks the history for the first offset of each partition that it has not read.
type historyNext = func(context.Context) (map[kafkapart.TopicPartition]int64, error)

// historyWait waits until the history has read what is in the topics.
type historyWait struct {
	kafka      *producer.Producer
	partitions int32
}

// partitionsOf are those of a topic that have a trigger's records; all for "".
func (s *historyWait) partitionsOf(topic string, key trigger.Key) (all []kafkapart.TopicPartition) {
	for p := range s.partitions {
		if key == "" || p == topics.Partition([]byte(key), s.partitions) {
			all = append(all, kafkapart.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return all
}

// awaitHistory waits, for a second at most, until the history has what was appended to some
// partitions before. A list that is behind is better than none, so nothing fails here.
func (s *historyWait) awaitHistory(ctx context.Context, all []kafkapart.TopicPartition, next historyNext) {
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	ends, _ := kafkapart.Ends(ctx, s.kafka.Client(), all, kafkapart.ReadCommitted)
	_ = pollUntilRead(ctx, ends, next)
}

// requireHistory waits until the history has what was appended to some partitions before, and fails if ctx ends
// before that.
func (s *historyWait) requireHistory(ctx context.Context, all []kafkapart.TopicPartition, next historyNext) error {
	ends, missing := kafkapart.Ends(ctx, s.kafka.Client(), all, kafkapart.ReadCommitted)
	for at, err := range missing {
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue // it has nothing to read
		}
		err = fmt.Errorf("end of %s/%d: %w", at.Topic, at.Partition, err)
		return problem.Unavailable(err, "Kafka does not answer")
	}
	err := s.dropEmpty(ctx, ends, next)
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p
	}
	if err == nil {
		err = pollUntilRead(ctx, ends, next)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return problem.Unavailable(err, "the history is behind its topics, so it may not know what was redriven "+
			"before; send the request again")
	}
	return problem.Unavailable(err, "the history does not answer")
}

// dropEmpty leaves out partitions that have nothing to read although they end beyond what the history has read:
// retention has removed the rest, and the history would seem to be behind for ever.
func (s *historyWait) dropEmpty(ctx context.Context, ends map[kafkapart.TopicPartition]int64, next historyNext) error {
	at, err := next(ctx)
	if err != nil {
		return err
	}
	for p, end := range ends {
		if at[p] >= end {
			continue
		}
		start, err := startOf(ctx, s.kafka.Client(), p.Topic, p.Partition)
		if err != nil {
			return problem.Unavailable(err, "Kafka does not answer")
		}
		if start >= end {
			delete(ends, p)
		}
	}
	return nil
}

// pollUntilRead polls the history until it has read up to the ends. It returns the history's error, or
// ctx's.
func pollUntilRead(ctx context.Context, ends map[kafkapart.TopicPartition]int64, next historyNext) error {
	for ctx.Err() == nil {
		at, err := next(ctx)
		if err != nil {
			return err
		}
		behind := false
		for p, end := range ends {
			behind = behind || at[p] < end
		}
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(historyPoll):
		}
	}
	return ctx.Err()
}
