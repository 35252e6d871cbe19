package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// quotaKeys are the quotas that can throttle clients.
var quotaKeys = []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage"}

// clientIDs are the client ids that Waterclock uses.
var clientIDs = []string{"waterclock", "waterclock-cli"}

// quotas reports which quotas apply to us, and whether the brokers throttle us now.
func (d *doctor) quotas(ctx context.Context) {
	if pause := d.throttle.Recent(); pause > 0 {
		d.warn("quotas", "raise the quota of this user or client id",
			"the brokers throttled these checks for %v", pause.Round(time.Millisecond))
	}
	all, err := d.admin.DescribeClientQuotas(ctx, false, nil)
	if err != nil {
		advice := "allow DESCRIBE_CONFIGS on the cluster (`waterclock topics plan --acls`)"
		if !errors.Is(err, kerr.ClusterAuthorizationFailed) {
			advice = "ask the brokers with kafka-configs.sh --describe --entity-type users, and clients; " +
				"waterclock_kafka_throttle_seconds_total tells of a quota that is used up"
		}
		d.warn("quotas", advice, "whether quotas hold this user is unknown: %v", err)
		return
	}
	var ours []string
	for _, q := range all {
		if !ofUs(q.Entity, cmp.Or(d.c.Kafka.SASL.User, "ANONYMOUS")) {
			continue
		}
		for _, v := range q.Values {
			if slices.Contains(quotaKeys, v.Key) {
				ours = append(ours, fmt.Sprintf("%s of %s is %.0f", v.Key, entityText(q.Entity), v.Value))
			}
		}
	}
	if len(ours) == 0 {
		d.ok("quotas", "this user has no quotas")
		return
	}
	slices.Sort(ours)
	d.warn("quotas", "check that they are above what the engine needs (docs/operations/sizing.md), for each broker",
		"the brokers throttle clients above a quota: %s", strings.Join(ours, "; "))
}

// ofUs reports whether a quota applies to our user and client ids. A default quota applies to
// all.
func ofUs(entity kadm.ClientQuotaEntity, user string) bool {
	for _, e := range entity {
		switch {
		case e.Name == nil: // the default
		case e.Type == "user" && *e.Name != user:
			return false
		case e.Type == "client-id" && !slices.Contains(clientIDs, *e.Name):
			return false
		case e.Type == "ip":
			return false
		}
	}
	return true
}

func entityText(entity kadm.ClientQuotaEntity) string {
	var parts []string
	for _, e := range entity {
		name := "default"
		if e.Name != nil {
			name = *e.Name
		}
		parts = append(parts, e.Type+" "+name)
	}
	return strings.Join(parts, ", ")
}
