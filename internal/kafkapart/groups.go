package kafkapart

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxGroups bounds the consumer groups that are looked at.
const maxGroups = 2000

// TopicsRead are the topics that some consumer group reads now: a member of it has
// subscribed to them or has partitions of them. Whoever reads without a group is
// not seen, and the groups in except do not count: they read and do not serve. An error
// says that it is not known.
func TopicsRead(ctx context.Context, cl *kgo.Client, except ...string) (map[string]bool, error) {
	admin := kadm.NewClient(cl)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var names []string
	seen := false
	for _, g := range listed.Sorted() {
		if g.State != "Empty" && g.State != "Dead" && (g.ProtocolType == "consumer" || g.ProtocolType == "") {
			if seen = true; !slices.Contains(except, g.Group) {
				names = append(names, g.Group)
			}
		}
	}
	if len(names) > maxGroups {
		return nil, fmt.Errorf("there are %d consumer groups, more than the checks read (%d)", len(names), maxGroups)
	}
	if !seen { // the engines are one, so it is rights that are missing
		return nil, errors.New("no consumer group is visible: none runs, or DESCRIBE on groups is not allowed")
	}
	read := map[string]bool{}
	if len(names) == 0 { // a request for no group is one for all
		return read, nil
	}
	classic, err := admin.DescribeGroups(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", err)
	}
	var newer []string // the protocol of KIP-848: the other request does not know them
	for _, name := range names {
		g, ok := classic[name]
		if !ok || g.Err != nil || g.State == "Dead" {
			newer = append(newer, name)
			continue
		}
		for _, topic := range slices.Concat(g.JoinTopics(), g.AssignedPartitions().Topics()) {
			read[topic] = true
		}
	}
	if len(newer) == 0 {
		return read, nil
	}
	groups, err := admin.DescribeConsumerGroups(ctx, newer...)
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", err)
	}
	for _, g := range groups {
		for _, m := range g.Members {
			for _, topic := range slices.Concat(m.SubscribedTopics, m.Assignment.Topics()) {
				read[topic] = true
			}
		}
	}
	return read, nil
}
