package dev.waterclock.worker;

import dev.waterclock.UnfinishedException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Handles the due events of a channel: {@link #run} does until {@link #close}, or SIGTERM.
 *
 * <pre>
 * Poller         one thread polls, pauses, commits, hears of rebalances, drains
 * Handlers       threads that call the handler; Batches calls onBatch before, Spans the tracer around it
 * MemoryLoad     one thread reads the end of the receipts topic, by Loader, into Memories
 * ReceiptWriter  writes receipts until they stand
 * State          what they share: Part (offsets), Queue (which event is next), Memories, BrokerClock
 * </pre>
 */
public final class Worker implements AutoCloseable {
    static final String HIGH = ".high";
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

    /** Topics. */
    record Names(String due, String lane, String receipts) {
        static Names of(WorkerBuilder b) {
            String due = b.topic.isEmpty() ? b.prefix + "due." + b.channel : b.topic;
            return new Names(due, due + HIGH, b.prefix + "receipts");
        }
    }

    private final WorkerBuilder o;
    private final Names names;
    private final Map<String, Object> kafka = new HashMap<>();
    private final Throttle failing = new Throttle(LOG);
    private final Meter meter;
    private final State state;
    private final CountDownLatch ended = new CountDownLatch(1);
    private final AtomicBoolean started = new AtomicBoolean();
    private volatile boolean stopping;

    Worker(WorkerBuilder b) {
        o = b;
        names = Names.of(b);
        kafka.put("client.id", "waterclock-worker-" + b.channel);
        kafka.put("enable.metrics.push", false);
        kafka.putAll(b.kafka);
        kafka.put("bootstrap.servers", b.brokers);
        meter = new Meter(b.metrics, failing);
        state = new State(b, meter);
    }

    /** A worker of a channel. */
    public static WorkerBuilder builder(String channel, Handler handler) {
        return new WorkerBuilder(channel, handler);
    }

    /**
     * Handles events until {@link #close} or {@link #stop}, or until the JVM ends: after SIGTERM or SIGINT it drains.
     * Brokers that are away are waited for.
     *
     * @throws UnfinishedException if drainTimeout was too short
     */
    public void run() {
        if (started.getAndSet(true)) {
            throw new IllegalStateException("a worker runs once: make another one");
        }
        Thread hook = new Thread(this::drainAtExit, "waterclock-exit");
        try {
            Runtime.getRuntime().addShutdownHook(hook);
            loop();
        } finally {
            ended.countDown();
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException e) {
                LOG.debug("the JVM ends already");
            }
        }
    }

    private void loop() {
        ReceiptWriter writer = new ReceiptWriter(names.receipts(), kafka, meter, failing);
        try {
            loop(writer);
        } finally {
            writer.close();
        }
    }

    private void loop(ReceiptWriter writer) {
        Handlers handlers = new Handlers(o, state, writer, meter, failing);
        MemoryLoad load = new MemoryLoad(o, names, kafka, state, handlers::wake, failing);
        Poller poller = new Poller(o, names, kafka, state, handlers, load, meter, failing);
        Thread loading = Handlers.daemon(load, "waterclock-load");
        try {
            while (!stopping && load.died() == null && poller.turn()) {
                // The next turn.
            }
        } finally {
            try {
                poller.drain();
            } finally {
                loading.interrupt();
            }
        }
        rethrow(load.died());
    }

    private static void rethrow(Throwable e) {
        if (e instanceof Error error) {
            throw error;
        }
        if (e instanceof RuntimeException other) {
            throw other;
        }
    }

    private void drainAtExit() {
        stopping = true;
        awaitEnd();
    }

    /** Ends {@link #run}, and does not wait for it: handlers finish, receipts are written, offsets are committed. */
    public void stop() {
        stopping = true;
    }

    /** Ends {@link #run} and waits until it has drained. */
    @Override
    public void close() {
        stopping = true;
        if (started.get()) {
            awaitEnd();
        }
    }

    private void awaitEnd() {
        try {
            if (!ended.await(o.drainTimeout.toMillis() + 5000, TimeUnit.MILLISECONDS)) {
                LOG.warn("the worker has not ended within its drain timeout");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** What is in memory now, and counts since the start. */
    public Map<String, Long> stats() {
        Metrics.Load now = state.load();
        Map<String, Long> all = meter.counts();
        all.put("assigned", (long) now.assigned());
        all.put("running", (long) now.running());
        all.put("ready", (long) now.ready());
        all.put("pending", (long) now.pending());
        all.put("buffered", (long) now.buffered());
        all.put("paused", (long) now.paused());
        all.put("held", (long) now.held());
        return all;
    }

    /** Calls a handler as the worker does: what it throws becomes a retry. For tests of handlers. */
    public static Result call(Handler handler, DueEvent event) {
        return Handlers.call(handler, event).result();
    }
}
