package dev.waterclock.worker;

import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;

/** Counts for {@link Worker#stats}, and passes numbers on to the caller's metrics. */
final class Meter {
    private final Metrics metrics; // null if there are none
    private final Throttle throttle;
    private final Map<String, LongAdder> counts = new ConcurrentHashMap<>();

    Meter(Metrics metrics, Throttle throttle) {
        this.metrics = metrics;
        this.throttle = throttle;
    }

    void handled(Result r, long tookNanos) {
        answered(r);
        to(m -> m.handled(r.outcome(), r.code(), Duration.ofNanos(tookNanos)));
    }

    /** An answer without a handler: the event has expired. */
    void answered(Result r) {
        count(r.outcome().text);
    }

    void skipped(String reason) {
        count("skipped_" + reason);
        to(m -> m.skipped(reason));
    }

    void abandoned() {
        count("abandoned");
        to(Metrics::abandoned);
    }

    void garbled(String header) {
        count("garbled");
        to(m -> m.garbled(header));
    }

    void receiptWritten(long tookNanos) {
        to(m -> m.receiptWritten(Duration.ofNanos(tookNanos)));
    }

    void receiptFailed() {
        count("receipt_failures");
        to(Metrics::receiptFailed);
    }

    void commitFailed() {
        count("commit_failures");
        to(Metrics::commitFailed);
    }

    void load(Metrics.Load load) {
        to(m -> m.load(load));
    }

    Map<String, Long> counts() {
        Map<String, Long> all = new TreeMap<>();
        all.put("receipt_failures", 0L);
        counts.forEach((name, n) -> all.put(name, n.sum()));
        return all;
    }

    private void count(String name) {
        LongAdder n = counts.get(name);
        (n == null ? counts.computeIfAbsent(name, x -> new LongAdder()) : n).increment();
    }

    private void to(Consumer<Metrics> call) {
        if (metrics == null) {
            return;
        }
        try {
            call.accept(metrics);
        } catch (RuntimeException e) {
            throttle.warn("the metrics threw: " + Handlers.text(e));
        }
    }
}
