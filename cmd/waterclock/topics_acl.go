package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// aclFlags select the ACLs and name their principals.
type aclFlags struct {
	only                 bool
	channels, principals []string
}

func (f *aclFlags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.only, "acls", false, "print only the ACLs, without asking a broker")
	fs.StringArrayVar(&f.channels, "channel", nil,
		"another `channel` to print its team's ACLs for, not in use and not in the settings; may be repeated")
	fs.StringArrayVar(&f.principals, "principal", nil,
		"principal of a role, `role=User:name`: "+strings.Join(aclRoles, ", ")+" or channel:NAME; may be repeated")
}

// acls returns the ACLs for the settings and for the channels in use.
func (f *aclFlags) acls(c *config.Config, inUse []string) ([]topics.ACL, error) {
	who, err := f.who()
	if err != nil {
		return nil, err
	}
	for _, role := range c.Roles { // a process logs in as one user, whatever its roles
		if user := c.Kafka.SASL.User; user != "" && who[role] == "" {
			who[role] = "User:" + user
		}
	}
	o := topics.ACLOptions{
		Names: topics.Names{Prefix: c.Topics.Prefix}, Group: c.Group, Manage: c.Topics.Manage, Who: who,
	}
	names := slices.Concat([]string{"default"}, inUse, f.channels, slices.Collect(maps.Keys(c.Channels)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !topics.ValidChannel(name) {
			return nil, usagef("--channel %s: a channel is 1 to 49 of a-z 0-9 . _ -, the first a letter or digit", name)
		}
		ch := c.Channel(name)
		team := topics.ChannelACL{
			Name: name, Topics: []string{ch.Topic}, Receipts: ch.Receipts,
			Team: who[topics.RoleChannel+name],
		}
		if ch.HighLane {
			team.Topics = append(team.Topics, topics.HighLane(ch.Topic))
		}
		o.Channels = append(o.Channels, team)
	}
	return topics.ACLs(o), nil
}

var aclRoles = []string{
	topics.RoleEngine, topics.RoleAPI, topics.RoleHistory, topics.RoleWebhook, topics.RolePush, topics.RoleSMS,
	topics.RoleEmail, topics.RoleExport, topics.RoleOperator, topics.RoleProducer, topics.RoleAnalyst,
}

// who returns the principal of each role that was named.
func (f *aclFlags) who() (map[string]string, error) {
	who := map[string]string{}
	for _, pair := range f.principals {
		role, principal, _ := strings.Cut(pair, "=")
		if _, name, _ := strings.Cut(principal, ":"); name == "" {
			return nil, usagef("--principal %s: write role=User:name", pair)
		}
		if channel, ok := strings.CutPrefix(role, topics.RoleChannel); ok {
			f.channels = append(f.channels, channel)
		} else if !slices.Contains(aclRoles, role) {
			return nil, usagef("--principal %s: a role is %s or channel:NAME", pair, strings.Join(aclRoles, ", "))
		}
		who[role] = principal
	}
	return who, nil
}

// printACLs prints the ACLs without a broker. While a cluster is being set up, no broker accepts
// us yet.
func (a *app) printACLs(f *aclFlags) error {
	c, err := a.config(false)
	if err != nil {
		return err
	}
	acls, err := f.acls(c, nil)
	if err != nil {
		return err
	}
	if a.out.format == "table" {
		return a.printACLScript(c, acls)
	}
	return a.out.list(aclItems(acls), nil, nil)
}

// printPlanAndACLs prints the plan and the ACLs: as JSON in one object, else one after the other.
func (a *app) printPlanAndACLs(c *config.Config, plan []topics.Change, acls []topics.ACL) error {
	switch a.out.format {
	case "json":
		return a.out.json(map[string]any{"changes": changeItems(plan), "acls": aclItems(acls)})
	case "ndjson":
		if err := a.printPlan(plan); err != nil {
			return err
		}
		return a.out.list(aclItems(acls), nil, nil)
	}
	if err := a.printPlan(plan); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.io.out); err != nil {
		return err
	}
	return a.printACLScript(c, acls)
}

// printACLScript prints a shell script that creates the ACLs.
func (a *app) printACLScript(c *config.Config, acls []topics.ACL) error {
	var b strings.Builder
	fmt.Fprintf(&b, "acl() { kafka-acls.sh --bootstrap-server %s --command-config admin.properties --add \"$@\"; }\n",
		shellWord(c.Brokers[0]))
	role := ""
	for i := range acls {
		if acls[i].Role != role {
			role = acls[i].Role
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "# %s\nacl", acls[i].Why)
		for _, word := range acls[i].Args() {
			b.WriteString(" " + shellWord(word))
		}
		b.WriteString("\n")
	}
	_, err := fmt.Fprint(a.io.out, b.String())
	return err
}

// shellWord quotes a word if a shell would interpret it.
func shellWord(s string) string {
	const plain = "-_.:,/@%+=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func aclItems(acls []topics.ACL) []any {
	items := []any{}
	for i := range acls {
		pattern := "literal"
		if acls[i].Prefixed {
			pattern = "prefixed"
		}
		items = append(items, struct {
			Role       string   `json:"role"`
			Principal  string   `json:"principal"`
			Operations []string `json:"operations"`
			Resource   string   `json:"resource"`
			Name       string   `json:"name,omitempty"`
			Pattern    string   `json:"pattern"`
			Why        string   `json:"why"`
		}{acls[i].Role, acls[i].Principal, acls[i].Operations, acls[i].Resource, acls[i].Name, pattern, acls[i].Why})
	}
	return items
}
