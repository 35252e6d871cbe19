package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/waterclock/waterclock/gateway"
)

// partitions asks the API who owns each partition, how far restores are, and whether a warm
// standby could take over.
func (d *doctor) partitions(ctx context.Context, from *api) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	resp, err := from.send(ctx, http.MethodGet, "/v1/partitions", nil, nil)
	if err != nil {
		return // the check api has reported it
	}
	defer resp.Body.Close()
	var all gateway.Partitions
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		d.warn("partitions", "set an operator's key with --api-key", "%s does not list its partitions for this "+
			"caller", from.base)
		return
	case resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&all) != nil || len(all.Items) == 0:
		return // an API without engines, or not Waterclock's
	}
	d.owners(all.Items)
	d.standbys(all.Items)
}

func (d *doctor) owners(all []gateway.Partition) {
	var waits []string
	owners := map[string]bool{}
	for _, p := range all {
		owners[p.Owner] = true
		switch {
		case p.Ready:
		case p.RestoreTotal > 0:
			waits = append(waits, fmt.Sprintf("%d (%s, %d of %d records)", p.Partition, p.Doing, p.Restored,
				p.RestoreTotal))
		case p.Owner == "":
			waits = append(waits, fmt.Sprintf("%d (no owner)", p.Partition))
		default:
			waits = append(waits, strings.TrimSpace(fmt.Sprintf("%d (%s %s)", p.Partition, p.Owner, p.Doing)))
		}
	}
	if len(waits) > 0 {
		d.warn("partitions", "wait for restores; for the others see the owners' logs", "%s of %d not firing: %s",
			plural(len(waits), "partition"), len(all), strings.Join(waits, ", "))
		return
	}
	d.ok("partitions", "%s fire, shared by %s", plural(len(all), "partition"), plural(len(owners), "owner"))
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
