package pipeline

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// channelRegister knows which channels exist, and admits new ones. A channel exists if
// settings name it, or if its due topic exists. So all engines of a cluster agree, and an
// operator manages channels as topics. A process has one register.
//
// The topic of a new channel is created at once, outside the turn, so that other engines
// count it. Engines that admit channels within the same second do not see each other's. So
// they may exceed MaxChannels by that many.
type channelRegister struct {
	o *Process

	mu      sync.Mutex
	exist   map[string]bool // as the brokers listed them
	at      time.Time       // when they listed them
	claimed map[string]time.Time
	creator map[string]string // of what was created here and is still there or claimed: the tenant

	asking   chan struct{} // held by who asks the brokers
	creating chan struct{} // held by who creates a topic
}

// These bound the channels that commands create.
const (
	MaxChannels = 100 // in the cluster (docs/SEMANTICS.md)

	channelsFor  = time.Second      // how long a list of channels is used
	claimFor     = 10 * time.Minute // how long a channel counts whose topic cannot be created
	listChannels = 2 * time.Second  // the most that one list may delay a turn
)

func newChannelRegister(o *Process) *channelRegister {
	return &channelRegister{
		o: o, exist: map[string]bool{}, claimed: map[string]time.Time{}, creator: map[string]string{},
		asking: make(chan struct{}, 1), creating: make(chan struct{}, 1),
	}
}

// admit reports whether a tenant's trigger may go to channels. It creates the missing ones
// where that is allowed: all of them, or none.
func (c *channelRegister) admit(tenant string, names ...string) *trigger.Error {
	names = slices.DeleteFunc(names, c.o.Channels.Known)
	if len(names) == 0 {
		return nil
	}
	if c.exists(names...) {
		return nil
	}
	c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	names = slices.DeleteFunc(names, c.isThere)
	for i, name := range names {
		if err := c.mayCreate(tenant, name, i); err != nil {
			return err
		}
	}
	for _, name := range names {
		c.creator[name] = tenant
		c.claimed[name] = time.Now()
		go c.create(name)
	}
	return nil
}

// mayCreate reports whether a tenant may create a channel, beside others of the same
// command.
func (c *channelRegister) mayCreate(tenant, name string, others int) *trigger.Error {
	switch {
	case !c.o.Channels.AutoCreate():
		return unknownChannel("channel " + strconv.Quote(name) + " does not exist, and channels.auto_create is off: " +
			"configure it under channels." + name + ", or create its topic " + c.o.Names.Due(name))
	case len(c.exist)+len(c.claimed)+others >= MaxChannels:
		return unknownChannel(strconv.Itoa(MaxChannels) + " channels exist already: configure this one under " +
			"channels." + name + ", or remove one that nobody uses (waterclock channels)")
	case c.createdBy(tenant)+others >= c.o.MaxTenantChannels:
		return unknownChannel("tenant " + tenant + " has created " + strconv.Itoa(c.createdBy(tenant)) +
			" channels, as many as it may (limits.tenant_channels): configure this one under channels." + name)
	}
	return nil
}

// createdBy counts what a tenant has created here. The caller holds the lock.
func (c *channelRegister) createdBy(tenant string) (n int) {
	for _, by := range c.creator {
		if by == tenant {
			n++
		}
	}
	return n
}

func unknownChannel(msg string) *trigger.Error {
	return &trigger.Error{Code: trigger.CodeUnknownChannel, Field: "channel", Msg: msg}
}

// isThere says that a channel exists, or is about to. The caller holds the lock.
func (c *channelRegister) isThere(name string) bool {
	_, claimed := c.claimed[name]
	return claimed || c.exist[name]
}

// exists says that all channels do, as far as is known.
func (c *channelRegister) exists(names ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool { return !c.isThere(name) })
}

// refresh lists the channels, unless that was done within the last second. One
// partition asks, without the lock: others wait for its answer only if they have to
// know. While the brokers do not answer, those known count.
func (c *channelRegister) refresh() {
	c.asking <- struct{}{}
	defer func() { <-c.asking }()
	if time.Since(c.listed()) < channelsFor {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listChannels)
	defer cancel()
	all, err := c.o.due.All(ctx, time.Now())
	if err != nil {
		c.o.Logger.Warn("the list of channels could not be read; the previous one stays in use", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Now()
	if err == nil {
		c.take(all, c.at)
	}
}

// listed is when the channels were listed last.
func (c *channelRegister) listed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// take notes what the brokers have listed. The caller holds the lock.
func (c *channelRegister) take(all []output.Topic, now time.Time) {
	clear(c.exist)
	for _, name := range ChannelsOf(c.o.Names, all) {
		c.exist[name] = true
		delete(c.claimed, name)
	}
	for name, at := range c.claimed {
		if now.Sub(at) >= claimFor {
			delete(c.claimed, name)
		}
	}
	for name := range c.creator { // what an operator has removed, and what could not be created
		if !c.isThere(name) {
			delete(c.creator, name)
		}
	}
}

// ChannelsOf returns the channels of due topics, without high lanes.
func ChannelsOf(names topics.Names, all []output.Topic) (list []string) {
	for i := range all {
		if name := names.Channel(all[i].Name); name != "" && !strings.HasSuffix(name, ".high") {
			list = append(list, name)
		}
	}
	return list
}

// create makes the topic of a new channel. If that fails, the first turn that fires on the
// channel makes it.
func (c *channelRegister) create(name string) {
	c.creating <- struct{}{}
	defer func() { <-c.creating }()
	if _, err := c.o.due.Ensure(context.Background(), c.o.Names.Due(name), false); err != nil {
		c.o.Logger.Warn("the topic of a new channel could not be created yet", "channel", name, "error", err)
	}
}
