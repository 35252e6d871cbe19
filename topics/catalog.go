package topics

import (
	"strconv"
	"strings"
	"time"
)

// Names makes the topics' names.
type Names struct {
	Prefix string // setting topics.prefix; "" means "waterclock."
}

func (n Names) join(name string) string {
	if n.Prefix == "" {
		return "waterclock." + name
	}
	return n.Prefix + name
}

// Begin is what all names begin with.
func (n Names) Begin() string { return n.join("") }

// Commands is the topic of commands.
func (n Names) Commands() string { return n.join("commands") }

// Receipts is the topic of the workers' receipts.
func (n Names) Receipts() string { return n.join("receipts") }

// State is the changelog topic of all stores.
func (n Names) State() string { return n.join("state") }

// Events is the topic of events.
func (n Names) Events() string { return n.join("events") }

// Rejected is the topic of refused commands.
func (n Names) Rejected() string { return n.join("rejected") }

// DeadLetter is the topic of dead letters.
func (n Names) DeadLetter() string { return n.join("dead-letter") }

// Control is the topic of settings that every partition applies.
func (n Names) Control() string { return n.join("control") }

// Endpoints is the topic where webhook workers publish the state of the origins that they
// call.
func (n Names) Endpoints() string { return n.join("endpoints") }

// Watermarks is the topic where each partition says how far it has fired.
func (n Names) Watermarks() string { return n.join("watermarks") }

// Audit is the topic where gateways record who did what over HTTP.
func (n Names) Audit() string { return n.join("audit") }

// Due is the default due topic of a channel.
func (n Names) Due(channel string) string { return n.join("due." + channel) }

// HighLane is the topic for priority high, if the channel has one.
func HighLane(topic string) string { return topic + highLane }

const highLane = ".high"

// Channel is the channel of a due topic: the inverse of Due. It is "" for other topics. For a
// high lane it is "<channel>.high".
func (n Names) Channel(topic string) string {
	channel, ok := strings.CutPrefix(topic, n.join("due."))
	if !ok {
		return ""
	}
	return channel
}

// Topic is one topic as it must be. Configs has every setting that a promise depends on, by
// Kafka's name.
type Topic struct {
	Name        string
	Partitions  int32
	Replication int16
	Configs     map[string]string
	Why         string // who writes and reads it, for people

	// keep says what is lost if Kafka drops records of the topic; "" if that does no harm.
	keep string
	// late says what processes do while the topic is missing; "": they cannot run. A cluster that
	// is being upgraded gets it with topics apply.
	late string
}

// Kafka's names of the settings in the catalogue.
const (
	cfgCleanup       = "cleanup.policy"
	cfgRetention     = "retention.ms"
	cfgRetentionSize = "retention.bytes"
	cfgMinCompaction = "min.compaction.lag.ms"
	cfgMaxCompaction = "max.compaction.lag.ms"
	cfgTimestamp     = "message.timestamp.type"
	cfgCompression   = "compression.type"
	cfgMaxMessage    = "max.message.bytes"
	cfgMinISR        = "min.insync.replicas"
	cfgDeleteAfter   = "delete.retention.ms"
)

// DueRetention is how long due topics keep records.
const DueRetention = 7 * day

const (
	day = 24 * time.Hour

	// A record on rejected or dead-letter is a command's record with more headers. So its
	// topic must take larger records than the brokers' default.
	maxCommandBytes  = 1 << 20
	maxRejectedBytes = 2 << 20
	maxControlBytes  = 4 << 20 // a tz database
)

// Catalogue is every topic, channels' due topics last in the order given. A caller that wants
// other settings, such as a longer retention of events, changes Configs before Plan.
func Catalogue(n Names, partitions int32, replication int16, channels []string) []Topic {
	ts := withoutDue(n)
	for i := range ts {
		ts[i].fill(partitions, replication)
	}
	for _, c := range channels {
		ts = append(ts, DueTopic(n.Due(c), partitions, replication))
	}
	return ts
}

// withoutDue is every topic but the channels' due topics.
func withoutDue(n Names) []Topic {
	return []Topic{
		{
			Name: n.Commands(), keep: "a command unread",
			Why: "written by producers and gateways, decided by the engine",
			Configs: map[string]string{
				cfgCleanup: "compact,delete", cfgRetention: ms(30 * day), cfgMinCompaction: ms(7 * day),
				cfgMaxCompaction: ms(8 * day),
				cfgMaxMessage:    strconv.Itoa(maxCommandBytes), cfgTimestamp: "LogAppendTime",
			},
		},
		{
			Name: n.Receipts(), keep: "a receipt unread", Why: "channels report the outcome of due events",
			Configs: map[string]string{
				cfgCleanup: "delete", cfgRetention: ms(7 * day), cfgTimestamp: "LogAppendTime",
			},
		},
		{Name: n.State(), keep: "triggers", Why: "the engine's changelog", Configs: map[string]string{
			cfgCleanup: "compact", cfgDeleteAfter: ms(day), cfgMaxCompaction: ms(8 * day),
			cfgMaxMessage: strconv.Itoa(maxRejectedBytes), cfgTimestamp: "LogAppendTime",
		}},
		{
			Name: n.Events(), keep: "history", Why: "every event, for analysts and the history sink",
			Configs: map[string]string{
				cfgCleanup: "delete", cfgRetention: ms(30 * day), cfgCompression: "zstd",
				cfgTimestamp: "LogAppendTime",
			},
		},
		{
			Name: n.Rejected(), keep: "refusals", Why: "refused commands, with the reason",
			Configs: map[string]string{
				cfgCleanup: "delete", cfgRetention: ms(14 * day), cfgMaxMessage: strconv.Itoa(maxRejectedBytes),
			},
		},
		{Name: n.DeadLetter(), keep: "dead letters", Why: "undeliverable due events", Configs: map[string]string{
			cfgCleanup: "delete", cfgRetention: ms(30 * day), cfgMaxMessage: strconv.Itoa(maxRejectedBytes),
		}},
		{
			Name: n.Control(), Partitions: 1, keep: "settings", Why: "tz database and calendars, switched at an offset",
			Configs: map[string]string{
				cfgCleanup: "compact", cfgMaxMessage: strconv.Itoa(maxControlBytes),
			},
		},
		{
			Name: n.Endpoints(), Partitions: 1, Why: "webhook workers: breakers and counts, for operators",
			Configs: map[string]string{
				cfgCleanup: "compact", cfgMaxCompaction: ms(time.Hour), cfgTimestamp: "LogAppendTime",
			},
		},
		{
			Name: n.Watermarks(), Why: "how far each partition has fired, for analysts and gateways",
			Configs: map[string]string{
				cfgCleanup: "compact", cfgMinCompaction: ms(time.Hour), cfgTimestamp: "LogAppendTime",
			},
		},
		{
			Name: n.Audit(), Partitions: 1, keep: "who did what", Why: "who did what over HTTP, for operators",
			late: "acts over HTTP are refused by instances that have written to it; those of others are in the log " +
				"alone",
			Configs: map[string]string{
				cfgCleanup: "delete", cfgRetention: ms(400 * day), cfgTimestamp: "LogAppendTime",
			},
		},
	}
}

// DueTopic is the topic of a channel, whatever its name.
func DueTopic(name string, partitions int32, replication int16) Topic {
	t := Topic{Name: name, keep: "due events", Why: "due events, for the channel's team", Configs: map[string]string{
		cfgCleanup: "delete", cfgRetention: ms(DueRetention), cfgTimestamp: "LogAppendTime",
	}}
	t.fill(partitions, replication)
	return t
}

func (t *Topic) fill(partitions int32, replication int16) {
	if t.Partitions == 0 {
		t.Partitions = partitions
	}
	t.Replication = replication
	if replication >= 3 {
		t.Configs[cfgMinISR] = "2" // acks=all must outlive one broker
	}
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
