package topics

import "strings"

// ACL is what one role needs on the brokers: operations on a resource, by Kafka's names.
// Other roles do not need it, and some must not have it (docs/operations/kafka.md).
type ACL struct {
	Role       string // one of those below; channel:<name> for a team
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
	RoleAPI      = "api"
	RoleHistory  = "history"
	RoleWebhook  = "webhook"
	RolePush     = "push"
	RoleSMS      = "sms"
	RoleEmail    = "email"
	RoleExport   = "export"
	RoleOperator = "operator"
	RoleProducer = "producer"
	RoleAnalyst  = "analyst"
	RoleChannel  = "channel:" // + its name
)

// ACLOptions has what the ACLs of a cluster depend on.
type ACLOptions struct {
	Names    Names
	Group    string // setting group
	Manage   bool   // setting topics.manage
	Channels []ChannelACL
	// Who has the principals of the roles other than channels. The defaults are User:<group>,
	// User:<group>-api, User:<group>-history, User:<group>-webhook and so on for
	// push, sms, email and export, User:operator, User:producer, User:analyst.
	Who map[string]string
}

// ChannelACL is a channel and the team that reads it.
type ChannelACL struct {
	Name     string
	Topics   []string // its own and, where it has one, the high lane
	Receipts bool     // the team answers with receipts
	Team     string   // its principal; "" means User:<channel>
}

// ACLs lists what each role needs, the engine first.
func ACLs(o ACLOptions) []ACL {
	e := &aclWriter{}
	e.engine(&o)
	e.api(&o)
	e.history(&o)
	e.webhook(&o)
	for _, channel := range []string{RolePush, RoleSMS, RoleEmail} {
		e.worker(&o, channel)
	}
	e.export(&o)
	e.operator(&o)
	e.producer(&o)
	for i := range o.Channels {
		e.team(&o, &o.Channels[i])
	}
	e.as(RoleAnalyst, principal(o.Who[RoleAnalyst], RoleAnalyst))
	e.add("an analyst", "topic", o.Names.Events(), false, "Read", "Describe")
	e.add("and up to when they are complete", "topic", o.Names.Watermarks(), false, "Read", "Describe")
	e.ownGroups()
	return e.all
}

func (w *aclWriter) engine(o *ACLOptions) {
	prefix := o.Names.Begin()
	w.as(RoleEngine, principal(o.Who[RoleEngine], o.Group))
	w.add("the engine", "topic", prefix, true, "Read", "Write", "Describe", "DescribeConfigs")
	w.elsewhere(o, "Read", "Write", "Describe", "DescribeConfigs")
	w.add("its consumer group", "group", o.Group, false, "Read", "Describe")
	w.add("the lock of each partition", "transactional-id", o.Group+"-", true, "Write", "Describe")
	if o.Manage {
		w.add("only with topics.manage: true", "topic", prefix, true, "Create", "AlterConfigs")
	}
	w.add("only for doctor, which reads the brokers' settings", "cluster", "", false, "DescribeConfigs")
}

// api may write commands and settings, and delete due topics, and nothing else. An attacker who takes
// over an API can do what its callers can, operators included, but cannot forge the engine's records.
func (w *aclWriter) api(o *ACLOptions) {
	n := o.Names
	w.as(RoleAPI, principal(o.Who[RoleAPI], o.Group+"-api"))
	w.add("the API compares the topics with its settings", "topic", n.Begin(), true, "Describe", "DescribeConfigs")
	w.elsewhere(o, "Describe", "DescribeConfigs")
	w.add("writes commands", "topic", n.Commands(), false, "Write")
	w.add("finds owners", "topic", n.State(), false, "Read")
	w.add("shows events", "topic", n.Events(), false, "Read")
	w.add("keeps calendars", "topic", n.Control(), false, "Read", "Write")
	w.add("records who did what, and shows it", "topic", n.Audit(), false, "Read", "Write")
	w.add("shows endpoints", "topic", n.Endpoints(), false, "Read")
	w.add("shows watermarks", "topic", n.Watermarks(), false, "Read")
	w.add("redrives dead letters", "topic", n.DeadLetter(), false, "Read")
	w.add("lists refused commands", "topic", n.Rejected(), false, "Read")
	w.add("removes channels; without it, it does not", "topic", n.Due(""), true, "Delete")
	w.add("warns of channels without readers; without it, it does not", "group", "*", false, "Describe")
}

// history may write nothing to Kafka.
func (w *aclWriter) history(o *ACLOptions) {
	n := o.Names
	w.as(RoleHistory, principal(o.Who[RoleHistory], o.Group+"-history"))
	w.add("the history compares the topics with its settings", "topic", n.Begin(), true, "Describe",
		"DescribeConfigs")
	w.elsewhere(o, "Describe", "DescribeConfigs")
	w.add("reads events", "topic", n.Events(), false, "Read")
	w.add("with its consumer group", "group", o.Group+"-history", false, "Read", "Describe")
	w.add("lists dead letters", "topic", n.DeadLetter(), false, "Read")
	w.add("with a consumer group too", "group", o.Group+"-history-letters", false, "Read", "Describe")
	w.add("reads due events, for the content of notifications", "topic", n.Due(""), true, "Read")
	w.elsewhere(o, "Read")
	w.add("with its consumer group", "group", o.Group+"-history-content", false, "Read", "Describe")
}

// export reads without a consumer group: it keeps its offsets beside its files.
func (w *aclWriter) export(o *ACLOptions) {
	n := o.Names
	w.as(RoleExport, principal(o.Who[RoleExport], o.Group+"-export"))
	w.add("the export compares the topics with its settings", "topic", n.Begin(), true, "Describe",
		"DescribeConfigs")
	w.elsewhere(o, "Describe", "DescribeConfigs")
	w.add("reads events", "topic", n.Events(), false, "Read")
	w.add("records up to when its files are complete", "topic", n.Watermarks(), false, "Read")
}

// webhook is a process with the role webhook alone: a worker, and nothing else.
func (w *aclWriter) webhook(o *ACLOptions) {
	w.worker(o, RoleWebhook)
	w.add("publishes the state of endpoints", "topic", o.Names.Endpoints(), false, "Write")
	w.add("finds the owner to ask, for callback.recheck", "topic", o.Names.State(), false, "Read")
}

// worker is a process with the role of one channel of ours alone.
func (w *aclWriter) worker(o *ACLOptions, channel string) {
	n := o.Names
	w.as(channel, principal(o.Who[channel], o.Group+"-"+channel))
	w.add("the "+channel+" worker compares the topics with its settings", "topic", n.Begin(), true, "Describe",
		"DescribeConfigs")
	w.elsewhere(o, "Describe", "DescribeConfigs")
	due := []string{n.Due(channel), HighLane(n.Due(channel))}
	for i := range o.Channels {
		if o.Channels[i].Name == channel {
			due = o.Channels[i].Topics
		}
	}
	for _, topic := range due {
		w.add("reads due events", "topic", topic, false, "Read")
		if o.Manage {
			w.add("creates the topic before its first event, only with topics.manage: true", "topic", topic, false,
				"Create")
		}
	}
	w.add("writes receipts, and reads what was answered", "topic", n.Receipts(), false, "Read", "Write")
	w.add("with its consumer group", "group", o.Group+"."+channel, false, "Read", "Describe")
}

// operator may read refused commands and dead letters. Those topics hold bytes of all
// tenants, and Kafka has no rights on single records.
func (w *aclWriter) operator(o *ACLOptions) {
	n := o.Names
	w.as(RoleOperator, principal(o.Who[RoleOperator], RoleOperator))
	w.add("an operator reads what was refused, of all tenants", "topic", n.Rejected(), false, "Read", "Describe")
	w.add("and dead letters", "topic", n.DeadLetter(), false, "Read", "Describe")
	w.add("and who did what", "topic", n.Audit(), false, "Read", "Describe")
	w.add("and what happened, as the runbook does", "topic", n.Events(), false, "Read", "Describe")
	w.add("puts calendars and tz releases", "topic", n.Control(), false, "Read", "Write", "Describe")
	w.ownGroups()
}

func (w *aclWriter) producer(o *ACLOptions) {
	w.as(RoleProducer, principal(o.Who[RoleProducer], RoleProducer))
	w.add("a producer of commands, trusted for all tenants", "topic", o.Names.Commands(), false, "Write", "Describe")
}

func (w *aclWriter) team(o *ACLOptions, c *ChannelACL) {
	w.as(RoleChannel+c.Name, principal(c.Team, c.Name))
	w.add("the team of channel "+c.Name+": due events in", "topic", c.Topics[0], false, "Read", "Describe")
	for _, lane := range c.Topics[1:] {
		w.add("also of priority high", "topic", lane, false, "Read", "Describe")
	}
	w.ownGroups()
	if c.Receipts {
		w.add("receipts out, and what was answered", "topic", o.Names.Receipts(), false, "Read", "Write", "Describe")
		w.add("with the consumer group of the worker kits", "group", o.Group+"."+c.Name, false, "Read", "Describe")
	}
}

// elsewhere adds the due topics that do not begin with the prefix.
func (w *aclWriter) elsewhere(o *ACLOptions, operations ...string) {
	for _, c := range o.Channels {
		for _, topic := range c.Topics {
			if !strings.HasPrefix(topic, o.Names.Begin()) {
				w.add("channel "+c.Name+" has a topic of its own", "topic", topic, false, operations...)
			}
		}
	}
}

func (w *aclWriter) ownGroups() {
	w.add("with consumer groups of its own", "group", groupOf(w.principal), true, "Read")
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

func (w *aclWriter) as(role, principal string) { w.role, w.principal = role, principal }

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
