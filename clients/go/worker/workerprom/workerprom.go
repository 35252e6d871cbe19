// Package workerprom exports a worker's metrics to Prometheus.
//
//	worker.Run(ctx, "print", handle, worker.WithMetrics(workerprom.New(prometheus.DefaultRegisterer, "print")))
package workerprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// Metrics implements worker.Metrics. Every series has the label channel. No label has the name of
// a trigger, a user or a tenant, or a code that a caller chose.
//
//	waterclock_worker_handled_total{outcome}       handlers that returned
//	waterclock_worker_handle_seconds               how long they took, a histogram
//	waterclock_worker_skipped_total{reason}        known, or too late; no receipt
//	waterclock_worker_abandoned_total              not finished when the partition moved or the worker ended
//	waterclock_worker_garbled_total{header}        records that are not due events
//	waterclock_worker_receipt_seconds              from the result to the brokers' acknowledgement, a histogram
//	waterclock_worker_receipt_failures_total       failed tries to write a receipt
//	waterclock_worker_commit_failures_total        failed commits of offsets
//	waterclock_worker_running                      running handlers
//	waterclock_worker_ready                        events that wait for a handler
//	waterclock_worker_buffered_events              events in memory
//	waterclock_worker_buffered_bytes               bytes of these
//	waterclock_worker_pending_receipts             receipts that are not acknowledged yet
//	waterclock_worker_partitions{state}            assigned, paused (full), held (receipts topic not read yet)
//	waterclock_worker_clock_ahead_seconds          how far the brokers' clock is ahead of this machine's
type Metrics struct {
	worker.NoMetrics
	handled, skipped, garbled                *prometheus.CounterVec
	abandoned, receiptFailed, commitFailed   prometheus.Counter
	took, receipts                           prometheus.Histogram
	running, ready, buffered, bytes, pending prometheus.Gauge
	partitions                               *prometheus.GaugeVec
	ahead                                    prometheus.Gauge
}

var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// New registers the metrics of one worker. Each channel in a process needs its own. Like
// prometheus.MustRegister, it panics if the channel's metrics are registered already.
func New(to prometheus.Registerer, channel string) *Metrics {
	f := factory{prometheus.WrapRegistererWith(prometheus.Labels{"channel": channel}, to)}
	return &Metrics{
		handled:       f.counters("handled_total", "Handlers that returned.", "outcome"),
		took:          f.histogram("handle_seconds", "How long handlers took."),
		skipped:       f.counters("skipped_total", "Skipped due events: answered before, or expired.", "reason"),
		abandoned:     f.counter("abandoned_total", "Due events whose handlers did not finish in time."),
		garbled:       f.counters("garbled_total", "Records that are not due events.", "header"),
		receipts:      f.histogram("receipt_seconds", "Time from the result to the acknowledged receipt."),
		receiptFailed: f.counter("receipt_failures_total", "Failed attempts to write a receipt."),
		commitFailed:  f.counter("commit_failures_total", "Failed commits of offsets."),
		running:       f.gauge("running", "Running handlers."),
		ready:         f.gauge("ready", "Due events that wait for a handler."),
		buffered:      f.gauge("buffered_events", "Due events in memory."),
		bytes:         f.gauge("buffered_bytes", "Bytes of the due events in memory."),
		pending:       f.gauge("pending_receipts", "Receipts that are not acknowledged yet."),
		partitions:    f.gauges("partitions", "Partitions of the due topic and its high lane.", "state"),
		ahead:         f.gauge("clock_ahead_seconds", "By how much the brokers' clock is ahead."),
	}
}

// factory creates and registers metrics.
type factory struct{ to prometheus.Registerer }

const prefix = "waterclock_worker_"

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	f.to.MustRegister(v)
	return v
}

func (f factory) counter(name, help string) prometheus.Counter {
	v := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	f.to.MustRegister(v)
	return v
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	f.to.MustRegister(v)
	return v
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	f.to.MustRegister(v)
	return v
}

func (f factory) histogram(name, help string) prometheus.Histogram {
	v := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
	f.to.MustRegister(v)
	return v
}

// Handled implements worker.Metrics.
func (m *Metrics) Handled(outcome worker.Outcome, _ string, took time.Duration) {
	m.handled.WithLabelValues(string(outcome)).Inc()
	m.took.Observe(took.Seconds())
}

// Skipped implements worker.Metrics.
func (m *Metrics) Skipped(reason worker.SkipReason) {
	m.skipped.WithLabelValues(string(reason)).Inc()
}

// Abandoned implements worker.Metrics.
func (m *Metrics) Abandoned() { m.abandoned.Inc() }

// Garbled implements worker.Metrics.
func (m *Metrics) Garbled(header string) { m.garbled.WithLabelValues(header).Inc() }

// ReceiptWritten implements worker.Metrics.
func (m *Metrics) ReceiptWritten(took time.Duration) { m.receipts.Observe(took.Seconds()) }

// ReceiptFailed implements worker.Metrics.
func (m *Metrics) ReceiptFailed() { m.receiptFailed.Inc() }

// CommitFailed implements worker.Metrics.
func (m *Metrics) CommitFailed() { m.commitFailed.Inc() }

// Load implements worker.Metrics.
func (m *Metrics) Load(l worker.Load) {
	m.running.Set(float64(l.Running))
	m.ready.Set(float64(l.Ready))
	m.buffered.Set(float64(l.Buffered))
	m.bytes.Set(float64(l.Bytes))
	m.pending.Set(float64(l.Pending))
	m.partitions.WithLabelValues("assigned").Set(float64(l.Assigned))
	m.partitions.WithLabelValues("paused").Set(float64(l.Paused))
	m.partitions.WithLabelValues("held").Set(float64(l.Held))
	m.ahead.Set(l.ClockAhead.Seconds())
}
