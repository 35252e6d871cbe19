package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/pipeline"
)

// partitions asks the API who owns each partition, how far restores are, and whether a warm
// standby could take over.
func (d *doctor) partitions(ctx context.Context, from *api) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	resp, err := from.send(ctx, http.MethodGet, "/v1/partitions", nil, nil)
	if err != nil { // /readyz has answered: what has not is the owners, or Kafka
		d.warn("partitions", "see /readyz and the owners' logs", "%s does not list its partitions: %v", from.base, err)
		return
	}
	defer resp.Body.Close()
	var all gateway.Partitions
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		d.warn("partitions", "set an operator's key in WATERCLOCK_API_KEY, or as api_key in the settings file",
			"%s does not list its partitions for this caller", from.base)
		return
	case resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&all) != nil || len(all.Items) == 0:
		return // an API without engines, or not Waterclock's
	}
	d.owners(all.Items)
	d.room(all.Items)
	d.standbys(all.Items)
}

func (d *doctor) owners(all []gateway.Partition) {
	var why []string // in the order of the first partition of each
	waits := map[string][]int32{}
	owners := map[string]bool{}
	for _, p := range all {
		owners[p.Owner] = true
		if p.Ready {
			continue
		}
		because := waitsFor(p)
		if waits[because] == nil {
			why = append(why, because)
		}
		waits[because] = append(waits[because], p.Partition)
	}
	if len(why) == 0 {
		d.ok("partitions", "%s fire, shared by %s", plural(len(all), "partition"), plural(len(owners), "owner"))
		return
	}
	waiting := 0
	for i, because := range why {
		waiting += len(waits[because])
		why[i] = fmt.Sprintf("%s (%s)", numbers(waits[because]), because)
	}
	d.warn("partitions", "wait for restores; for the others see the owners' logs", "%s of %d not firing: %s",
		plural(waiting, "partition"), len(all), strings.Join(why, ", "))
}

// waitsFor says why a partition does not fire.
func waitsFor(p gateway.Partition) string {
	switch {
	case p.Restored < p.RestoreTotal && p.Doing == string(pipeline.StepRestore):
		return fmt.Sprintf("%s, %d of %d records", p.Doing, p.Restored, p.RestoreTotal)
	case p.Owner == "":
		return "no owner"
	}
	return strings.TrimSpace(p.Owner + " " + p.Doing)
}

// nearlyFull is the share of limits.max_pending from which a partition is reported. The console and the
// alert WaterclockPendingNearLimit have the same.
const nearlyFull = 0.8

// room reports partitions that refuse registers, or soon will, as they hold limits.max_pending triggers.
func (d *doctor) room(all []gateway.Partition) {
	var full, nearly []int32
	for _, p := range all {
		switch {
		case p.PendingLimit == 0:
		case p.Pending >= p.PendingLimit:
			full = append(full, p.Partition)
		case float64(p.Pending) > nearlyFull*float64(p.PendingLimit):
			nearly = append(nearly, p.Partition)
		}
	}
	todo := "see WaterclockPendingNearLimit in docs/operations/runbook.md"
	if len(full) > 0 {
		d.warn("room", todo, "%s of %d at limits.max_pending, refusing registers: %s",
			plural(len(full), "partition"), len(all), numbers(full))
	}
	if len(nearly) > 0 {
		d.warn("room", todo, "%s of %d above %.0f %% of limits.max_pending: %s", plural(len(nearly), "partition"),
			len(all), 100*nearlyFull, numbers(nearly))
	}
}

// numbers lists partitions.
func numbers(partitions []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(partitions), " ", ", "), "[]")
}

// standbys returns no findings if none are configured and none exist.
func (d *doctor) standbys(all []gateway.Partition) {
	warm, lag, some := 0, int64(0), d.c.Standby > 0
	for _, p := range all {
		one := false
		for _, s := range p.Standbys {
			some, one = true, one || s.Warm
			lag = max(lag, s.Lag)
		}
		if one {
			warm++
		}
	}
	switch {
	case !some:
	case warm < len(all):
		d.warn("standbys", "standbys fill in the background; a group of one member has none", "%d of %s have a warm "+
			"standby", warm,
			plural(len(all), "partition"))
	default:
		d.ok("standbys", "every partition has a warm standby, at most %s behind", plural(int(lag), "record"))
	}
}
