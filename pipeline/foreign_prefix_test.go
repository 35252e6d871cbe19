package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// A typing error in topics.prefix: the node that has it refuses to join the
// group, names both prefixes, and those who run notice nothing.
func TestForeignPrefix(t *testing.T) {
	for name, serverAssigns := range protocols {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { foreignPrefix(t, serverAssigns) })
		})
	}
}

// protocols of the group: in one that the brokers balance (KIP-848) a member's prefix is all that others see.
var protocols = map[string]bool{"classic": false, "KIP-848": true}

func foreignPrefix(t *testing.T, serverAssigns bool) {
	w := sim.New(t, sim.Options{Seed: 31, Change: func(name string, o *pipeline.Options) {
		o.ServerAssigns = serverAssigns
		if name == "typo" {
			o.Group, o.Names.Prefix = "waterclock.engine", "waterclok."
		}
	}})
	a := w.Start("a")
	w.AwaitOwners()
	for i := range 20 {
		w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Duration(10+i)*time.Second))
	}
	aborted, openings := w.Heard("aborted"), w.Heard("openings")
	typo := w.Start("typo")
	err := typo.Wait()
	for _, want := range []string{
		"this group belongs to other topics", `group "waterclock.engine" has a member at`, "with topics waterclock.*",
		"this node has topics waterclok.*", "set their topics.prefix", "set another group",
	} {
		if !errors.Is(err, pipeline.ErrForeignTopics) || !strings.Contains(err.Error(), want) {
			t.Fatalf("the node said %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "another host") { // so says who has joined and ends
		t.Errorf("the node joined the group before it said %v", err)
	}
	time.Sleep(time.Minute)
	if n := w.Heard("aborted"); n > aborted || w.Heard("openings") > openings || ready(a) != int(w.P) {
		t.Errorf("those who run were disturbed: %d turns aborted, %d openings, %d ready", n-aborted,
			w.Heard("openings")-openings, ready(a))
	}
	for i := range 20 {
		w.RequireDelivered(fmt.Sprintf("k%d", i), 1)
	}
	w.CheckInvariants()
}

// TestPrefixesThatStartTogether: nodes of two prefixes start at the same moment, when the group has no members yet. The
// one that is alone with its prefix ends, with the same words, and the others fire.
func TestPrefixesThatStartTogether(t *testing.T) {
	for name, serverAssigns := range protocols {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { prefixesThatStartTogether(t, serverAssigns) })
		})
	}
}

func prefixesThatStartTogether(t *testing.T, serverAssigns bool) {
	w := sim.New(t, sim.Options{Seed: 31, Change: func(name string, o *pipeline.Options) {
		o.ServerAssigns = serverAssigns
		if name == "typo" {
			o.Group, o.Names.Prefix = "waterclock.engine", "waterclok."
		}
	}})
	typo := w.Start("typo")
	w.Start("a")
	w.Start("b")
	if err := typo.Wait(); !errors.Is(err, pipeline.ErrForeignTopics) {
		t.Fatalf("the node said %v", err)
	}
	w.AwaitOwners()
	w.Register("k", time.Now().Add(10*time.Second))
	time.Sleep(time.Minute)
	w.RequireDelivered("k", 1)
	w.CheckInvariants()
}
