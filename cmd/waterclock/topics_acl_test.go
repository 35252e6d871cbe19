package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The ACLs depend on who runs which role, the prefix and the group, a channel's own topic, its
// high lane and its receipts. No broker is asked.
func TestPlanACLs(t *testing.T) {
	nowhere := []string{"--brokers", nobody(t), "topics", "plan", "--acls"}
	plan := func(more ...string) result {
		return cli(t, nil, "", append(nowhere[:len(nowhere):len(nowhere)], more...)...)
	}
	for _, row := range []struct {
		name string
		args []string
		want []string
		not  string
	}{
		{"as it comes", nil, []string{
			"User:waterclock --operation Read", "--topic waterclock. --resource-pattern-type prefixed",
			"--transactional-id waterclock-",
			"User:producer --operation Write --operation Describe --topic waterclock.commands",
			"User:waterclock-api --operation Write --topic waterclock.commands",
			"User:waterclock-api --operation Read --operation Write --topic waterclock.control",
			"User:waterclock-history --operation Read --topic waterclock.events",
			"User:waterclock-export --operation Read --topic waterclock.events",
			"User:waterclock-push --operation Read --topic waterclock.due.push\n",
			"User:waterclock-sms --operation Read --operation Write --topic waterclock.receipts",
			"User:waterclock-email --operation Read --operation Describe --group waterclock.email",
			"User:operator --operation Read --operation Describe --topic waterclock.rejected",
			"User:default --operation Read --operation Describe --topic waterclock.due.default",
			"User:analyst --operation Read --operation Describe --topic waterclock.events",
		}, "--operation Read --operation Write --operation Describe --topic waterclock.receipts"},
		{
			"a channel of ours with a topic of its own",
			[]string{"--set", "channels.push.topic=team.push"},
			[]string{
				"User:waterclock-push --operation Read --topic team.push\n",
				"User:waterclock-sms --operation Read --topic waterclock.due.sms\n",
			},
			"--topic waterclock.due.push",
		},
		{
			"prefix and group",
			[]string{"--set", "topics.prefix=x.", "--set", "group=g"},
			[]string{"--topic x. ", "--group g\n", "--transactional-id g-", "User:g "},
			"waterclock.",
		},
		{"topics made by somebody else", []string{"--set", "topics.manage=false"}, nil, "--operation Create"},
		{"the user that logs in", []string{
			"--set", "kafka.sasl.mechanism=PLAIN", "--set", "kafka.sasl.user=eng", "--set",
			"kafka.sasl.password=x", "--set", "kafka.tls.enabled=true",
		}, []string{"User:eng "}, "User:waterclock "},
		{
			"named",
			[]string{
				"--principal", "producer=User:CN=check out", "--principal", "channel:orders=User:o",
				"--principal", "analyst=User:CN=look on", "--principal", "api=User:front",
			},
			[]string{
				"--allow-principal 'User:CN=check out'", "--group 'CN=look on-'", "User:front --operation Write",
				"User:o --operation Read --operation Describe --topic waterclock.due.orders",
			},
			"User:producer",
		},
		{
			"one user for the roles of one process",
			[]string{
				"--set", "kafka.sasl.mechanism=PLAIN", "--set", "kafka.sasl.user=all", "--set", "kafka.sasl.password=x",
				"--set", "kafka.tls.enabled=true", "--set", "roles=engine,api,history,webhook,push,sms,email,export",
				"--set", "providers.outbox.dir=out", "--set", "export.dir=out",
			},
			[]string{
				"User:all --operation Read --operation Write --operation Describe",
				"User:all --operation Read --topic waterclock.events",
			},
			"User:waterclock",
		},
		{
			"a topic of its own, a lane, receipts",
			[]string{"--channel", "sms", "--set", "channels.mail.topic=team.mail"},
			[]string{
				"User:waterclock --operation Read --operation Write --operation Describe --operation " +
					"DescribeConfigs --topic team.mail", "--topic waterclock.due.sms.high",
				"User:sms --operation Read --operation Write --operation Describe --topic waterclock.receipts",
				"User:sms --operation Read --operation Describe --group waterclock.sms\n",
			},
			"",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := plan(row.args...)
			r.want(t, exitOK, row.want...)
			if row.not != "" && strings.Contains(strings.ReplaceAll(r.out, "admin.properties", ""), row.not) {
				t.Errorf("%s has no place in\n%s", row.not, r.out)
			}
		})
	}
	plan("--principal", "boss=User:x").want(t, exitUsage,
		"push, sms, email, export, operator, producer, analyst or channel:NAME")
	plan("--principal", "producer").want(t, exitUsage, "role=User:name")
	plan("--channel", "S M S").want(t, exitUsage, "--channel S M S")
}

// The ACLs limit who may write to each topic, and who may read what all tenants wrote. The
// principals of one role must not be able to do another role's work.
func TestACLsSeparateRoles(t *testing.T) {
	r := cli(t, nil, "", "--brokers", nobody(t), "topics", "plan", "--acls", "--channel", "sms", "-o", "json")
	var grants []struct {
		Role, Resource, Name, Pattern string
		Operations                    []string
	}
	if err := json.Unmarshal([]byte(r.out), &grants); err != nil {
		t.Fatal(err)
	}
	holders := func(operation, topic string) string {
		var who []string
		for _, g := range grants {
			covers := g.Name == topic || g.Pattern == "prefixed" && strings.HasPrefix(topic, g.Name)
			if g.Resource == "topic" && covers && slices.Contains(g.Operations, operation) &&
				!slices.Contains(who, g.Role) {
				who = append(who, g.Role)
			}
		}
		return strings.Join(who, " ")
	}
	for _, row := range []struct{ operation, topic, want string }{
		{"Write", "commands", "engine api producer"},
		{"Write", "state", "engine"},
		{"Write", "events", "engine"},
		{"Write", "due.sms", "engine"},
		{"Write", "rejected", "engine"},
		{"Write", "receipts", "engine webhook push sms email channel:sms"},
		{"Write", "endpoints", "engine webhook"},
		{"Read", "endpoints", "engine api"},
		{"Write", "watermarks", "engine"},
		{"Read", "watermarks", "engine api export analyst"},
		{"Write", "audit", "engine api"},
		{"Read", "audit", "engine api operator"},
		{"Read", "due.webhook", "engine history webhook"},
		{"Write", "control", "engine api operator"},
		{"Read", "rejected", "engine api operator"},
		{"Read", "dead-letter", "engine api history operator"},
		{"Read", "commands", "engine"},
		{"Read", "state", "engine api webhook"},
		{"Read", "events", "engine api history export operator analyst"},
		{"Read", "due.sms", "engine history sms channel:sms"},
		{"Read", "due.push.high", "engine history push"},
		{"Create", "due.new", "engine"},
		{"Create", "due.push", "engine push"},
	} {
		if got := holders(row.operation, "waterclock."+row.topic); got != row.want {
			t.Errorf("%s on %s: %s, want %s", row.operation, row.topic, got, row.want)
		}
	}
	for _, g := range grants {
		joins := !slices.Equal(g.Operations, []string{"Describe"})
		if g.Resource == "transactional-id" && g.Role != "engine" || g.Resource == "group" && g.Role == "api" && joins {
			t.Errorf("%+v", g)
		}
	}
}

// The plan has changes and ACLs, also as JSON.
func TestPlanHasACLs(t *testing.T) {
	brokers := cluster(t)
	var both struct{ Changes, ACLs []map[string]any }
	r := cli(t, nil, "", "--brokers", brokers, "topics", "plan", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &both); err != nil || len(both.Changes) != 0 || len(both.ACLs) < 10 {
		t.Errorf("%v: %s%s", err, r.out, r.err)
	}
	cli(t, nil, "", "--brokers", brokers, "topics", "plan").want(t, exitOK, "have the required settings",
		"acl --allow-principal User:waterclock")
}
