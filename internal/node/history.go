package node

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/cassandra"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// openHistory opens the history, for the role that writes it or for an API that reads it.
func (n *node) openHistory() error {
	if len(n.cfg.Cassandra.Hosts) == 0 {
		return nil
	}
	o, err := CassandraOptions(n.cfg)
	if err != nil {
		return err
	}
	o.Migrate, o.Logger = n.cfg.HasRole("history"), n.log.With("role", "history")
	n.history, err = cassandra.New(o)
	return err
}

func (n *node) closeHistory() {
	if n.history != nil {
		if err := n.history.Close(); err != nil {
			n.log.Warn("closing the history failed", "error", err)
		}
	}
}

// While the history does not answer, it is asked again so often; one question takes at most so long.
const (
	historyEvery  = time.Second
	historyWithin = 5 * time.Second
	historyQuiet  = 15 * time.Second // the first tables take longer than a question: the log waits so long
)

// awaitHistory asks the history until it answers. In the role history the first question makes the
// tables. Without it they would be made for the first event, and an API would answer 503 until then.
// An API without that role waits here for the tables.
func (n *node) awaitHistory(ctx context.Context) error {
	said, began := false, time.Now()
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, historyWithin)
		_, err := n.history.Progress(ask)
		cancel()
		if err == nil {
			n.historyAway.Store(nil)
			return nil
		}
		why := fmt.Sprintf("the history is not read or written: waiting for keyspace %s in Cassandra, whose tables a "+
			"process with role history makes: %v", n.cfg.Cassandra.Keyspace, err)
		n.historyAway.Store(&why)
		if !said && time.Since(began) >= historyQuiet && ctx.Err() == nil {
			said = true
			n.log.Warn("the history does not answer yet; it is asked again every second", "keyspace",
				n.cfg.Cassandra.Keyspace, "error", err)
		}
		wait.For(ctx, historyEvery)
	}
	return nil
}

// historyNotes returns what /readyz says while the history has not answered since the start.
func (n *node) historyNotes() []string {
	if why := n.historyAway.Load(); why != nil {
		return []string{*why}
	}
	return nil
}

// runHistory writes events to the history until ctx ends.
func (n *node) runHistory(ctx context.Context) error {
	p, err := sinks.NewProjector(n.history, n.reader(n.names.Events(), n.cfg.HistoryGroup(), n.metrics.History()))
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// runLetters writes dead letters to the history until ctx ends.
func (n *node) runLetters(ctx context.Context) error {
	p, err := sinks.NewLetterProjector(n.history,
		n.reader(n.names.DeadLetter(), n.cfg.LettersGroup(), n.metrics.Letters()))
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// mostWritten is how many bytes of events a reader of the history writes at once.
const mostWritten = 4 << 20

// reader returns the options of a reader of the history.
func (n *node) reader(topic, group string, hooks sinks.Hooks) sinks.Options {
	return sinks.Options{
		Kafka: n.clients, Topic: topic, Group: group, MaxBuffered: int32(n.shares.Read),
		MaxBytes: int(min(n.shares.Read, mostWritten)), Logger: n.log.With("role", "history"), Hooks: hooks,
	}
}

// runContents writes the contents of notifications to the history until ctx ends.
func (n *node) runContents(ctx context.Context) error {
	return sinks.RunContents(ctx, n.history, n.contentReader())
}

func (n *node) contentReader() sinks.ContentOptions {
	return sinks.ContentOptions{
		Kafka: n.clients, Topics: DueTopics(n.cfg), Group: n.cfg.ContentGroup(), MaxBuffered: int32(n.shares.Read),
		Lag: n.metrics.ContentLag, Logger: n.log.With("role", "history"),
	}
}

// DueTopics returns patterns that match the due topics of all channels.
func DueTopics(c *config.Config) []string {
	return dueTopics(topics.Names{Prefix: c.Topics.Prefix}, channelTopics(c))
}

// dueTopics returns patterns that match the topics of all channels: those in the settings, and
// those that commands create.
func dueTopics(names topics.Names, channels map[string]string) []string {
	all := []string{"^" + regexp.QuoteMeta(names.Due("")) + ".+$"}
	for _, topic := range channels {
		if names.Channel(topic) == "" { // a topic with a name of the user's choice
			all = append(all, "^"+regexp.QuoteMeta(topic)+"$", "^"+regexp.QuoteMeta(topics.HighLane(topic))+"$")
		}
	}
	slices.Sort(all)
	return all
}

// historyReader lets the gateway read the history.
type historyReader struct{ h sinks.History }

func (r historyReader) Events(
	ctx context.Context, tenant string, key trigger.Key, after gateway.EventCursor, limit int, most int64,
) (list []topics.Event, more bool, err error) {
	page, err := r.h.Events(ctx, sinks.EventQuery{
		Tenant: tenant, Trigger: string(key), After: sinks.EventCursor(after), Limit: limit, Bytes: most,
	})
	if err != nil {
		return nil, false, err
	}
	list = make([]topics.Event, len(page.Events))
	for i := range page.Events {
		list[i] = page.Events[i].Event
	}
	return list, page.Next != (sinks.EventCursor{}), nil
}

func (r historyReader) LastEvents(
	ctx context.Context, tenant string, key trigger.Key, limit int,
) ([]topics.Event, error) {
	q := sinks.EventQuery{Tenant: tenant, Trigger: string(key), Newest: true, Bytes: payloadsAtOnce}
	out := make([]topics.Event, 0, limit)
	for len(out) < limit {
		q.Limit = limit - len(out)
		page, err := r.h.Events(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Events {
			e := page.Events[i].Event
			e.Payload, e.PayloadBase64 = nil, ""
			out = append(out, e)
		}
		if page.Next == (sinks.EventCursor{}) {
			break
		}
		q.After = page.Next
	}
	slices.Reverse(out)
	return out, nil
}

// payloadsAtOnce is how many bytes of events with payloads a reader has in memory that wants none.
const payloadsAtOnce = 1 << 20

func (r historyReader) Next(ctx context.Context, partition int32) (int64, error) {
	progress, err := r.h.Progress(ctx)
	return progress[partition].Next, err
}

func (r historyReader) Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	return r.h.Letters(ctx, q)
}

func (r historyReader) LettersNext(ctx context.Context) (letters, events map[int32]int64, err error) {
	dead, err := r.h.LetterProgress(ctx)
	if err != nil {
		return nil, nil, err
	}
	events, err = r.EventsNext(ctx)
	return nextOf(dead), events, err
}

func (r historyReader) Notifications(ctx context.Context, q topics.NotificationQuery) (topics.NotificationPage, error) {
	return r.h.Notifications(ctx, q)
}

func (r historyReader) Notification(ctx context.Context, tenant, id string) (topics.Notification, bool, error) {
	return r.h.Notification(ctx, tenant, id)
}

func (r historyReader) EventsNext(ctx context.Context) (map[int32]int64, error) {
	happened, err := r.h.Progress(ctx)
	return nextOf(happened), err
}

func (r historyReader) TriggersOf(ctx context.Context, tenant, user string, visit func(trigger.Key) error) error {
	return r.h.TriggersOf(ctx, tenant, user, func(key string) error { return visit(trigger.Key(key)) })
}

func nextOf(all map[int32]sinks.Progress) map[int32]int64 {
	next := make(map[int32]int64, len(all))
	for partition, p := range all {
		next[partition] = p.Next
	}
	return next
}

// EmbeddedOptions returns the options of a history in a directory.
func EmbeddedOptions(c *config.Config, dir string) embedded.Options {
	return embedded.Options{Dir: dir, Retention: c.History.Retention}
}

// CassandraOptions returns the options of the configured keyspace.
func CassandraOptions(c *config.Config) (cassandra.Options, error) {
	s := c.Cassandra
	o := cassandra.Options{
		Hosts: s.Hosts, Keyspace: s.Keyspace, Username: s.User, Password: s.Password,
		Topic: c.Topic("events"), DeadLetters: c.Topic("dead-letter"),
		Replication: cassandra.Replication{Factor: s.Replication.Factor, DCs: s.Replication.DataCenters},
		Retention:   c.History.Retention,
	}
	if len(s.Hosts) == 0 {
		return o, &SettingError{"name the Cassandra nodes with --cassandra-hosts or the setting cassandra.hosts"}
	}
	encrypted, err := kafkaconn.TLS("cassandra.tls", s.TLS)
	if s.TLS.Enabled {
		o.TLS = encrypted
	}
	return o, err
}
