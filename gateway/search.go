package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// FoundItems is what a search found.
type FoundItems struct {
	Items  []FoundItem `json:"items" maxItems:"24" doc:"The best match first; empty: there is nothing of this name"`
	Silent []int32     `json:"silent_partitions" doc:"With fresh=false: partitions that did not answer, so that their triggers may be missing, or are known by the history alone; search again"`

	KafkaSilent   bool `json:"kafka_silent,omitempty" doc:"Kafka does not answer for the record that q names, so it may be there; search again"`
	HistorySilent bool `json:"history_silent,omitempty" doc:"The history does not answer, so what the owners no longer have may be missing"`
}

// silent notes that a partition did not answer.
func (f *FoundItems) silent(partitions ...int32) {
	for _, p := range partitions {
		if !slices.Contains(f.Silent, p) {
			f.Silent = append(f.Silent, p)
		}
	}
	slices.Sort(f.Silent)
}

// FoundItem is one thing that a text names.
type FoundItem struct {
	Kind      string `json:"kind" enum:"trigger,user,occurrence,record" doc:"What the text names"`
	TriggerID string `json:"trigger_id,omitempty" doc:"Absent for a user"`
	UserID    string `json:"user_id,omitempty" doc:"The user, or that of the trigger"`

	Occurrence string `json:"occurrence,omitempty" doc:"The occurrence that q names, by a ce_id, a due event or a receipt; code and sentence are of it"`

	// What the owner says of the trigger; absent if only the history, or a record, knows it.

	State      string `json:"state,omitempty" doc:"Absent for a user, and for a trigger that its owner does not have"`
	NextFireAt string `json:"next_fire_at,omitempty" format:"date-time" doc:"When it fires next"`
	Timezone   string `json:"timezone,omitempty" doc:"Its zone; absent if its time has none"`

	// What became of it: a state says FIRED, too, of what a worker decided not to send.

	Code     string `json:"code,omitempty" doc:"What became of it, as explainTrigger says; absent for a user, and for a trigger whose owner does not answer"`
	Sentence string `json:"sentence,omitempty" doc:"For a person; it may change. Times are in the trigger's zone"`

	key   trigger.Key
	owner *trigger.State // what the owner has, also of what it does not show
}

// foundTrigger is an item of a trigger as its owner has it. nil is one that the owner does not show.
func foundTrigger(kind string, key trigger.Key, user string, st *trigger.State) FoundItem {
	found := FoundItem{Kind: kind, TriggerID: key.ID(), UserID: user, key: key, owner: st}
	if st != nil && peer.Shown.Has(st.Status) {
		found.UserID, found.State = st.Spec.UserID, st.Status.String()
		found.NextFireAt, found.Timezone = instantText(st.NextFire()), shownZone(st)
	}
	return found
}

// searches finds what a text names: a trigger, a user, an occurrence by its ce_id, a record by its
// topic, partition and offset. It finds only what is the caller's tenant's.
type searches struct {
	events     *eventLog
	notified   Notifications // of the history; nil: there is none
	kafka      *producer.Producer
	listBudget int
	names      topics.Names
	readWithin time.Duration
	router     *peer.Router
	explained  *explanations
	batches    kgo.Decompressor // bounded: anybody may write to topic commands
}

const (
	maxQuery    = 1024 // bytes of q
	foundOfUser = 20   // triggers that are listed of a user
	searchFetch = 1 << 20

	explainAtOnce = 4 // triggers whose events are read at once

	recordWithin = time.Second
)

// searchBatch bounds what a fetched batch may take in memory.
const searchBatch = 8 << 20

func searchBatches() kgo.Decompressor {
	bound, err := decompress.New(searchBatch)
	if err != nil {
		panic(err) // its codecs are constants
	}
	return bound.Shared()
}

// search finds what q names.
func (s *searches) search(w http.ResponseWriter, r *request) error {
	q := strings.TrimSpace(r.query.Get("q"))
	if q == "" || len(q) > maxQuery {
		return problem.BadParameter("q", "q is a trigger's key, a user, a ce_id, or topic/partition/offset, of at "+
			"most "+strconv.Itoa(maxQuery)+" bytes")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	found := &FoundItems{Items: []FoundItem{}, Silent: []int32{}}
	for _, find := range []func(context.Context, *request, string, *FoundItems) error{
		s.trigger, s.occurrence, s.record, s.user,
	} {
		if err := find(ctx, r, q, found); err != nil {
			return err
		}
	}
	if err := s.explain(r, found); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, found)
}

// explain says of each trigger that was found what became of it. Of one whose owner does not answer nobody knows.
func (s *searches) explain(r *request, found *FoundItems) error {
	var items []*FoundItem
	var of []*explain.Input
	var events atomic.Int64
	var g errgroup.Group
	g.SetLimit(explainAtOnce)
	for i := range found.Items {
		item := &found.Items[i]
		if item.key == "" || slices.Contains(found.Silent, s.router.PartitionOf(item.key)) {
			continue
		}
		in := &explain.Input{ID: item.TriggerID, Occurrence: item.Occurrence, State: item.owner}
		items, of = append(items, item), append(of, in)
		g.Go(func() error {
			n, err := s.explained.readBeside(r, item.key, in)
			events.Add(int64(n))
			return err
		})
	}
	err := g.Wait()
	if r.read.charge(int(events.Load())); err != nil || len(of) == 0 {
		return err
	}
	answers, err := s.explained.explain(r, of)
	if err != nil {
		return err
	}
	for i, item := range items {
		found.HistorySilent = found.HistorySilent || !of[i].History && s.events.history != nil
		item.Code, item.Sentence = string(answers[i].Code), answers[i].Sentence
	}
	return nil
}

// trigger finds a trigger by its id, or by its whole key.
func (s *searches) trigger(ctx context.Context, r *request, q string, found *FoundItems) error {
	ids := []string{q}
	if id, ok := strings.CutPrefix(q, r.who.Tenant+"/"); ok && r.who.Tenant != trigger.DefaultTenant {
		ids = append(ids, id)
	}
	for _, id := range ids {
		key, err := r.key(id)
		if err != nil {
			continue
		}
		if err := s.known(ctx, r, key, "trigger", found); err != nil {
			return err
		}
	}
	return nil
}

// known adds an item for a trigger that its owner or the history knows; none for any other.
func (s *searches) known(ctx context.Context, r *request, key trigger.Key, kind string, found *FoundItems) error {
	st, err := s.state(ctx, r, key, found)
	if err != nil {
		return err
	}
	if st != nil && peer.Shown.Has(st.Status) {
		found.Items = append(found.Items, foundTrigger(kind, key, "", st))
		return nil
	}
	events, err := s.events.last(ctx, key, 1)
	if found.HistorySilent = found.HistorySilent || err != nil && s.events.history != nil; len(events) == 0 {
		return nil // without a history nobody knows more
	}
	found.Items = append(found.Items, foundTrigger(kind, key, events[0].UserID, st))
	return nil
}

// state reads a trigger from its owner. With fresh=false an owner that does not answer is noted, and is no error.
func (s *searches) state(ctx context.Context, r *request, key trigger.Key, found *FoundItems) (*trigger.State, error) {
	if !r.stale() {
		return s.router.Get(ctx, key)
	}
	st, err := s.router.Peek(ctx, key)
	if err != nil && ctx.Err() == nil {
		found.silent(s.router.PartitionOf(key))
		return nil, nil
	}
	return st, err
}

// occurrence finds a trigger by a ce_id, with or without its #step.
func (s *searches) occurrence(ctx context.Context, r *request, q string, found *FoundItems) error {
	key, occurrence, _, err := topics.ParseDueID(q)
	if err != nil {
		key, occurrence, _, err = topics.ParseDueID(q + "#0")
	}
	if err != nil || key.Tenant() != r.who.Tenant {
		return nil
	}
	n := len(found.Items)
	err = s.known(ctx, r, key, "occurrence", found)
	for i := range found.Items[n:] {
		found.Items[n+i].Occurrence = occurrence
	}
	return err
}

// record finds the trigger of a record on topic commands or receipts, or on a due topic. It reads that record and no
// other. That Kafka does not answer for it is noted, and is no error.
func (s *searches) record(ctx context.Context, r *request, q string, found *FoundItems) error {
	at, offset, ok := s.recordAt(q)
	if !ok {
		return nil
	}
	rec, err := s.fetch(ctx, at, offset)
	if found.KafkaSilent = err != nil; rec == nil {
		return nil
	}
	r.read.charge(1)
	key, user, occurrence := s.keyOf(rec)
	if key == "" || key.Tenant() != r.who.Tenant {
		return nil
	}
	st, err := s.state(ctx, r, key, found)
	if err != nil {
		return err
	}
	item := foundTrigger("record", key, user, st)
	item.Occurrence = occurrence
	found.Items = append(found.Items, item)
	return nil
}

// fetch reads one record; nil if there is none: no such topic or partition, nothing there yet or any more, a marker, or
// one that is aborted or not readable.
func (s *searches) fetch(ctx context.Context, at kafkapart.TopicPartition, offset int64) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	end, err := stableEnd(ctx, s.kafka.Client(), at.Topic, at.Partition)
	if errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && offset >= end {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := kafkapart.NewReaderOf(s.kafka.Client(), searchFetch).TryFetch(ctx, at, offset, kafkapart.ReadCommitted)
	if p == nil || err != nil {
		return nil, err
	}
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: at.Topic, Partition: at.Partition,
	}, p, s.batches, nil)
	if len(got.Records) == 0 || got.Records[0].Offset != offset {
		return nil, nil
	}
	return got.Records[0], nil
}

// recordAt reads topic/partition/offset of a topic that a search may read.
func (s *searches) recordAt(q string) (at kafkapart.TopicPartition, offset int64, ok bool) {
	rest, last, ok1 := cutLast(q)
	topic, middle, ok2 := cutLast(rest)
	partition, err1 := strconv.ParseInt(middle, 10, 32)
	offset, err2 := strconv.ParseInt(last, 10, 64)
	ok = ok1 && ok2 && err1 == nil && err2 == nil && partition >= 0 && offset >= 0 &&
		(s.keyed(topic) || s.names.Channel(topic) != "")
	return kafkapart.TopicPartition{Topic: topic, Partition: int32(partition)}, offset, ok
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// keyed reports whether the keys of a topic are those of triggers.
func (s *searches) keyed(topic string) bool {
	return topic == s.names.Commands() || topic == s.names.Receipts()
}

// keyOf is the trigger that a record is about, "" if it is about none, and the occurrence, if it names one.
func (s *searches) keyOf(rec *kgo.Record) (key trigger.Key, user, occurrence string) {
	if s.keyed(rec.Topic) {
		key, err := trigger.ParseKey(rec.Key)
		if err != nil {
			return "", "", ""
		}
		if rec.Topic == s.names.Receipts() {
			if receipt, err := topics.DecodeReceipt(kafkarec.Of(rec)); err == nil && receipt.Key == key {
				occurrence = receipt.Occurrence
			}
		}
		return key, "", occurrence
	}
	due, err := topics.DecodeDue(kafkarec.Of(rec))
	if err != nil {
		return "", "", ""
	}
	return due.Fire.Key, due.Fire.Spec.UserID, due.Fire.Occurrence
}

// user finds a user who has triggers, and the first of them by next due time; or one who has none any more, but
// notifications in the history.
func (s *searches) user(ctx context.Context, r *request, q string, found *FoundItems) error {
	query := peer.Query{
		Tenant: r.who.Tenant, User: q, Limit: foundOfUser, Budget: s.listBudget, Cost: r.read.cost,
		Stale: r.stale(),
	}
	var page peer.Page
	if err := r.read.gather(ctx, func() (err error) {
		page, err = s.router.Find(ctx, query)
		return err
	}); err != nil {
		return err
	}
	found.silent(page.Silent...)
	if len(page.Items) == 0 {
		notified, err := s.wasNotified(ctx, r.who.Tenant, q)
		if found.HistorySilent = found.HistorySilent || err != nil; !notified {
			return nil
		}
	}
	found.Items = append(found.Items, FoundItem{Kind: "user", UserID: q})
	for _, f := range page.Items {
		found.Items = append(found.Items, foundTrigger("trigger", f.State.Key, q, f.State))
	}
	return nil
}

// wasNotified reports whether the history has a notification of a user. As with triggers, nobody knows more without it.
func (s *searches) wasNotified(ctx context.Context, tenant, user string) (bool, error) {
	if s.notified == nil || (preferences.User{Tenant: tenant, ID: user}).Check() != nil {
		return false, nil
	}
	page, err := s.notified.Notifications(ctx, topics.NotificationQuery{Tenant: tenant, User: user, Limit: 1})
	return len(page.Items) > 0, err
}
