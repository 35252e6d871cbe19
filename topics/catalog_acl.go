package topics

import "strings"

// ACL is what one role needs on the brokers: operations on a resource, by
// Kafka's names. Nobody else needs them, and some must not have them
// (docs/operations/kafka.md).
type ACL struct {
	Role       string // engine, producer, analyst, or channel:<name>
	Principal  string // User:…
	Operations []string
	Resource   string // topic, group, transactional-id, cluster
	Name       string // "" for cluster
	Prefixed   bool   // Name is a prefix
	Why        string
}

// The roles.
const (
	RoleEngine   = "engine"
	RoleProducer = "producer"
	RoleAnalyst  = "analyst"
	RoleChannel  = "channel:" // + its name
)

// ACLOptions are what the ACLs of a cluster depend on.
type ACLOptions struct {
	Names    Names
	Group    string // setting group
	Manage   bool   // setting topics.manage
	Channels []ChannelACL
	// The principals of the roles that are no channel; "" means User:<group>,
	// User:producer, User:analyst.
	Engine, Producer, Analyst string
}

// ChannelACL is a channel as its team meets it.
type ChannelACL struct {
	Name     string
	Topics   []string // its own and, where it has one, the high lane
	Receipts bool     // the team answers with receipts
	Team     string   // its principal; "" means User:<channel>
}

// ACLs lists what each role needs, the engine first.
func ACLs(o ACLOptions) []ACL {
	n, prefix := o.Names, strings.TrimSuffix(o.Names.Commands(), "commands")
	e := aclWriter{role: RoleEngine, principal: principal(o.Engine, o.Group)}
	e.add("the engine, the API and the history sink", "topic", prefix, true, "Read", "Write", "Describe",
		"DescribeConfigs")
	for _, c := range o.Channels {
		for _, topic := range c.Topics {
			if !strings.HasPrefix(topic, prefix) {
				e.add("channel "+c.Name+" has a topic of its own", "topic", topic, false, "Read", "Write", "Describe",
					"DescribeConfigs")
			}
		}
	}
	e.add("consumer groups", "group", o.Group, true, "Read", "Describe")
	e.add("the lock of each partition", "transactional-id", o.Group+"-", true, "Write", "Describe")
	if o.Manage {
		e.add("only with topics.manage: true", "topic", prefix, true, "Create", "AlterConfigs")
	}
	e.add("only for doctor, which reads the brokers' settings", "cluster", "", false, "DescribeConfigs")

	e.role, e.principal = RoleProducer, principal(o.Producer, RoleProducer)
	e.add("a producer of commands, trusted for all tenants", "topic", n.Commands(), false, "Write", "Describe")
	e.add("and its view of what was refused", "topic", n.Rejected(), false, "Read", "Describe")
	e.add("with consumer groups of its own", "group", groupOf(e.principal), true, "Read")

	for _, c := range o.Channels {
		e.role, e.principal = RoleChannel+c.Name, principal(c.Team, c.Name)
		e.add("the team of channel "+c.Name+": due events in", "topic", c.Topics[0], false, "Read", "Describe")
		for _, lane := range c.Topics[1:] {
			e.add("also of priority high", "topic", lane, false, "Read", "Describe")
		}
		e.add("with consumer groups of its own", "group", groupOf(e.principal), true, "Read")
		if c.Receipts {
			e.add("receipts out", "topic", n.Receipts(), false, "Write", "Describe")
		}
	}

	e.role, e.principal = RoleAnalyst, principal(o.Analyst, RoleAnalyst)
	e.add("an analyst", "topic", n.Events(), false, "Read", "Describe")
	e.add("with consumer groups of its own", "group", groupOf(e.principal), true, "Read")
	return e.all
}

func principal(given, name string) string {
	if given != "" {
		return given
	}
	return "User:" + name
}

// groupOf is the prefix of a principal's consumer groups: its name.
func groupOf(principal string) string {
	_, name, _ := strings.Cut(principal, ":")
	return name + "-"
}

type aclWriter struct {
	role, principal string
	all             []ACL
}

func (w *aclWriter) add(why, resource, name string, prefixed bool, operations ...string) {
	w.all = append(w.all, ACL{
		Role: w.role, Principal: w.principal, Operations: operations, Resource: resource,
		Name: name, Prefixed: prefixed, Why: why,
	})
}

// Args are the arguments of kafka-acls.sh beside --add.
func (a *ACL) Args() []string {
	args := []string{"--allow-principal", a.Principal}
	for _, op := range a.Operations {
		args = append(args, "--operation", op)
	}
	args = append(args, "--"+a.Resource)
	if a.Name != "" {
		args = append(args, a.Name)
	}
	if a.Prefixed {
		args = append(args, "--resource-pattern-type", "prefixed")
	}
	return args
}
