package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// All members of one group must mean the same topics. A member with another prefix, or with
// topics that were deleted and made again, would be given partitions that it cannot run. So
// a member writes in its join which topics it means, and checks the other members before it
// joins. A member of an older version writes nothing; the topics that it subscribes to
// still show its prefix.

// Identity says which topics a member means.
type Identity struct {
	Prefix string   // of topic names
	State  [16]byte // Kafka's id of topic state; zero: not known
}

// identityMagic ends with the version of the layout. Behind it stand the length of the
// prefix (1 byte), the prefix, and the topic id (16 bytes).
const identityMagic = "waterclock-topics\x01"

func appendIdentity(b []byte, i Identity) []byte {
	b = append(b, identityMagic...)
	b = append(b, byte(len(i.Prefix)))
	b = append(b, i.Prefix...)
	return append(b, i.State[:]...)
}

// readIdentity reads what appendIdentity wrote. ok is false if userData has no identity.
func readIdentity(userData []byte) (i Identity, ok bool) {
	_, rest, found := bytes.Cut(userData, []byte(identityMagic))
	if !found || len(rest) < 1 || len(rest) < 1+int(rest[0])+len(i.State) {
		return Identity{}, false
	}
	n := int(rest[0])
	i.Prefix = string(rest[1 : 1+n])
	copy(i.State[:], rest[1+n:])
	return i, true
}

// conflicts reports whether two members must not be in one group.
func (i Identity) conflicts(other Identity) bool {
	return i.Prefix != other.Prefix ||
		i.State != other.State && i.State != [16]byte{} && other.State != [16]byte{}
}

func (i Identity) String() string {
	if i.State == [16]byte{} {
		return fmt.Sprintf("topics %s*", i.Prefix)
	}
	return fmt.Sprintf("topics %s* (%sstate has id %s)", i.Prefix, i.Prefix, kadm.TopicID(i.State))
}

// identityOf returns the identity that a member of a classic group wrote, or else the one
// that its subscription shows.
func identityOf(m *kadm.DescribedGroupMember) (Identity, bool) {
	c, ok := m.Join.AsConsumer()
	if !ok {
		return Identity{}, false
	}
	if i, ok := readIdentity(c.UserData); ok {
		return i, true
	}
	return identityOfTopics(c.Topics)
}

// identityOfTopics takes the prefix from a subscription to topic commands.
func identityOfTopics(subscribed []string) (Identity, bool) {
	const commands = "commands"
	for _, t := range subscribed {
		if prefix, ok := strings.CutSuffix(t, commands); ok && (topics.Names{Prefix: prefix}).Commands() == t {
			return Identity{Prefix: prefix}, true
		}
	}
	return Identity{}, false
}

// Foreign lists the members of a group that mean other topics than ours. Each entry has the
// host and the topics, once.
func Foreign(members []kadm.DescribedGroupMember, ours Identity) []string {
	return foreign(members, ours, func(m *kadm.DescribedGroupMember) (string, Identity, bool) {
		i, ok := identityOf(m)
		return m.ClientHost, i, ok
	})
}

// ForeignSubscribers is Foreign for a group that the brokers balance. Its members show the prefix
// of their topics and no ids.
func ForeignSubscribers(members []kadm.ConsumerGroupMember, ours Identity) []string {
	return foreign(members, ours, func(m *kadm.ConsumerGroupMember) (string, Identity, bool) {
		i, ok := identityOfTopics(m.SubscribedTopics)
		return m.ClientHost, i, ok
	})
}

func foreign[M any](members []M, ours Identity, of func(*M) (host string, i Identity, ok bool)) (out []string) {
	for n := range members {
		if host, i, ok := of(&members[n]); ok && ours.conflicts(i) {
			out = append(out, strings.TrimPrefix(host, "/")+" with "+i.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// groupAskWithin bounds one question about the group before joining.
const groupAskWithin = 5 * time.Second

// unknownGroupFor is how long the members of the group may be unknown without a word in the log: brokers may start.
const unknownGroupFor = 10 * time.Second

// mayJoin finds out which topics we mean. It returns an error if the group has members that
// mean others. It waits until a broker answers.
func (e *Engine) mayJoin(ctx context.Context) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.DisableClientMetrics()}, e.process.Kafka...)...)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	defer cl.Close()
	began, warned := time.Now(), false
	for ctx.Err() == nil {
		foreign, err := e.askGroup(ctx, kadm.NewClient(cl))
		switch {
		case errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			e.process.Logger.Warn("the members of the group cannot be listed; give this user DESCRIBE on it", "group",
				e.process.Group, "error", err)
			return nil
		case err != nil:
			if !warned && time.Since(began) > unknownGroupFor {
				warned = true
				e.process.Logger.Warn("not joining the group: its members are not known. With group.protocol: "+
					"consumer this user needs DESCRIBE on all topics that they read",
					"group", e.process.Group, "error", err)
			}
			wait.For(ctx, time.Second)
		case len(foreign) > 0:
			return e.foreignTopics(strings.Join(foreign, ", "))
		default:
			return nil
		}
	}
	return nil
}

// leaveForeign ends this process if it is in one group with members that have other topics. All of them may have
// started at the same moment, and each has asked before another one had joined. The prefix with the most members
// stays; of several, the one that sorts first.
func (e *Engine) leaveForeign(members []Identity) {
	ours := e.identity.Load()
	if ours == nil {
		return
	}
	mine, others := 0, map[string]int{}
	for _, i := range members {
		if ours.conflicts(i) {
			others[i.String()]++
		} else {
			mine++
		}
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		if n := others[other]; n > mine || n == mine && other < ours.String() {
			e.fail(e.foreignTopics("another host with " + other))
			return
		}
	}
}

// foreignTopics refuses to join a group whose members have other topics. who has their hosts and topics.
func (e *Engine) foreignTopics(who string) error {
	return fmt.Errorf("%w: group %q has a member at %s, and this node has %s. Two prefixes must not share a group. "+
		"To join the nodes of this group, set their topics.prefix; for an installation of its own, set another group",
		pipeline.ErrForeignTopics, e.process.Group, who, e.identity.Load())
}

// askGroup asks the brokers once.
func (e *Engine) askGroup(ctx context.Context, adm *kadm.Client) (foreign []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupAskWithin)
	defer cancel()
	ours := Identity{Prefix: e.process.Names.Prefix}
	state := e.process.Names.State()
	found, err := adm.ListTopics(ctx, state)
	if err != nil {
		return nil, err
	}
	ours.State = found[state].ID
	e.identity.Store(&ours)
	foreign, err = e.foreignMembers(ctx, adm, ours)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	return foreign, err
}

func (e *Engine) foreignMembers(ctx context.Context, adm *kadm.Client, ours Identity) ([]string, error) {
	group := e.process.Group
	if e.process.ServerAssigns {
		all, err := adm.DescribeConsumerGroups(ctx, group)
		if err != nil {
			return nil, err
		}
		return ForeignSubscribers(all[group].Members, ours), all[group].Err
	}
	all, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	return Foreign(all[group].Members, ours), all[group].Err
}
