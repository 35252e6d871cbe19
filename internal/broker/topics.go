package broker

import (
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// topic is what we need to know of a topic to treat its records as Kafka does.
type topic struct {
	name    string
	id      [16]byte
	stamped bool // message.timestamp.type=LogAppendTime
	keyed   bool // cleanup.policy contains compact: null keys are refused
}

// topics remembers what kfake knows. Whatever may change a topic forgets all.
type topics struct {
	lookup func(func(*kfake.Cluster)) // runs with the cluster, or not at all once it is closing

	mu     sync.RWMutex
	byName map[string]*topic
	byID   map[[16]byte]*topic
}

func (ts *topics) forget() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byName, ts.byID = nil, nil
}

// named returns nil for a topic that does not exist.
func (ts *topics) named(name string) *topic {
	ts.mu.RLock()
	t := ts.byName[name]
	ts.mu.RUnlock()
	if t == nil {
		t = ts.load(func(c *kfake.Cluster) *kfake.TopicInfo { return c.TopicInfo(name) })
	}
	return t
}

// withID is named for the request versions that carry ids (KIP-516).
func (ts *topics) withID(id [16]byte) *topic {
	ts.mu.RLock()
	t := ts.byID[id]
	ts.mu.RUnlock()
	if t == nil {
		t = ts.load(func(c *kfake.Cluster) *kfake.TopicInfo { return c.TopicIDInfo(id) })
	}
	return t
}

// name fills in the name of a topic that a request gives by id alone. kfake
// would do so itself a moment later.
func (ts *topics) name(name *string, id [16]byte) {
	if *name != "" || id == [16]byte{} {
		return
	}
	if t := ts.withID(id); t != nil {
		*name = t.name
	}
}

func (ts *topics) load(ask func(*kfake.Cluster) *kfake.TopicInfo) *topic {
	var info *kfake.TopicInfo
	ts.lookup(func(c *kfake.Cluster) { info = ask(c) })
	if info == nil {
		return nil
	}
	t := newTopic(info)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byName == nil {
		ts.byName, ts.byID = map[string]*topic{}, map[[16]byte]*topic{}
	}
	ts.byName[t.name], ts.byID[t.id] = t, t
	return t
}

func newTopic(info *kfake.TopicInfo) *topic {
	is := func(key string) string {
		if v := info.Configs[key]; v != nil {
			return *v
		}
		return ""
	}
	return &topic{
		name:    info.Topic,
		id:      info.TopicID,
		stamped: is("message.timestamp.type") == "LogAppendTime",
		keyed:   strings.Contains(is("cleanup.policy"), "compact"),
	}
}
