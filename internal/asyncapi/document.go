package asyncapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/topics"
)

// Options are what differs between clusters.
type Options struct {
	Names       topics.Names
	Partitions  int32 // 0 means 16
	Replication int16 // 0 means the brokers' default, which is then not said
}

// object is a JSON object; its names are written in alphabetical order.
type object = map[string]any

const kafkaBinding = "0.5.0"

// Document is the AsyncAPI description as JSON.
func Document(o Options) ([]byte, error) {
	if o.Partitions == 0 {
		o.Partitions = 16
	}
	schemas, err := components()
	if err != nil {
		return nil, err
	}
	examples, err := life(o)
	if err != nil {
		return nil, err
	}
	d := object{
		"asyncapi":           "3.0.0",
		"defaultContentType": "application/json",
		"info": object{
			"title": "Waterclock topics", "version": "1", "description": about,
			"license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"channels": object{}, "operations": object{},
		"components": object{"schemas": schemas, "messages": object{}},
	}
	for _, c := range channels(o.Names) {
		if err := c.add(d, o, examples); err != nil {
			return nil, err
		}
	}
	return encode(d)
}

const about = "Timers, reminders and schedules on Kafka: a command says when something is due, and exactly one due " +
	"event appears when it is. " +
	"Operations are Waterclock's: it receives commands and receipts, and sends the rest. " +
	"Records are partitioned by murmur2 of the key, as Kafka's Java client does it; librdkafka needs " +
	"partitioner=murmur2_random. " +
	"Readers of due events, events, rejected and dead letters must use isolation.level=read_committed."

func encode(d object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("encode the description of the topics: %w", err)
	}
	return b.Bytes(), nil
}

// add puts a channel, its messages and its operation into the document.
func (c *channel) add(d object, o Options, examples map[string][]object) error {
	refs, here := []any{}, object{}
	for _, m := range c.messages {
		if len(examples[m.name]) == 0 && !m.binary {
			return fmt.Errorf("message %s has no example", m.name)
		}
		within(d, "components", "messages")[m.name] = m.object(examples[m.name])
		here[m.name] = ref("components/messages/" + m.name)
		refs = append(refs, ref("channels/"+c.id+"/messages/"+m.name))
	}
	topic := c.topic(o)
	ch := object{
		"address": topic.Name, "title": c.title, "summary": topic.Why, "messages": here,
		"bindings": object{"kafka": binding(topic)},
	}
	if strings.Contains(topic.Name, "{") {
		ch["parameters"] = object{"channel": object{
			"description": "A channel: [a-z0-9][a-z0-9._-]{0,48}. One with a topic of its own " +
				"(channels.<name>.topic) has that instead.",
			"default": "default", "examples": []any{"default", "orders"},
		}}
	}
	within(d, "channels")[c.id] = ch
	within(d, "operations")[c.action+strings.ToUpper(c.id[:1])+c.id[1:]] = object{
		"action": c.action, "channel": ref("channels/" + c.id), "messages": refs, "summary": c.summary,
	}
	return nil
}

func (c *channel) topic(o Options) topics.Topic {
	for _, t := range topics.Catalogue(o.Names, o.Partitions, o.Replication, nil) {
		if t.Name == c.address {
			return t
		}
	}
	return topics.DueTopic(c.address, o.Partitions, o.Replication)
}

// binding is the topic's settings, by Kafka's names.
func binding(t topics.Topic) object {
	settings := object{}
	for name, v := range t.Configs {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case name == "cleanup.policy":
			settings[name] = strings.Split(v, ",")
		case err == nil:
			settings[name] = n
		default:
			settings[name] = v
		}
	}
	b := object{"partitions": t.Partitions, "topicConfiguration": settings, "bindingVersion": kafkaBinding}
	if t.Replication > 0 {
		b["replicas"] = t.Replication
	}
	if !strings.Contains(t.Name, "{") {
		b["topic"] = t.Name
	}
	return b
}

func ref(path string) object { return object{"$ref": "#/" + path} }

// within is the object under a path that is there.
func within(d object, path ...string) object {
	for _, p := range path {
		d = d[p].(object)
	}
	return d
}
