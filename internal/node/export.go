package node

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/analytics"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/wait"
)

// ExportOptions converts the settings. The caller adds the client.
func ExportOptions(c *config.Config) (analytics.Options, error) {
	key, err := c.ExportKey()
	return analytics.Options{Dir: c.Export.Dir, Users: analytics.Users{Key: key, Plain: c.Export.PlainUsers}}, err
}

// startExport starts the role that writes the event log to files.
func (n *node) startExport(life *roles) error {
	if !n.cfg.HasRole("export") {
		return nil
	}
	o, err := ExportOptions(n.cfg)
	if err != nil {
		return err
	}
	if o.Dir == "" {
		return &SettingError{"export.dir is unset, but roles has export: name a directory or omit the role"}
	}
	o.Topic, o.Watermarks, o.Logger = n.names.Events(), n.names.Watermarks(), n.log.With("role", "export")
	clients := n.exportClient()
	o.Folded = int(n.shares.Folded)
	life.start("export", func(ctx context.Context) error { return runExport(ctx, o, clients) })
	return nil
}

// exportClient returns the options of the export's client.
func (n *node) exportClient() []kgo.Opt {
	fetch := int32(n.shares.ExportFetch)
	return slices.Concat(analytics.ClientOptions(), n.clients,
		[]kgo.Opt{kgo.FetchMaxBytes(fetch), kgo.FetchMaxPartitionBytes(fetch)})
}

// exportRefused is the time between two tries after a refusal that only a person can resolve.
const exportRefused = time.Minute

// runExport continues after the export is refused: the other roles of the process must go on, and
// somebody may accept a gap with `events export` in the meantime.
func runExport(ctx context.Context, o analytics.Options, clients []kgo.Opt) error {
	cl, err := kgo.NewClient(clients...)
	if err != nil {
		return err
	}
	defer cl.Close()
	o.Client = cl
	for ctx.Err() == nil {
		if err := analytics.New(o).Follow(ctx); err != nil {
			o.Logger.Error("nothing is exported", "error", err, "next try in", exportRefused)
			wait.For(ctx, exportRefused)
		}
	}
	return nil
}
