package loadtest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/config"
)

func setup(t *testing.T) Setup {
	t.Helper()
	c, err := config.Load(config.Options{Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	return Setup{Config: c, Logger: slog.New(slog.DiscardHandler), Embedded: true}
}

// The providers send all messages, and the servers of the measurement accept all.
func TestBenchNotify(t *testing.T) {
	r, err := MeasureNotify(t.Context(), setup(t), NotifyOptions{Pushes: 300, Mails: 100, AtOnce: 16, Body: 50})
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused != 0 || r.PushesPerS <= 0 || r.MailsPerS <= 0 {
		t.Errorf("%+v", r)
	}
}

// Each reminder reaches the provider's server and is measured.
func TestBenchReminders(t *testing.T) {
	r, err := MeasureReminders(t.Context(), setup(t), RemindersOptions{Rate: 50, For: time.Second, Payload: 50})
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 0 || r.Reminders != 50 || r.Within30S > 50 {
		t.Errorf("%+v", r)
	}
}
