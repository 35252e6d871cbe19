package loadtest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/topics"
)

// start launches the server under test, and the bare handler.
func (b *httpRun) start(ctx context.Context) (err error) {
	if err := b.serve(ctx); err != nil {
		return err
	}
	return b.serveBare(ctx)
}

// serve launches the server under test, unless it runs already.
func (b *httpRun) serve(ctx context.Context) (err error) {
	b.id = node.NewID()
	b.result.Broker = "kafka"
	if b.o.OwnServer {
		if err := b.launch(); err != nil {
			return err
		}
		if err := b.child.awaitReady(ctx, time.Minute); err != nil {
			b.stop()
			return err
		}
	}
	b.host, err = hostOf(b.cfg.URL)
	return err
}

func (b *httpRun) launch() (err error) {
	if b.dir, err = os.MkdirTemp("", "waterclock-bench-"); err != nil {
		return err
	}
	verb := "serve"
	args := []string{"--data-dir", b.dir, "--limits-payload", b.cfg.Limits.Payload.String()}
	if b.ownBroker {
		kafka, err := freePort()
		if err != nil {
			return err
		}
		b.result.Broker, b.cfg.Brokers = "embedded", []string{kafka}
		verb, args = "dev", append(args, "--kafka-listen", kafka)
	} else {
		b.cfg.Topics.Prefix = "waterclock-bench-" + b.id + "."
		args = append(args, "--roles", "engine,api", "--brokers", strings.Join(b.cfg.Brokers, ","),
			"--topics-prefix", b.cfg.Topics.Prefix, "--group", b.cfg.Topics.Prefix+"engine",
			"--topics-partitions", strconv.Itoa(b.cfg.Topics.Partitions))
	}
	if b.child, err = startChild(verb, args); err == nil {
		b.cfg.URL = b.child.url
	}
	return err
}

func (b *httpRun) stop() {
	if b.bareServer != nil {
		b.bareServer.Close()
		b.bareKafka.Close()
	}
	b.child.stop()
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// serveBare runs the handler that the gateway is compared with. It produces the body with
// acks=all under the id in the path, and answers when it is durable. There are no decisions.
func (b *httpRun) serveBare(ctx context.Context) error {
	opts, err := kafkaconn.Options(b.cfg, "waterclock-bench", nil)
	if err != nil {
		return err
	}
	topic := b.cfg.Topic("bench-bare-" + b.id)
	if b.bareKafka, err = kgo.NewClient(append(opts, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		return err
	}
	partitions := int32(b.cfg.Topics.Partitions)
	if _, err := kadm.NewClient(b.bareKafka).CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.bareHost = ln.Addr().String()
	b.bareServer = &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelWarn),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			value, err := io.ReadAll(r.Body)
			key := []byte(r.URL.Path)
			if err == nil {
				err = b.bareKafka.ProduceSync(r.Context(),
					&kgo.Record{Key: key, Value: value, Partition: topics.Partition(key, partitions)}).FirstErr()
			}
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}),
	}
	go func() { _ = b.bareServer.Serve(ln) }() // returns after Close
	return nil
}

// usage returns what the server under test has used, if we started it.
func (b *httpRun) usage() (cpu time.Duration, rss int64) {
	if b.child == nil {
		return 0, 0
	}
	return b.child.usage()
}
