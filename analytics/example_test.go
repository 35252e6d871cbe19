package analytics_test

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/analytics"
)

// An event becomes a row of a Parquet file. A program reads the columns that it names.
func Example() {
	dir, err := os.MkdirTemp("", "export-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "waterclock.events"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	client, err := kgo.NewClient(append(analytics.ClientOptions(), kgo.SeedBrokers(broker.ListenAddrs()...))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	client.ProduceSync(ctx, &kgo.Record{Topic: "waterclock.events", Value: []byte(
		`{"event_id":"0-1","type":"occurrence.fired","trigger":"tea","event_us":1795183200000000,"lateness_ms":3}`)})

	exporter := analytics.New(analytics.Options{Client: client, Topic: "waterclock.events", Dir: dir})
	report, err := exporter.Export(ctx)
	fmt.Println(report.Events, "event", err)

	type row struct {
		Type     string `parquet:"type"`
		Trigger  string `parquet:"trigger"`
		Lateness *int64 `parquet:"lateness_ms,optional"`
	}
	reader, err := analytics.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = analytics.Read(reader, 0, analytics.Selection{}, func(rows []row) error {
		for _, r := range rows {
			fmt.Println(r.Type, r.Trigger, *r.Lateness, "ms late")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 event <nil>
	// occurrence.fired tea 3 ms late
	// <nil>
}
