package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// Partition is one item of GET /v1/partitions.
type Partition struct {
	Partition            int32   `json:"partition"`
	Owner                string  `json:"owner" doc:"Internal address; empty if the partition never had an owner"`
	Term                 int64   `json:"term" doc:"Owners so far"`
	CommandsOffset       int64   `json:"commands_offset" doc:"Next command to decide"`
	CommandsLag          *int64  `json:"commands_lag,omitempty" doc:"Absent while Kafka does not say where the partition ends"`
	Pending              int64   `json:"pending"`
	PendingLimit         int64   `json:"pending_limit,omitempty" doc:"limits.max_pending of its owner: beyond it registers are refused"`
	Done                 int64   `json:"done" doc:"Finished triggers still remembered"`
	FiredThrough         string  `json:"fired_through,omitempty" format:"date-time" doc:"Everything due up to here has fired"`
	OldestOverdueSeconds float64 `json:"oldest_overdue_seconds"`
	Ready                bool    `json:"ready" doc:"Restored and firing, and its owner answers"`
	Restored             int64   `json:"restored,omitempty" doc:"Records read so far, while restoring"`
	RestoreTotal         int64   `json:"restore_total,omitempty" doc:"Records the restore has to read"`
	Doing                string  `json:"doing,omitempty" doc:"What the owner does now: a step of opening, or of its turn"`

	Refused string `json:"refused,omitempty" doc:"Why its owner must not open it: an operator has to decide"`

	Standbys []Standby `json:"standbys,omitempty" doc:"Warm copies on other instances"`
}

// Standby is a warm copy of a partition.
type Standby struct {
	Node string `json:"node" doc:"Internal address"`
	Lag  int64  `json:"lag" doc:"Records of topic state it has still to read"`
	Warm bool   `json:"warm" doc:"It can take over without a restore"`
}

// Partitions is the answer to GET /v1/partitions.
type Partitions struct {
	Items []Partition `json:"items"`
}

// cluster shows who owns which partition, and has partitions reconciled.
type cluster struct {
	admits admits
	bodies *bodies

	kafka       *producer.Producer
	log         *slog.Logger
	names       topics.Names
	partitions  int32
	readWithin  time.Duration
	reconciling sync.Mutex // at most one at a time
	router      *peer.Router
}

func (s *cluster) getPartitions(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	items, err := s.read(ctx)
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, Partitions{Items: items})
}

// read asks the owners of all partitions, and Kafka for the ends of commands.
func (s *cluster) read(ctx context.Context) ([]Partition, error) {
	items := []Partition{}
	all := s.router.Partitions(ctx)
	lags := s.lags(ctx, all)
	for _, p := range all {
		item := partition(p)
		if lag, ok := lags[p.Partition]; ok {
			item.CommandsLag = &lag
		}
		items = append(items, item)
	}
	return items, ctx.Err()
}

// lags are how many commands are not read yet. Where the owner does not count them, they are computed from the end of
// commands. Ends that Kafka does not say within a second are missing: whoever asks wants to know of the partitions.
func (s *cluster) lags(ctx context.Context, all []peer.PartitionStatus) map[int32]int64 {
	ctx, cancel := context.WithTimeout(ctx, peer.SearchTimeout)
	defer cancel()
	at := func(p int32) kafkapart.TopicPartition {
		return kafkapart.TopicPartition{Topic: s.names.Commands(), Partition: p}
	}
	lags := map[int32]int64{}
	var uncounted []kafkapart.TopicPartition
	for _, p := range all {
		if p.CommandsLag > 0 {
			lags[p.Partition] = p.CommandsLag
		} else {
			uncounted = append(uncounted, at(p.Partition))
		}
	}
	ends, _ := kafkapart.Ends(ctx, s.kafka.Client(), uncounted, kafkapart.ReadCommitted)
	for _, p := range all {
		if end, ok := ends[at(p.Partition)]; ok {
			lags[p.Partition] = max(0, end-p.CommandsOffset)
		}
	}
	return lags
}

// partition converts a status, but for its lag.
func partition(p peer.PartitionStatus) Partition {
	var standbys []Standby
	for _, s := range p.Standbys {
		standbys = append(standbys, Standby(s))
	}
	return Partition{
		Partition: p.Partition, Owner: p.Owner, Term: p.Term, CommandsOffset: p.CommandsOffset,
		Pending: p.Pending, PendingLimit: p.PendingLimit, Done: p.Done, FiredThrough: instantText(p.FiredThrough),
		OldestOverdueSeconds: p.OldestOverdue.Seconds(), Ready: p.Ready, Restored: p.Restored,
		RestoreTotal: p.RestoreTotal, Doing: p.Doing, Refused: p.Refused, Standbys: standbys,
	}
}

// probes answers whether this process is well, and its metrics.
type probes struct {
	auth    auth.Authenticator
	metrics http.Handler
	notes   func() []string
	ready   func() error
}

// getHealth answers that the process runs.
func (s *probes) getHealth(w http.ResponseWriter, r *request) error {
	if err := s.onlyInside(r.Request); err != nil {
		return err
	}
	return sendPlain(w, http.StatusOK, "ok\n")
}

// getReady answers whether every partition of this process is restored and firing.
func (s *probes) getReady(w http.ResponseWriter, r *request) error {
	if err := s.onlyInside(r.Request); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		w.Header().Set("Retry-After", "1")
		return sendPlain(w, http.StatusServiceUnavailable, fmt.Sprintf("not ready: %v\n", err))
	}
	return sendPlain(w, http.StatusOK, strings.Join(append([]string{"ready"}, s.notes()...), "\n")+"\n")
}

// getMetrics serves the metrics, which cover all tenants.
func (s *probes) getMetrics(w http.ResponseWriter, r *request) error {
	if err := s.onlyInside(r.Request); err != nil {
		return err
	}
	if s.metrics == nil {
		return errNoPath
	}
	s.metrics.ServeHTTP(w, r.Request)
	return nil
}

func sendPlain(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
	return nil
}
