package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

// maxBody bounds the text of the messages of a benchmark. A push has room for 4,096 bytes.
const maxBody = 2048

func newBenchNotify(a *app) *cobra.Command {
	o, asJSON := loadtest.NotifyOptions{}, false
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Measure the providers: pushes/s by HTTP/2, mails/s by SMTP",
		Long: `Measure how fast messages are sent: pushes by APNs over HTTP/2 and TLS, then
mails by SMTP, each to a server in this process, whose work is in the figures.
No broker and no engine runs.`,
		Example: "  waterclock bench notify\n  waterclock bench notify --pushes 200000 --mails 50000 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("pushes", o.Pushes, 1, 100_000_000), within("mails", o.Mails, 1, 100_000_000),
				within("at-once", o.AtOnce, 1, 10_000), within("body", o.Body, 1, maxBody)); err != nil {
				return err
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureNotify(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printBenchNotify(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Pushes, "pushes", 100_000, "how many pushes")
	f.IntVar(&o.Mails, "mails", 20_000, "how many mails")
	f.IntVar(&o.AtOnce, "at-once", 256, "messages under way")
	f.IntVar(&o.Body, "body", 100, "`bytes` of text in each")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printBenchNotify(r *loadtest.NotifyResult, asJSON bool) error {
	return a.printMeasured(r, asJSON, [][2]string{
		row("messages", "%d at once, %d B of text", r.AtOnce, r.Body),
		row("pushes/s by HTTP/2", "%.0f of %d, %.0f µs CPU each", r.PushesPerS, r.Pushes, r.PushCPU),
		row("mails/s by SMTP", "%.0f of %d, %.0f µs CPU each", r.MailsPerS, r.Mails, r.MailCPU),
		row("refused", "%d", r.Refused),
	})
}

func newBenchReminders(a *app) *cobra.Command {
	o, asJSON := loadtest.RemindersOptions{}, false
	cmd := &cobra.Command{
		Use:   "reminders",
		Short: "Measure reminders from their due time until the provider has them",
		Long: `Measure reminders of channel push, from the due time until the provider's server
has taken the push: engine, worker with preferences, and a server that speaks as
APNs does, in this process. Reminders are registered at --rate, each due a second
later, for --for. The broker is embedded, or --brokers with topics of its own.`,
		Example: "  waterclock bench reminders --for 10s\n  waterclock bench reminders --rate 5000 --for 2m --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("rate", o.Rate, 1, 100_000), within("for", o.For, time.Second, time.Hour),
				within("payload", o.Payload, 1, maxBody)); err != nil {
				return err
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureReminders(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printReminders(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Rate, "rate", 1000, "reminders a second")
	f.DurationVar(&o.For, "for", 30*time.Second, "how long they fall due")
	f.IntVar(&o.Payload, "payload", 100, "`bytes` of text in each")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printReminders(r *loadtest.RemindersResult, asJSON bool) error {
	return a.printMeasured(r, asJSON, [][2]string{
		row("broker", "%s", r.Broker),
		row("reminders", "%d at %d/s, %d B of text", r.Reminders, r.Rate, r.Payload),
		late("late p50/p99/max", r.Lateness),
		row("within 2 s / 30 s", "%d / %d", r.Within2S, r.Within30S),
		row("lost/doubled", "%d / %d", r.Lost, r.Doubled),
		row("CPU", "%.1f s", r.CPUSeconds), row("peak RSS", "%d MB", r.RSSBytes>>20),
	})
}

func newBenchCampaign(a *app) *cobra.Command {
	o, asJSON := loadtest.CampaignOptions{}, false
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Measure how much a campaign delays one-time passwords",
		Long: `Measure how late messages of priority high are, alone and while a campaign of
priority low, due at one instant, is sent to the same channel. Lateness is from
the due time until the provider's server has taken the push: engine, worker with
preferences, and a server that speaks as APNs does, in this process. The broker is
embedded, or --brokers with topics of its own.`,
		Example: "  waterclock bench campaign --low 20000\n  waterclock bench campaign --low 300000 --for 1m --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("low", o.Low, 1, loadtest.MaxTriggers), within("rate", o.Rate, 1, 100_000),
				within("for", o.For, time.Second, time.Hour), within("payload", o.Payload, 1, maxBody)); err != nil {
				return err
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureCampaign(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printCampaign(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Low, "low", 300_000, "triggers of priority low, due at one instant")
	f.IntVar(&o.Rate, "rate", 100, "triggers of priority high a second")
	f.DurationVar(&o.For, "for", 30*time.Second, "how long these fall due, alone and beside the campaign")
	f.IntVar(&o.Payload, "payload", 100, "`bytes` of text in each")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printCampaign(r *loadtest.CampaignResult, asJSON bool) error {
	return a.printMeasured(r, asJSON, [][2]string{
		row("broker", "%s", r.Broker),
		row("campaign", "%d low, %d B of text, out after %.1f s", r.Low, r.Payload, r.LowOutS),
		row("high", "%d/s for %.0f s; %d low were left then", r.Rate, r.ForS, r.Left),
		late("high p50/p99/max alone", r.Alone), late("beside the campaign", r.Beside),
		row("added to p99", "%.1f ms", r.AddedP99), row("lost/doubled", "%d / %d", r.Lost, r.Doubled),
		row("CPU", "%.1f s", r.CPUSeconds), row("peak RSS", "%d MB", r.RSSBytes>>20),
	})
}
