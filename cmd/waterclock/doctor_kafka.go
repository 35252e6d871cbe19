package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/topics"
)

func (d *doctor) brokers(ctx context.Context) {
	m, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		d.fail("brokers", "see the brokers' logs", "the brokers cannot be listed: %v", err)
		return
	}
	addresses := make([]string, len(m.Brokers))
	for i, b := range m.Brokers {
		addresses[i] = fmt.Sprintf("%s:%d", b.Host, b.Port)
	}
	d.ok("brokers", "%s: %s", plural(len(addresses), "broker"), strings.Join(addresses, ", "))
}

// needs lists the requests without which the engine cannot keep its promises, with the lowest
// version of each. They cover transactions that survive a timed-out producer (KIP-360), and
// offsets as a read_committed reader sees them.
var needs = []struct {
	key   kmsg.Key
	least int16
}{
	{kmsg.InitProducerID, 3},
	{kmsg.AddPartitionsToTxn, 1},
	{kmsg.EndTxn, 1},
	{kmsg.ListOffsets, 2},
	{kmsg.Fetch, 4},
	{kmsg.Produce, 3},
	{kmsg.DescribeTransactions, 0},
	{kmsg.DescribeProducers, 0}, // to find transactions that the last owner left open
}

func (d *doctor) versions(ctx context.Context) {
	all, err := d.admin.ApiVersions(ctx)
	if err != nil {
		d.fail("versions", "see the brokers' logs", "the brokers' API versions cannot be read: %v", err)
		return
	}
	guesses := map[string]bool{}
	var names []string
	for _, v := range all.Sorted() {
		if v.Err != nil {
			d.fail("versions", "restart it, or remove it from the cluster", "broker %d does not answer: %v",
				v.NodeID, v.Err)
			continue
		}
		d.unsupported(&v)
		if guess := v.VersionGuess(); !guesses[guess] {
			guesses[guess], names = true, append(names, guess)
		}
	}
	switch len(names) {
	case 0:
	case 1:
		d.ok("versions", "the brokers support every request that the engine needs%s", releaseGuess(names[0]))
	default:
		d.warn("versions", "finish the upgrade", "the brokers run different versions: %s", strings.Join(names, "; "))
	}
}

// releaseGuess describes the Kafka release that the client guessed from the broker's request
// versions. It returns "" for brokers other than Apache Kafka, such as the embedded one.
func releaseGuess(guess string) string {
	if strings.HasPrefix(guess, "v") || strings.HasPrefix(guess, "at least") {
		return ": Kafka " + guess
	}
	return ""
}

func (d *doctor) unsupported(v *kadm.BrokerApiVersions) {
	for _, n := range needs {
		if have, ok := v.KeyMaxVersion(int16(n.key)); !ok || have < n.least {
			d.fail("versions", "use Kafka 3.0 or newer; tested with 4.0 or newer",
				"broker %d does not support %s version %d", v.NodeID, n.key.Name(), n.least)
		}
	}
}

// countPartitions takes P from topic commands, unless a setting names it. So doctor needs no
// setting for dev.
func (d *doctor) countPartitions(ctx context.Context) {
	if p, err := partitions(ctx, d.admin, d.c.Topic("commands")); err == nil &&
		d.c.Source("topics.partitions").Kind == "default" {
		d.parts = p
	}
}

// applyTopics is the remedy where topics are missing or differ.
const applyTopics = "run `waterclock topics apply`"

// lacks reports the first topic that a check needs and that does not exist. The check is then skipped,
// because its own finding would blame the user's rights.
func (d *doctor) lacks(ctx context.Context, check string, names ...string) bool {
	all, err := d.admin.ListTopics(ctx, names...)
	if err != nil {
		return false // the check itself reports it
	}
	for _, name := range names {
		if errors.Is(all[name].Err, kerr.UnknownTopicOrPartition) {
			d.skip(check, "not checked, because there is no topic %s: %s", name, applyTopics)
			return true
		}
	}
	return false
}

// topics compares the expected topics with the existing ones.
func (d *doctor) topics(ctx context.Context) {
	d.countPartitions(ctx)
	c := *d.c
	c.Topics.Partitions = int(d.parts)
	channels, err := channelsInUse(ctx, &c, d.admin)
	if err != nil {
		d.fail("topics", "check the ACLs of this user", "%v", err)
		return
	}
	want := kafkaconn.Wanted(&c, channels...)
	plan, found, err := kafkaconn.Plan(ctx, d.cl, want)
	if err != nil {
		d.fail("topics", "check the ACLs of this user", "%v", err)
		return
	}
	if len(found) == 0 {
		d.noTopics()
		plan = slices.DeleteFunc(plan, func(c topics.Change) bool { return c.Kind == topics.Create })
	}
	for _, change := range plan {
		d.change(change)
	}
	if len(plan) == 0 && len(found) > 0 {
		d.ok("topics", "%s with the required settings, %s each", plural(len(want), "topic"),
			plural(int(d.parts), "partition"))
	}
	d.timestamps(found)
}

// noTopics reports a cluster on which nothing was set up, in one finding and not one per topic.
func (d *doctor) noTopics() {
	there := fmt.Sprintf("none of the topics %s* exists", d.c.Topics.Prefix)
	if d.c.Topics.Manage {
		d.warn("topics", applyTopics+", or let the engine create them when it starts. If there are topics with "+
			"another prefix, set topics.prefix", "%s", there)
		return
	}
	d.fail("topics", applyTopics+": topics.manage is false, so the engine will not create them. If there are topics "+
		"with another prefix, set topics.prefix", "%s", there)
}

// change reports one difference at the severity it deserves.
func (d *doctor) change(c topics.Change) {
	switch {
	case c.Kind == topics.Refuse && c.Setting == "partitions":
		d.fail("topics", fmt.Sprintf("set topics.partitions to the number the topics were created with, or recreate "+
			"%s with %s partitions while it is empty", c.Topic, c.Want),
			"%s has %s partitions, not %s: %s", c.Topic, c.Have, c.Want, c.Why)
	case c.Kind == topics.Refuse && c.Setting == "replication":
		d.fail("topics", "", "%s: %s", c.Topic, c.Why)
	case c.Kind == topics.Refuse:
		d.fail("topics", fmt.Sprintf("set %s of %s to %s, after checking that this loses no data", c.Setting, c.Topic,
			c.Want),
			"%s of %s is %s: %s", c.Setting, c.Topic, c.Have, c.Why)
	case c.Kind == topics.Create && c.Late != "":
		d.warn("topics", applyTopics, "there is no topic %s: %s", c.Topic, c.Late)
	case c.Kind == topics.Create && d.c.Topics.Manage:
		d.warn("topics", applyTopics+", or let the engine create it when it starts", "there is no topic %s", c.Topic)
	case c.Kind == topics.Create:
		d.fail("topics", applyTopics+": topics.manage is false, so the engine will not create it",
			"there is no topic %s", c.Topic)
	default:
		d.warn("topics", applyTopics, "%s of %s is %s, and must be %s", c.Setting, c.Topic, c.Have, c.Want)
	}
}

// timestamps reports which timestamp delays are counted from.
func (d *doctor) timestamps(existing []topics.Existing) {
	for _, e := range existing {
		if e.Name != d.c.Topic("commands") {
			continue
		}
		if kind := e.Configs["message.timestamp.type"]; kind == "LogAppendTime" {
			d.ok("timestamps", "a delay counts from when the broker appended the command (LogAppendTime)")
		} else {
			d.fail("timestamps", applyTopics,
				"commands carry their producers' timestamps (%s): a delay would count from those", kind)
		}
	}
}

// replicas checks what the failure of one broker would cost.
func (d *doctor) replicas(ctx context.Context) {
	m, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return // the check brokers has reported it
	}
	all, err := d.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		d.warn("replicas", "check the ACLs of this user", "the topics cannot be described: %v", err)
		return
	}
	var ours []string
	for _, t := range all.Names() {
		if strings.HasPrefix(t, d.c.Topics.Prefix) || t == "__transaction_state" || t == "__consumer_offsets" {
			ours = append(ours, t)
		}
	}
	if len(m.Brokers) < 2 {
		d.ok("replicas", "one broker: a failure of its disk loses data")
		return
	}
	before := len(d.findings)
	configs, err := d.admin.DescribeTopicConfigs(ctx, ours...)
	if err != nil {
		d.warn("replicas", "check the ACLs of this user", "the topics' settings cannot be read: %v", err)
		configs = nil
	}
	for _, name := range ours {
		d.replicasOf(all[name], configs, len(m.Brokers))
	}
	if len(d.findings) == before {
		d.ok("replicas", "every partition is in sync, and the loss of one broker loses no acknowledged record")
	}
}

func (d *doctor) replicasOf(t kadm.TopicDetail, configs kadm.ResourceConfigs, brokers int) {
	least, missing, offline := 1<<15, 0, 0
	for _, p := range t.Partitions {
		least = min(least, len(p.Replicas))
		if p.Leader < 0 {
			offline++
		} else if len(p.ISR) < len(p.Replicas) {
			missing++
		}
	}
	if offline > 0 {
		d.fail("replicas", "start the brokers that hold it", "%s of %s has no leader", plural(offline, "partition"),
			t.Topic)
	}
	if missing > 0 {
		d.warn("replicas", "find the broker that lags or is down", "%s of %s is not in sync on all replicas",
			plural(missing, "partition"), t.Topic)
	}
	if least == 1 {
		d.warn("replicas",
			"give it 3 replicas (kafka-reassign-partitions), and set topics.replication before topics are made",
			"%s has one replica: the loss of its broker loses it", t.Topic)
		return
	}
	setting := settingsOf(configs, t.Topic)
	if isr, err := strconv.Atoi(setting["min.insync.replicas"]); err == nil {
		d.inSync(t.Topic, isr, least)
	}
	if setting["unclean.leader.election.enable"] == "true" {
		d.warn("replicas", "set it to false",
			"unclean.leader.election.enable of %s is true: a broker that lags may take over and lose what was "+
				"acknowledged",
			t.Topic)
	}
}

// inSync judges min.insync.replicas of a topic with replicas. Of two replicas no value is good for a
// topic that must neither stop nor lose: then only a third replica helps. A due topic may lose a
// record rather than stop, because Kafka cannot even abort a transaction on it while it stops
// (docs/operations/kafka.md).
func (d *doctor) inSync(topic string, isr, replicas int) {
	due := topics.Names{Prefix: d.c.Topics.Prefix}.Channel(topic) != ""
	third := "give it 3 replicas (kafka-reassign-partitions), and min.insync.replicas 2"
	switch {
	case isr >= replicas:
		advice := fmt.Sprintf("set it to %d", replicas-1)
		if replicas == 2 && !due {
			advice = third
		}
		d.warn("replicas", advice, "min.insync.replicas of %s is %d of %d replicas: one broker down stops it", topic,
			isr, replicas)
	case isr < 2 && (replicas > 2 || !due):
		advice := "set it to 2"
		if replicas == 2 {
			advice = third
		}
		d.warn("replicas", advice, "min.insync.replicas of %s is %d: an acknowledged record may be on only one disk",
			topic, isr)
	}
}

// settingsOf returns the settings of one resource. It is empty if they could not be read.
func settingsOf(all kadm.ResourceConfigs, name string) map[string]string {
	out := map[string]string{}
	if rc, err := all.On(name, nil); err == nil && rc.Err == nil {
		for _, kv := range rc.Configs {
			out[kv.Key] = kv.MaybeValue()
		}
	}
	return out
}

// retryPauseSetting is how long a broker waits before it retries to begin a transaction while
// markers of the previous one are still being written. With small transactions back to back, this
// pause is the median lateness (docs/operations/kafka.md).
const retryPauseSetting = "add.partitions.to.txn.retry.backoff.ms"

func (d *doctor) retryPause(ctx context.Context) {
	m, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return // the check brokers has reported it
	}
	configs, err := d.admin.DescribeBrokerConfigs(ctx, m.Brokers.NodeIDs()...)
	if err != nil {
		d.warn("retry pause", "allow DESCRIBE_CONFIGS on the cluster", "the brokers' settings cannot be read: %v", err)
		return
	}
	known, slow := 0, []string{}
	for _, id := range m.Brokers.NodeIDs() {
		text, ok := settingsOf(configs, strconv.Itoa(int(id)))[retryPauseSetting]
		if !ok {
			continue
		}
		known++
		if pause, err := strconv.Atoi(text); err == nil && pause > 1 {
			slow = append(slow, fmt.Sprintf("%s ms on broker %d", text, id))
		}
	}
	switch {
	case len(slow) > 0:
		d.warn("retry pause", fmt.Sprintf("set %s=1 on the brokers; where you cannot, set turn.min_interval to 5ms",
			retryPauseSetting),
			"a transaction that follows another waits %s, which is the median lateness", strings.Join(slow, ", "))
	case known == 0:
		d.ok("retry pause", "the brokers do not delay the next transaction")
	default:
		d.ok("retry pause", "%s is 1 ms or less", retryPauseSetting)
	}
}

// foreignTransactions reports who holds a transaction open on a topic that the engine reads.
// Commands behind it are acknowledged but not visible, and firing waits for up to
// barrier.max_hold.
func (d *doctor) foreignTransactions(ctx context.Context) {
	if d.lacks(ctx, "transactions", d.c.Topic("commands"), d.c.Topic("receipts")) {
		return
	}
	d.countPartitions(ctx)
	set := kadm.TopicsSet{}
	for _, topic := range []string{d.c.Topic("commands"), d.c.Topic("receipts")} {
		for p := range d.parts {
			set.Add(topic, p)
		}
	}
	described, err := d.admin.DescribeProducers(ctx, set)
	if err != nil {
		d.warn("transactions", "use Kafka 3.0 or newer, and allow READ on the topics",
			"open transactions cannot be listed: %v", err)
		return
	}
	open := map[int64]string{} // producer id → topic, partition and offset
	described.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 {
			open[p.ProducerID] = fmt.Sprintf("%s, partition %d, offset %d", p.Topic, p.Partition,
				p.CurrentTxnStartOffset)
		}
	})
	d.nameForeign(ctx, open)
}

func (d *doctor) nameForeign(ctx context.Context, open map[int64]string) {
	var ids []int64
	for id := range open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	names := map[int64]string{}
	if len(ids) > 0 {
		if listed, err := d.admin.ListTransactions(ctx, ids, nil); err == nil {
			listed.Each(func(t kadm.ListedTransaction) { names[t.ProducerID] = t.TxnID })
		}
	}
	foreign := 0
	for _, id := range ids {
		if isOwn(names[id], d.c.Group) {
			continue
		}
		foreign++
		name := names[id]
		if name == "" {
			name = "unknown"
		}
		d.warn("transactions", fmt.Sprintf("make it commit more often: firing waits for it, up to barrier.max_hold "+
			"(%s)",
			d.c.Barrier.MaxHold),
			"producer %d (transactional id %s) holds a transaction open on %s", id, name, open[id])
	}
	if foreign == 0 {
		d.ok("transactions", "no other producer has a transaction open on commands or receipts")
	}
}

// isOwn reports whether a transactional id belongs to an engine partition: <group>-<partition>.
func isOwn(id, group string) bool {
	p, ok := strings.CutPrefix(id, group+"-")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(p, 10, 31)
	return err == nil
}

func (d *doctor) engines(ctx context.Context) {
	g, err := d.engineGroup(ctx)
	// CoordinatorNotAvailable is the answer until the cluster has had its first group.
	switch never := errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.CoordinatorNotAvailable); {
	case err != nil && !never:
		d.warn("engines", "check the ACLs of this user and the setting group",
			"the group %s cannot be described: %v",
			d.c.Group, err)
	case g.members == 0:
		d.warn("engines", "start one with `waterclock serve`, or `waterclock dev`",
			"no engine runs in group %s: nothing fires", d.c.Group)
	case len(g.foreign) > 0:
		d.fail("engines", "fix topics.prefix of one of them, or give it another group",
			"group %s has members with topics other than %s*: %s", d.c.Group, d.c.Topics.Prefix,
			strings.Join(g.foreign, ", "))
	default:
		d.ok("engines", "%s in group %s, which is %s", plural(g.members, "engine"), d.c.Group, g.state)
	}
}

// engineGroup is the consumer group of the engines.
type engineGroup struct {
	state   string
	members int
	foreign []string // those that use other topics: an engine refuses to start beside them
}

// engineGroup describes the group, whatever its protocol is. One of KIP-848 has no members for the
// classic request, or does not exist for it.
func (d *doctor) engineGroup(ctx context.Context) (engineGroup, error) {
	ours := engine.Identity{Prefix: d.c.Topics.Prefix}
	state := topics.Names{Prefix: ours.Prefix}.State()
	if found, err := d.admin.ListTopics(ctx, state); err == nil {
		ours.State = found[state].ID
	}
	classic, err := d.admin.DescribeGroups(ctx, d.c.Group)
	g := classic[d.c.Group]
	if err == nil {
		err = g.Err
	}
	if len(g.Members) > 0 {
		return engineGroup{g.State, len(g.Members), engine.Foreign(g.Members, ours)}, err
	}
	newer, e := d.admin.DescribeConsumerGroups(ctx, d.c.Group)
	n := newer[d.c.Group]
	if e == nil {
		e = n.Err
	}
	if e == nil && len(n.Members) > 0 {
		return engineGroup{n.State, len(n.Members), engine.ForeignSubscribers(n.Members, ours)}, nil
	}
	// A group that another protocol has, or nobody, says nothing. Brokers without KIP-848 do not either.
	if errors.Is(e, kerr.TopicAuthorizationFailed) {
		return engineGroup{}, fmt.Errorf("a member reads topics that this user may not DESCRIBE, as of another "+
			"topics.prefix: %w", e)
	}
	return engineGroup{}, err
}

// mirrors looks for MirrorMaker 2. By default it copies aborted records as if they were
// committed. Its settings are not visible to us, but its topics are.
func (d *doctor) mirrors(ctx context.Context) {
	all, err := d.admin.ListTopics(ctx)
	if err != nil {
		return // the check topics has reported it
	}
	for _, name := range all.Names() {
		if strings.HasPrefix(name, "mm2-offset-syncs.") || strings.HasSuffix(name, ".checkpoints.internal") {
			d.warn("mirrors",
				"set isolation.level=read_committed for its consumers, or it also copies aborted records",
				"MirrorMaker 2 copies from or to this cluster (topic %s)", name)
			return
		}
	}
}
