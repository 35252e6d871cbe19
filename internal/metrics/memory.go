package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/internal/memory"
)

// WatchMemory adds the gauges that are read from the watcher of memory.
func (m *Metrics) WatchMemory(usage func() memory.Usage) {
	of := func(name, help string, value func(memory.Usage) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
			func() float64 { return value(usage()) })
	}
	m.Registry.MustRegister(
		of("memory_limit_bytes", "Limit of this process's memory; 0: none.",
			func(u memory.Usage) float64 { return float64(u.Limit) }),
		of("memory_used_bytes", "Memory in use, without what a garbage collection would free.",
			func(u memory.Usage) float64 { return float64(u.Used) }),
		of("memory_pressure", "0: memory suffices; 1: partitions read less; 2: the API also answers 429.",
			func(u memory.Usage) float64 { return float64(u.Pressure) }),
	)
}

// WatchDisk adds the gauges that are read from the engine about its disk.
func (m *Metrics) WatchDisk(disk func() engine.DiskStatus) {
	of := func(name, help string, value func(engine.DiskStatus) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
			func() float64 { return value(disk()) })
	}
	m.Registry.MustRegister(
		of("disk_free_bytes", "Free bytes on the disk of the stores.",
			func(d engine.DiskStatus) float64 { return float64(d.Free) }),
		of("disk_reserve_bytes", "Bytes that must stay free there (disk.reserve).",
			func(d engine.DiskStatus) float64 { return float64(d.Reserve) }),
		of("disk_full", "1 while the disk is full: this process owns no partition.", func(d engine.DiskStatus) float64 {
			if d.Full {
				return 1
			}
			return 0
		}),
	)
}

// WatchThrottle adds the counters of what Kafka's quotas cost.
func (m *Metrics) WatchThrottle(total func() (pause time.Duration, answers int64)) {
	of := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value)
	}
	m.Registry.MustRegister(
		of("kafka_throttle_seconds_total", "How long brokers told this process's clients to pause, for a quota.",
			func() float64 { pause, _ := total(); return pause.Seconds() }),
		of("kafka_throttled_answers_total", "Answers of brokers that asked for such a pause.",
			func() float64 { _, answers := total(); return float64(answers) }),
	)
}
