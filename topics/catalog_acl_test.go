package topics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

// TestTeamMayRunAWorkerKit: the ACLs of a channel's team are the rights of docs/api/worker.md.
func TestTeamMayRunAWorkerKit(t *testing.T) {
	acls := topics.ACLs(topics.ACLOptions{
		Names: topics.Names{Prefix: "wc."}, Group: "clock",
		Channels: []topics.ChannelACL{
			{Name: "orders", Topics: []string{"wc.due.orders", "wc.due.orders.high"}, Receipts: true},
			{Name: "feed", Topics: []string{"wc.due.feed"}},
		},
	})
	may := func(role, operation, resource, name string) bool {
		return slices.ContainsFunc(acls, func(a topics.ACL) bool {
			return a.Role == topics.RoleChannel+role && a.Resource == resource && a.Name == name && !a.Prefixed &&
				slices.Contains(a.Operations, operation)
		})
	}
	for _, right := range [][3]string{
		{"Read", "topic", "wc.due.orders"},
		{"Read", "topic", "wc.due.orders.high"},
		{"Read", "topic", "wc.receipts"},
		{"Write", "topic", "wc.receipts"},
		{"Read", "group", "clock.orders"},
	} {
		if !may("orders", right[0], right[1], right[2]) {
			t.Errorf("no line has %v", right)
		}
	}
	if may("feed", "Read", "topic", "wc.receipts") {
		t.Error("a team without receipts may read those of others")
	}
}

// TestAPIMayRemoveChannels: DELETE /v1/channels/{name} deletes the channel's topic and its high lane. The API may
// delete no other topic, and nobody else any.
func TestAPIMayRemoveChannels(t *testing.T) {
	names := topics.Names{Prefix: "wc."}
	acls := topics.ACLs(topics.ACLOptions{Names: names, Group: "clock", Manage: true})
	mayDelete := func(topic string) (who []string) {
		for _, a := range acls {
			if a.Resource == "topic" && slices.Contains(a.Operations, "Delete") &&
				(a.Name == topic || a.Prefixed && strings.HasPrefix(topic, a.Name)) {
				who = append(who, a.Role)
			}
		}
		return who
	}
	due := names.Due("kitchen")
	for _, topic := range []string{due, topics.HighLane(due)} {
		if got := mayDelete(topic); !slices.Equal(got, []string{topics.RoleAPI}) {
			t.Errorf("%v may delete %s", got, topic)
		}
	}
	for _, topic := range []string{names.Commands(), names.State(), names.Events(), names.DeadLetter()} {
		if got := mayDelete(topic); len(got) > 0 {
			t.Errorf("%v may delete %s", got, topic)
		}
	}
}
