package providers_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks/notify"
)

// BenchmarkSend measures sending to a server in the same process over TLS. It includes the
// server's work, but no network.
func BenchmarkSend(b *testing.B) {
	run := func(name, address string, open func(b *testing.B) notify.Provider) {
		b.Run(name, func(b *testing.B) {
			p := open(b)
			var n atomic.Int64
			begun := processorTime(b)
			b.SetParallelism(128) // concurrent messages per CPU
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					m := message(address)
					m.ID = fmt.Sprintf("acme/k%d@2026-11-20T09:00:00#0", n.Add(1))
					if a := p.Send(b.Context(), m); a.Result.Outcome != "accepted" {
						b.Error(said(a), a.Result.Detail)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
			b.ReportMetric(float64((processorTime(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/send")
		})
	}
	run("fcm", "token", func(b *testing.B) notify.Provider { return startGoogle(b).fcm(b, nil) })
	run("apns", device, func(b *testing.B) notify.Provider {
		return newAPNs(b, startServer(b, accepts).http(nil), ecKey(b))
	})
	run("twilio", phone, func(b *testing.B) notify.Provider {
		return newTwilio(b, startServer(b, created).http(nil), nil)
	})
}

// processorTime returns the CPU time of the process. Other load on the machine does not change
// it.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
