// Package metrics is what Waterclock tells Prometheus (docs/operations/metrics.md).
// It listens to the engine; nothing is ever labelled by trigger, and labels
// that users choose (channels) are bounded by the channels themselves.
package metrics

import (
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// Metrics are the engine's counters and the HTTP API's. It implements
// pipeline.Listener and gateway.Listener.
type Metrics struct {
	Registry *prometheus.Registry
	door

	lateness    *prometheus.HistogramVec
	commands    *prometheus.CounterVec
	forwarded   prometheus.Counter
	fires       *prometheus.CounterVec
	misfires    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	transaction prometheus.Histogram
	aborts      *prometheus.CounterVec
	hold        prometheus.Histogram
	restore     *prometheus.GaugeVec
	evicted     prometheus.Counter
	leaks       prometheus.Counter
	historyLag  *prometheus.GaugeVec
	historyStop *prometheus.GaugeVec
	letterLag   *prometheus.GaugeVec
	letterStop  *prometheus.GaugeVec
	contentLag  *prometheus.GaugeVec
	historySkip prometheus.Counter
	historyLost prometheus.Counter
	quota       *prometheus.CounterVec
	build       *prometheus.GaugeVec
	dead        *prometheus.CounterVec
	timeouts    *prometheus.CounterVec
	limit       prometheus.Gauge
	providers   providerCounters
	userWork
}

const namespace = "waterclock"

// New makes the metrics and registers them, with Go's own.
func New() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		lateness: histogramVec("fire_lateness_seconds", "From due time, jitter included, to emission.",
			[]float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 5, 30, 60, 600, 3600}, "channel", "priority"),
		commands: counterVec("commands_total", "Commands decided; result is ok or the code of the refusal.", "op",
			"result"),
		forwarded: counter("commands_forwarded_total",
			"Records that landed on another partition and were forwarded."),
		fires:    counterVec("fires_total", "Due events emitted.", "channel"),
		misfires: counterVec("misfires_total", "Missed occurrences, by the misfire policy that decided.", "policy"),
		deliveries: counterVec("deliveries_total",
			"Receipts that decided an attempt, by the channel of the due event and the outcome.",
			"channel", "outcome"),
		transaction: histogram("transaction_seconds", "Duration of EndTransaction.",
			prometheus.ExponentialBuckets(.0005, 2, 14)),
		aborts: counterVec("transaction_aborts_total", "Turns given up.", "reason"),
		hold: histogram("barrier_hold_seconds", "How long another producer's open transaction delayed firing.",
			prometheus.ExponentialBuckets(.01, 2, 12)),
		restore: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "restore_seconds",
			Help: "Duration of the partition's last restore.",
		}, []string{"partition"}),
		evicted: counter("dedup_evicted_total",
			"Done records dropped before their horizon, because of dedup.max_per_partition."),
		historyLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "history_lag_records",
			Help: "Events not yet in the history.",
		}, []string{"partition"}),
		historyStop: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "history_stopped",
			Help: "1 while the history's store refuses rows of the partition.",
		}, []string{"partition"}),
		letterLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "history_dead_letters_lag_records",
			Help: "Dead letters not yet in the history.",
		}, []string{"partition"}),
		letterStop: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "history_dead_letters_stopped",
			Help: "1 while the history's store refuses dead letters of the partition.",
		}, []string{"partition"}),
		contentLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "history_content_lag_records",
			Help: "Records of due topics not yet read for what notifications said.",
		}, []string{"topic"}),
		historySkip: counter("history_skipped_total",
			"Records of topic events that are not events; the history skips them."),
		historyLost: counter("history_lost_records_total",
			"Records that topic events dropped before they were in the history."),
	}
	m.door = newDoor(m.Registry)
	m.providers = newProviderCounters(m.Registry)
	m.userWork = newUserWork(m.Registry)
	m.quota = counterVec("quota_rejected_total", "Requests refused because a tenant met a limit.", "limit")
	m.build = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the labels name the running program.",
	}, []string{"version", "commit", "goversion"})
	m.dead = counterVec("dead_letters_total", "Occurrences that nobody could deliver, by channel and code.", "channel",
		"code")
	m.timeouts = counterVec("receipt_timeouts_total",
		"Due events that got no receipt within receipt_timeout, by channel.", "channel")
	m.leaks = counter("reconcile_leaks_total",
		"Timers that did not agree with the state of their trigger; expected: 0.")
	m.limit = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "pending_limit_triggers",
		Help: "Triggers that a partition may hold (limits.max_pending); +Inf without a bound.",
	})
	m.Registry.MustRegister(m.build, m.leaks, m.dead, m.timeouts, m.limit, m.letterLag, m.letterStop,
		m.contentLag)
	m.Registry.MustRegister(m.quota, m.historyLag, m.historyStop, m.historySkip, m.historyLost, m.lateness, m.commands,
		m.forwarded, m.fires, m.misfires, m.deliveries, m.transaction, m.aborts, m.hold, m.restore, m.evicted,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	fromZero(m.aborts, pipeline.AbortReasons...)
	fromZero(m.quota, append([]string{"reads", "behind"}, quota.Limits...)...)
	fromZero(m.misfires, trigger.FireOnce.String(), trigger.FireAll.String(), trigger.SkipMissed.String())
	return m
}

// Build says which program this is: waterclock_build_info is 1, with the version,
// the commit where the build knows it, and Go's.
func (m *Metrics) Build(version string) {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	m.build.WithLabelValues(version, commit, runtime.Version()).Set(1)
}

// fromZero begins a counter's series whose labels are known: one that began
// with its first event would hide that event from rate() and increase().
func fromZero(c *prometheus.CounterVec, labels ...string) {
	for _, l := range labels {
		c.WithLabelValues(l)
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets: buckets,
	})
}

func histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets: buckets,
	}, labels)
}

// Command counts a decided command.
func (m *Metrics) Command(op, result string) { m.commands.WithLabelValues(op, result).Inc() }

// Forwarded counts records sent to their right partition.
func (m *Metrics) Forwarded(n int) { m.forwarded.Add(float64(n)) }

// Fired counts a due event and how late it was.
func (m *Metrics) Fired(channel string, p trigger.Priority, late time.Duration) {
	m.fires.WithLabelValues(channel).Inc()
	m.lateness.WithLabelValues(channel, p.String()).Observe(late.Seconds())
}

// Turn notes a committed turn.
func (m *Metrics) Turn(_ int32, _ int, took time.Duration) { m.transaction.Observe(took.Seconds()) }

// Turns is how many turns were committed, and how long a commit took on
// average, in milliseconds.
func (m *Metrics) Turns() (n int64, meanMS float64) {
	var out dto.Metric
	if err := m.transaction.Write(&out); err != nil || out.Histogram.GetSampleCount() == 0 {
		return 0, 0
	}
	h := out.Histogram
	return int64(h.GetSampleCount()), h.GetSampleSum() / float64(h.GetSampleCount()) * 1000
}

// Aborted counts a turn given up.
func (m *Metrics) Aborted(_ int32, reason string) { m.aborts.WithLabelValues(reason).Inc() }

// BarrierHeld notes a wait for a foreign transaction.
func (m *Metrics) BarrierHeld(_ int32, took time.Duration) { m.hold.Observe(took.Seconds()) }

// Restored notes a finished restore.
func (m *Metrics) Restored(partition int32, _ int64, took time.Duration) {
	m.restore.WithLabelValues(strconv.Itoa(int(partition))).Set(took.Seconds())
}

// DoneEvicted counts done records dropped early.
func (m *Metrics) DoneEvicted(n int) { m.evicted.Add(float64(n)) }

// Misfired counts missed occurrences.
func (m *Metrics) Misfired(policy string, n int) { m.misfires.WithLabelValues(policy).Add(float64(n)) }

// Delivered counts a receipt.
func (m *Metrics) Delivered(channel string, o trigger.ReceiptOutcome) {
	m.deliveries.WithLabelValues(channel, o.String()).Inc()
}

// DeadLettered counts a dead letter. Codes come from receipts: those that nobody
// documents count as "other".
func (m *Metrics) DeadLettered(channel, code string) {
	m.dead.WithLabelValues(channel, labelOf(code)).Inc()
}

// ReceiptTimedOut counts an emission that no receipt came for.
func (m *Metrics) ReceiptTimedOut(channel string) { m.timeouts.WithLabelValues(channel).Inc() }

// PendingLimit notes limits.max_pending; 0 is no bound.
func (m *Metrics) PendingLimit(triggers int) {
	if triggers == 0 {
		m.limit.Set(math.Inf(1))
		return
	}
	m.limit.Set(float64(triggers))
}

// Leaked counts timers that did not agree with their states.
func (m *Metrics) Leaked(n int) { m.leaks.Add(float64(n)) }

// QuotaRejected counts a tenant's request over a limit.
func (m *Metrics) QuotaRejected(limit string) { m.quota.WithLabelValues(limit).Inc() }

// History is what a projector tells us.
func (m *Metrics) History() sinks.Hooks {
	return sinks.Hooks{Lag: func(partition int32, records int64) {
		m.historyLag.WithLabelValues(strconv.Itoa(int(partition))).Set(float64(records))
	}, Skipped: func(int32, int64, error) {
		m.historySkip.Inc()
	}, Lost: func(_ int32, records int64) {
		m.historyLost.Add(float64(records))
	}, Stopped: func(partition int32, err error) {
		stopped := 0.0
		if err != nil {
			stopped = 1
		}
		m.historyStop.WithLabelValues(strconv.Itoa(int(partition))).Set(stopped)
	}}
}

// Letters is what the projector of topic dead-letter tells us: its lag has a gauge of
// its own, the rest counts with the events'.
func (m *Metrics) Letters() sinks.Hooks {
	h := m.History()
	h.Lag = func(partition int32, records int64) {
		m.letterLag.WithLabelValues(strconv.Itoa(int(partition))).Set(float64(records))
	}
	h.Stopped = func(partition int32, err error) {
		stopped := 0.0
		if err != nil {
			stopped = 1
		}
		m.letterStop.WithLabelValues(strconv.Itoa(int(partition))).Set(stopped)
	}
	return h
}

// ContentLag is what the reader of the due topics tells us.
func (m *Metrics) ContentLag(topic string, records int64) {
	m.contentLag.WithLabelValues(topic).Set(float64(records))
}

// Step is for failpoints; there are none here.
func (m *Metrics) Step(int32, pipeline.Step) {}

// Watch adds the gauges that are read from the partitions when asked.
func (m *Metrics) Watch(partitions func() []pipeline.Status, standbys func() []engine.StandbyStatus) {
	m.Registry.MustRegister(&partitionCollector{partitions, standbys})
}

// partitionCollector reads partitions' gauges at every scrape.
type partitionCollector struct {
	partitions func() []pipeline.Status
	standbys   func() []engine.StandbyStatus
}

var (
	pendingDesc = desc("pending_triggers", "Triggers with timers, or paused.")
	lagDesc     = desc("commands_lag_records", "Commands appended and not yet decided.")
	overdueDesc = desc("oldest_overdue_seconds", "How long the oldest due timer has waited; 0 when none is due.")
	readDesc    = desc("restore_read_records", "Records of topic state read so far by the restore that is under way.")
	toReadDesc  = desc("restore_total_records", "Records of topic state that the restore under way has to read.")
	standbyDesc = desc("standby_lag_records",
		"Records of topic state that this process's standby of the partition has still to read.")
	refusedDesc = prometheus.NewDesc(namespace+"_partition_refused",
		"1 for a partition that this node owns and must not open, by reason.", []string{"partition", "reason"}, nil)
	clockDesc = prometheus.NewDesc(namespace+"_clock_offset_seconds",
		"This node's clock minus the broker's, at the last commit.", nil, nil)
	storeDesc   = prometheus.NewDesc(namespace+"_store_bytes", "Disk used by the partitions' stores.", nil, nil)
	retriesDesc = prometheus.NewDesc(namespace+"_retries_pending",
		"Occurrences that wait to be sent again: retries, postponements and redrives.", []string{"channel"}, nil)
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, []string{"partition"}, nil)
}

// Describe sends what Collect will.
func (c *partitionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		pendingDesc, lagDesc, overdueDesc, readDesc, toReadDesc, standbyDesc,
		refusedDesc, clockDesc, storeDesc, retriesDesc,
	} {
		ch <- d
	}
}

// Collect reads the partitions.
func (c *partitionCollector) Collect(ch chan<- prometheus.Metric) {
	var store, clock float64
	all := c.partitions()
	for _, s := range all {
		p := strconv.Itoa(int(s.Partition))
		if s.Ready { // an alert counts the partitions that fire by it
			ch <- gauge(pendingDesc, float64(s.Pending), p)
		}
		ch <- gauge(lagDesc, float64(s.CommandsLag), p)
		ch <- gauge(overdueDesc, s.OldestOverdue.Seconds(), p)
		if !s.Ready && s.RestoreTotal > 0 {
			ch <- gauge(readDesc, float64(s.Restored), p)
			ch <- gauge(toReadDesc, float64(s.RestoreTotal), p)
		}
		if s.Refused != "" {
			ch <- gauge(refusedDesc, 1, p, s.Refused)
		}
		store += float64(s.StoreBytes)
		if o := s.ClockOffset.Seconds(); o*o > clock*clock {
			clock = o
		}
	}
	for _, s := range c.standbys() {
		ch <- gauge(standbyDesc, float64(s.Lag), strconv.Itoa(int(s.Partition)))
	}
	for channel, n := range retriesOf(all) {
		ch <- gauge(retriesDesc, float64(n), channel)
	}
	ch <- gauge(clockDesc, clock)
	ch <- gauge(storeDesc, store)
}

// retriesOf adds up what partitions have. There is none while one that is ready is
// still counting: the sum would be too small.
func retriesOf(partitions []pipeline.Status) map[string]int64 {
	sum := map[string]int64{}
	for _, s := range partitions {
		if s.Ready && s.Retries == nil {
			return nil
		}
		for channel, n := range s.Retries {
			sum[channel] += n
		}
	}
	return sum
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
