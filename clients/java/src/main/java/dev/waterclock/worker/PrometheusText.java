package dev.waterclock.worker;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;

/**
 * Metrics of one worker in Prometheus' text format, for an endpoint of yours. The names are those of the kit for Go:
 * {@code waterclock_worker_*}. No label names a trigger, a user, a tenant or a code that a caller chose.
 *
 * <pre>{@code
 * PrometheusText metrics = new PrometheusText("print");
 * server.createContext("/metrics", exchange -> write(exchange, metrics.text()));
 * }</pre>
 *
 * <p>Of several channels, write one text after another: each has all its lines once.
 */
public final class PrometheusText implements Metrics {
    private static final String PREFIX = "waterclock_worker_";
    private static final double[] BUCKETS =
            {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300};

    private final String channel;
    private final Map<String, LongAdder> counters = new ConcurrentSkipListMap<>(); // by series
    private final Histogram took = new Histogram("handle_seconds");
    private final Histogram receipts = new Histogram("receipt_seconds");
    private volatile Load load = new Load(0, 0, 0, 0, 0, 0, 0, 0, Duration.ZERO);

    public PrometheusText(String channel) {
        this.channel = channel;
        for (String name : new String[] {"abandoned_total", "receipt_failures_total", "commit_failures_total"}) {
            counters.put(series(name, "", ""), new LongAdder());
        }
    }

    @Override
    public void handled(Result.Outcome outcome, String code, Duration d) {
        count("handled_total", "outcome", outcome.text);
        took.observe(d);
    }

    @Override
    public void skipped(String reason) {
        count("skipped_total", "reason", reason);
    }

    @Override
    public void abandoned() {
        count("abandoned_total", "", "");
    }

    @Override
    public void garbled(String header) {
        count("garbled_total", "header", header);
    }

    @Override
    public void receiptWritten(Duration d) {
        receipts.observe(d);
    }

    @Override
    public void receiptFailed() {
        count("receipt_failures_total", "", "");
    }

    @Override
    public void commitFailed() {
        count("commit_failures_total", "", "");
    }

    @Override
    public void load(Load now) {
        load = now;
    }

    /** All series, one a line. */
    public String text() {
        StringBuilder b = new StringBuilder();
        counters.forEach((series, n) -> b.append(series).append(' ').append(n.sum()).append('\n'));
        took.write(b);
        receipts.write(b);
        gauge(b, "running", load.running());
        gauge(b, "ready", load.ready());
        gauge(b, "buffered_events", load.buffered());
        gauge(b, "buffered_bytes", load.bytes());
        gauge(b, "pending_receipts", load.pending());
        line(b, series("partitions", "state", "assigned"), load.assigned());
        line(b, series("partitions", "state", "paused"), load.paused());
        line(b, series("partitions", "state", "held"), load.held());
        gauge(b, "clock_ahead_seconds", load.clockAhead().toMillis() / 1e3);
        return b.toString();
    }

    private void count(String name, String label, String value) {
        counters.computeIfAbsent(series(name, label, value), s -> new LongAdder()).increment();
    }

    private void gauge(StringBuilder b, String name, double value) {
        line(b, series(name, "", ""), value);
    }

    private static void line(StringBuilder b, String series, double value) {
        b.append(series).append(' ').append(value).append('\n');
    }

    private String series(String name, String label, String value) {
        String more = label.isEmpty() ? "" : "," + label + "=\"" + value + "\"";
        return PREFIX + name + "{channel=\"" + channel + "\"" + more + "}";
    }

    private final class Histogram {
        private final String name;
        private final LongAdder[] counts = new LongAdder[BUCKETS.length + 1];
        private final DoubleAdder sum = new DoubleAdder();

        Histogram(String name) {
            this.name = name;
            for (int i = 0; i < counts.length; i++) {
                counts[i] = new LongAdder();
            }
        }

        void observe(Duration d) {
            double seconds = d.toNanos() / 1e9;
            int i = 0;
            while (i < BUCKETS.length && seconds > BUCKETS[i]) {
                i++;
            }
            counts[i].increment();
            sum.add(seconds);
        }

        void write(StringBuilder b) {
            long n = 0;
            for (int i = 0; i <= BUCKETS.length; i++) {
                n += counts[i].sum();
                line(b, series(name + "_bucket", "le", i < BUCKETS.length ? String.valueOf(BUCKETS[i]) : "+Inf"), n);
            }
            line(b, series(name + "_sum", "", ""), sum.sum());
            line(b, series(name + "_count", "", ""), n);
        }
    }
}
