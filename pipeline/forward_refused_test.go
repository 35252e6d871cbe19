package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
)

// TestForwardRefused: the topic takes less than when a misplaced command landed.
// That one is refused, once and by an event, also if the owner dies before it
// tells; what stands behind it is forwarded.
func TestForwardRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		key := keysOn(1, "k", 1)[0]
		noise := make([]byte, 3000) // which compression does not make smaller
		for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
			noise[i] = byte('0' + rng.IntN(64))
		}
		big := fmt.Sprintf(`{"op":"register","delay":"1s","payload":%q}`, noise)
		w.SendTo(0, key, big)
		w.RegisterOn(0, keysOn(1, "behind", 1)[0], time.Now().Add(time.Minute))
		limit := "2000"
		cl := w.Client()
		defer cl.Close()
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}},
			w.Names.Commands()); err != nil {
			t.Fatal(err)
		}
		w.Start("a")
		w.AwaitOwners()
		w.Kill("a")
		w.Start("b")
		w.AwaitOwners()
		time.Sleep(2 * time.Minute)
		var refused []string
		for _, r := range w.Dump(w.Names.Events()) {
			e, err := topics.DecodeEvent(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == "command.rejected" {
				refused = append(refused, e.Trigger+" "+e.Reason+" "+e.Source)
			}
		}
		if want := []string{key + " too_large " + w.Names.Commands() + "/0/0"}; !slices.Equal(refused, want) {
			t.Errorf("refused: %v, want %v", refused, want)
		}
		if n := len(w.Dump(w.Names.Rejected())); n != 1 {
			t.Errorf("%d records on rejected", n)
		}
		w.RequireDelivered(key, 0)
		w.CheckInvariants()
	})
}

// TestForwardTriesOn: what its right partition refuses for a while, as its topic
// may not be written to, is sent until it is taken.
func TestForwardTriesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		due := time.Now().Add(time.Minute)
		for _, key := range keysOn(1, "astray", 20) {
			w.RegisterOn(0, key, due)
		}
		name, id, refused := w.Names.Commands(), w.Cluster.TopicInfo(w.Names.Commands()).TopicID, 0
		w.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			req := r.(*kmsg.ProduceRequest)
			if rt := &req.Topics[0]; refused == 3 || req.TransactionID != nil ||
				(rt.Topic != name && rt.TopicID != id) {
				return nil, nil, false
			}
			refused++
			return refuseProduce(req), nil, true
		})
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(2 * time.Minute)
		if refused < 3 {
			t.Errorf("%d requests were refused", refused)
		}
		for _, key := range keysOn(1, "astray", 20) {
			w.RequireDelivered(key, 1)
		}
	})
}

// refuseProduce says of all records that they may not be written.
func refuseProduce(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
