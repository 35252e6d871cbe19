package topics

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// docs/operations/kafka.md, the table.
func TestCatalogueIsTheContracts(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int32
		configs    string // in order of name; only what the contract fixes
	}{
		{
			"waterclock.commands", 16,
			"cleanup.policy=compact,delete max.compaction.lag.ms=691200000 message.timestamp.type=LogAppendTime " +
				"min.compaction.lag.ms=604800000 retention.ms=2592000000",
		},
		{
			"waterclock.receipts", 16,
			"cleanup.policy=delete message.timestamp.type=LogAppendTime retention.ms=604800000",
		},
		{"waterclock.state", 16, "cleanup.policy=compact message.timestamp.type=LogAppendTime"},
		{
			"waterclock.events", 16,
			"cleanup.policy=delete compression.type=zstd message.timestamp.type=LogAppendTime retention.ms=2592000000",
		},
		{"waterclock.rejected", 16, "cleanup.policy=delete retention.ms=1209600000"},
		{"waterclock.dead-letter", 16, "cleanup.policy=delete retention.ms=2592000000"},
		{"waterclock.control", 1, "cleanup.policy=compact"},
		{
			"waterclock.watermarks", 16,
			"cleanup.policy=compact message.timestamp.type=LogAppendTime min.compaction.lag.ms=3600000",
		},
		{
			"waterclock.audit", 1,
			"cleanup.policy=delete message.timestamp.type=LogAppendTime retention.ms=34560000000",
		},
		{
			"waterclock.due.default", 16,
			"cleanup.policy=delete message.timestamp.type=LogAppendTime retention.ms=604800000",
		},
		{"waterclock.due.sms", 16, "cleanup.policy=delete message.timestamp.type=LogAppendTime retention.ms=604800000"},
	} {
		all := Catalogue(Names{}, 16, 3, []string{"default", "sms"})
		i := slices.IndexFunc(all, func(t Topic) bool { return t.Name == c.name })
		if i < 0 {
			t.Errorf("%s is missing", c.name)
			continue
		}
		for _, want := range strings.Fields(c.configs) {
			name, value, _ := strings.Cut(want, "=")
			if got := all[i].Configs[name]; got != value {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, value)
			}
		}
		if all[i].Partitions != c.partitions || all[i].Replication != 3 ||
			all[i].Configs["min.insync.replicas"] != "2" || all[i].Why == "" {
			t.Errorf("%+v", all[i])
		}
	}
}

func TestNames(t *testing.T) {
	n := Names{Prefix: "acme-"}
	got := []string{
		n.Commands(), n.Receipts(), n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Control(),
		n.Watermarks(), n.Audit(), n.Due("sms"), HighLane(n.Due("sms")),
	}
	want := []string{
		"acme-commands", "acme-receipts", "acme-state", "acme-events", "acme-rejected", "acme-dead-letter",
		"acme-control", "acme-watermarks", "acme-audit", "acme-due.sms", "acme-due.sms.high",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if n.Channel("acme-due.sms") != "sms" || n.Channel("acme-events") != "" || n.Channel("waterclock.due.sms") != "" {
		t.Error("Channel is not the inverse of Due")
	}
}

// existing is a cluster that is as the catalogue wants it.
func existing(want []Topic) []Existing {
	var es []Existing
	for _, t := range want {
		es = append(es, Existing{Name: t.Name, Partitions: t.Partitions, Configs: maps.Clone(t.Configs)})
	}
	return es
}

func TestPlan(t *testing.T) {
	want := Catalogue(Names{}, 16, 1, []string{"default"})
	for _, c := range []struct {
		name   string
		topic  string
		change func(e *Existing)
		plan   string // "" for nothing
	}{
		{"as it must be", "commands", func(*Existing) {}, ""},
		{
			"partitions", "state", func(e *Existing) { e.Partitions = 8 },
			`refuse waterclock.state: partitions is "8", must be "16": ` +
				"triggers would be searched on the wrong partitions (setting topics.partitions)",
		},
		{
			"state deleted by age", "state", func(e *Existing) { e.Configs["cleanup.policy"] = "compact,delete" },
			`refuse waterclock.state: cleanup.policy is "compact,delete", must be "compact": this cleanup policy would lose data: deletion by age drops triggers`,
		},
		{
			"state only deleted", "state", func(e *Existing) { e.Configs["cleanup.policy"] = "delete" },
			`refuse waterclock.state: cleanup.policy is "delete", must be "compact": this cleanup policy would lose data: deletion by age drops triggers`,
		},
		{
			"events compacted", "events", func(e *Existing) { e.Configs["cleanup.policy"] = "compact" },
			`refuse waterclock.events: cleanup.policy is "compact", must be "delete": this cleanup policy would lose data: compaction drops all but the last record of a key, and with them history`,
		},
		{
			"receipts compacted too", "receipts", func(e *Existing) { e.Configs["cleanup.policy"] = "compact,delete" },
			`refuse waterclock.receipts: cleanup.policy is "compact,delete", must be "delete": this cleanup policy would lose data: compaction drops all but the last record of a key, and with them a receipt unread`,
		},
		{
			"policies in another order", "commands",
			func(e *Existing) { e.Configs["cleanup.policy"] = "delete, compact" },
			"",
		},
		{
			"commands only deleted", "commands", func(e *Existing) { e.Configs["cleanup.policy"] = "delete" },
			`alter waterclock.commands: cleanup.policy is "delete", must be "compact,delete"`,
		},
		{
			"commands stamped by producers", "commands",
			func(e *Existing) { e.Configs["message.timestamp.type"] = "CreateTime" },
			`alter waterclock.commands: message.timestamp.type is "CreateTime", must be "LogAppendTime"`,
		},
		{
			"commands compacted too early", "commands", func(e *Existing) { e.Configs["min.compaction.lag.ms"] = "0" },
			`alter waterclock.commands: min.compaction.lag.ms is "0", must be "604800000"`,
		},
		{
			"erased content kept too long", "commands",
			func(e *Existing) { e.Configs["max.compaction.lag.ms"] = "9223372036854775807" },
			`alter waterclock.commands: max.compaction.lag.ms is "9223372036854775807", must be "691200000"`,
		},
		{"events kept for ever", "events", func(e *Existing) { e.Configs["retention.ms"] = "-1" }, ""},
		{"events kept for longer", "events", func(e *Existing) { e.Configs["retention.ms"] = "5184000000" }, ""},
		{
			"events kept for a day", "events", func(e *Existing) { e.Configs["retention.ms"] = "86400000" },
			`alter waterclock.events: retention.ms is "86400000", must be "2592000000"`,
		},
		{
			"a setting unknown", "events", func(e *Existing) { delete(e.Configs, "compression.type") },
			`alter waterclock.events: compression.type is "", must be "zstd"`,
		},
		{"state in another codec", "state", func(e *Existing) { e.Configs["compression.type"] = "lz4" }, ""},
		{"due compressed by brokers", "due.default", func(e *Existing) { e.Configs["compression.type"] = "gzip" }, ""},
		{
			"due deleted by size", "due.default", func(e *Existing) { e.Configs["retention.bytes"] = "1000000" },
			`refuse waterclock.due.default: retention.bytes is "1000000", must be "-1": deletion by size would lose data: it drops due events whatever its age`,
		},
		{"due without bound by size", "due.default", func(e *Existing) { e.Configs["retention.bytes"] = "-1" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			es := existing(want)
			for i := range es {
				if es[i].Name == "waterclock."+c.topic {
					c.change(&es[i])
				}
			}
			var got []string
			for _, change := range Plan(want, es) {
				got = append(got, change.String())
			}
			if strings.Join(got, "\n") != c.plan {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), c.plan)
			}
		})
	}
}

func TestPlanCreatesWhatIsMissing(t *testing.T) {
	want := Catalogue(Names{}, 4, 1, []string{"default"})
	plan := Plan(want, existing(want[1:]))
	if len(plan) != 1 || plan[0] != (Change{Kind: Create, Topic: "waterclock.commands"}) {
		t.Errorf("got %v", plan)
	}
	if err := Check(plan, true); err != nil {
		t.Errorf("managed: %v", err)
	}
	if err := Check(plan, false); err == nil || err.Error() != "create waterclock.commands" {
		t.Errorf("unmanaged: %v", err)
	}
}

// A cluster that is being upgraded has no audit topic yet: that stops nobody, and everything else
// about the topic does.
func TestALateTopic(t *testing.T) {
	want := Catalogue(Names{}, 4, 1, nil)
	es := existing(want)
	i := slices.IndexFunc(es, func(e Existing) bool { return e.Name == Names{}.Audit() })
	plan := Plan(want, slices.Delete(slices.Clone(es), i, i+1))
	if len(plan) != 1 || plan[0].Kind != Create || plan[0].Late == "" {
		t.Fatalf("got %+v", plan)
	}
	if err := Check(plan, false); err != nil {
		t.Errorf("unmanaged: %v", err)
	}
	es[i].Configs["cleanup.policy"] = "compact"
	if err := Check(Plan(want, es), true); err == nil || !strings.Contains(err.Error(), "who did what") {
		t.Errorf("compacted: %v", err)
	}
}

func TestCheckNamesEveryRefusal(t *testing.T) {
	want := Catalogue(Names{}, 16, 1, nil)
	es := existing(want)
	es[0].Partitions, es[2].Configs["cleanup.policy"] = 8, "delete"
	err := Check(Plan(want, es), true)
	if err == nil || !strings.Contains(err.Error(), "topics.partitions") ||
		!strings.Contains(err.Error(), "cleanup.policy") {
		t.Errorf("got %v", err)
	}
}
