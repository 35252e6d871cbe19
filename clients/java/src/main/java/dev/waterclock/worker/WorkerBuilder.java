package dev.waterclock.worker;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;

/** Options of a {@link Worker}. */
public final class WorkerBuilder {
    static final long MIN_BYTES = 64 << 10; // of a fetch, and of the share of a partition
    private static final Pattern CHANNEL = Pattern.compile("[a-z0-9][a-z0-9._-]{0,48}");

    final String channel;
    final Handler handler;
    final Map<String, Object> kafka = new HashMap<>();
    String brokers = "127.0.0.1:9092";
    String prefix = "waterclock.";
    String group = "waterclock";
    String topic = "";
    int concurrency = 64;
    int bufferRecords = 10_000;
    long bufferBytes = 64 << 20;
    int fetchBytes = 8 << 20;
    Duration handlerTimeout = Duration.ofMinutes(5);
    Duration drainTimeout = Duration.ofSeconds(20);
    Duration revokeTimeout = Duration.ofSeconds(10);
    Duration commitInterval = Duration.ofSeconds(1);
    int memory = 100_000;
    boolean byKey;
    Function<List<DueEvent>, Object> onBatch;
    int batchMax = 500;
    Bulkhead perGroup;
    Metrics metrics;
    Tracer tracer;

    WorkerBuilder(String channel, Handler handler) {
        this.channel = channel;
        this.handler = handler;
    }

    /** Addresses to start from, separated by commas. The default is 127.0.0.1:9092. */
    public WorkerBuilder brokers(String addresses) {
        brokers = addresses;
        return this;
    }

    /** Options of all Kafka clients, such as TLS and SASL. What the worker depends on is set after these. */
    public WorkerBuilder kafka(Map<String, ?> config) {
        kafka.putAll(config);
        return this;
    }

    /** The engine's topics.prefix. The default is {@code waterclock.}. */
    public WorkerBuilder prefix(String prefix) {
        this.prefix = prefix;
        return this;
    }

    /** The engine's group; the consumer group is {@code <group>.<channel>}. The default is waterclock. */
    public WorkerBuilder group(String group) {
        this.group = group;
        return this;
    }

    /** The engine's {@code channels.<channel>.topic}, where that is set. */
    public WorkerBuilder topic(String topic) {
        this.topic = topic;
        return this;
    }

    /** Handlers at a time, each on a thread of its own. The default is 64; 1 to 10,000. */
    public WorkerBuilder concurrency(int n) {
        concurrency = n;
        return this;
    }

    /**
     * Bounds the events in memory, from the poll to the acknowledged receipt. Partitions have equal shares, at least
     * 16 records and 64 KiB; one that is full is paused, and one poll may exceed it. The default is 10,000 records
     * and 64 MiB.
     */
    public WorkerBuilder buffer(int records, long bytes) {
        bufferRecords = records;
        bufferBytes = bytes;
        return this;
    }

    /** Bounds one fetch. The default is 8 MiB. */
    public WorkerBuilder fetchBytes(int bytes) {
        fetchBytes = bytes;
        return this;
    }

    /**
     * Then the handler's thread is interrupted; what it throws is a retry, code {@code timeout}. The default is 5
     * minutes; keep it below the channel's receipt_timeout.
     */
    public WorkerBuilder handlerTimeout(Duration d) {
        handlerTimeout = d;
        return this;
    }

    /** Bounds the end of {@link Worker#run}. The default is 20 s. */
    public WorkerBuilder drainTimeout(Duration d) {
        drainTimeout = d;
        return this;
    }

    /** How long a partition that moves waits for its handlers. The default is 10 s. */
    public WorkerBuilder revokeTimeout(Duration d) {
        revokeTimeout = d;
        return this;
    }

    /** Between two commits of offsets. The default is 1 s. */
    public WorkerBuilder commitInterval(Duration d) {
        commitInterval = d;
        return this;
    }

    /** Receipts known of each partition (worker.memory). The default is 100,000; -1 turns it off. */
    public WorkerBuilder memory(int receipts) {
        memory = receipts;
        return this;
    }

    /** For a channel with {@code partitioning: by_key}: the memory is of all partitions. */
    public WorkerBuilder byKey(boolean byKey) {
        this.byKey = byKey;
        return this;
    }

    /**
     * Is called with each batch of events right before their handlers, one batch at a time; handlers get what it
     * returned by {@link DueEvent#batch}. There one query reads for many events what each handler would read for
     * itself. Nothing new starts while it runs, so it needs a time-out of its own. If it throws, the events of the
     * batch are retried.
     */
    public WorkerBuilder onBatch(Function<List<DueEvent>, Object> hook) {
        onBatch = hook;
        return this;
    }

    /** Bounds the events of one call of onBatch. The default is 500; it is never more than concurrency. */
    public WorkerBuilder batchMax(int n) {
        batchMax = n;
        return this;
    }

    /** Sets bulkheads. The default is none. */
    public WorkerBuilder perGroup(Bulkhead b) {
        perGroup = b;
        return this;
    }

    /** Where numbers go. The default is nowhere; {@link PrometheusText} is one. */
    public WorkerBuilder metrics(Metrics m) {
        metrics = m;
        return this;
    }

    /** Starts the span of each attempt. The default is none. */
    public WorkerBuilder tracer(Tracer t) {
        tracer = t;
        return this;
    }

    private static void check(boolean ok, String text) {
        if (!ok) {
            throw new IllegalArgumentException("worker: " + text);
        }
    }

    public Worker build() {
        check(CHANNEL.matcher(channel).matches() && !channel.endsWith(Worker.HIGH),
                "channel \"" + channel + "\": want a-z, 0-9, '.', '_', '-', at most 49 of them, not ending in .high");
        check(handler != null, "want a handler");
        check(!brokers.isBlank(), "brokers: want at least one address");
        check(!group.isEmpty(), "group: want the engine's group");
        check(concurrency >= 1 && concurrency <= 10_000, "concurrency " + concurrency + ": want 1 to 10,000");
        check(bufferRecords > 0 && bufferBytes > 0, "buffer: want more than 0");
        check(fetchBytes >= MIN_BYTES, "fetchBytes: want 64 KiB or more");
        for (Duration d : List.of(handlerTimeout, drainTimeout, revokeTimeout, commitInterval)) {
            check(!d.isNegative() && !d.isZero(), "timeouts: want more than 0");
        }
        check(memory == -1 || memory > 0 && memory <= 10_000_000,
                "memory " + memory + ": want 1 to 10,000,000, or -1 for none");
        check(batchMax > 0, "batchMax: want more than 0");
        check(perGroup == null || perGroup.group() != null && perGroup.inFlight() > 0 && perGroup.waiting() > 0,
                "perGroup: want a group, and inFlight and waiting above 0");
        return new Worker(this);
    }
}
