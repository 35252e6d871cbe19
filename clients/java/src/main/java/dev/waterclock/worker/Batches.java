package dev.waterclock.worker;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Calls onBatch with events that start now, one batch at a time, and hands them to the handlers after it. */
final class Batches {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);
    private static final int LINGER_MS = 5; // while nearly all handlers are busy: else each would begin a batch of one

    private final WorkerBuilder o;
    private final State state;

    // Guarded by the state.
    private final ArrayDeque<Item> begun = new ArrayDeque<>(); // the hook has run, the handlers have not
    private boolean hooking;

    Batches(WorkerBuilder o, State state) {
        this.o = o;
        this.state = state;
    }

    boolean hasWork() {
        return !begun.isEmpty() || !hooking && state.canStart();
    }

    Item next() {
        return begun.poll();
    }

    /** Whether the caller has to begin a batch: if so, nobody else does. */
    boolean mayBegin() {
        if (hooking || !state.canStart() || state.running() >= o.concurrency) {
            return false;
        }
        hooking = true;
        return true;
    }

    /** Begins a batch. The hook runs without the monitor. */
    void begin() {
        List<Item> batch = List.of();
        try {
            if (state.crowded()) {
                State.sleep(LINGER_MS);
            }
            batch = pick();
            hook(batch.stream().filter(item -> item.answer == null).toList());
        } finally {
            synchronized (state) {
                hooking = false;
                begun.addAll(batch);
                if (state.ending()) {
                    drop();
                }
            }
        }
    }

    private List<Item> pick() {
        List<Item> batch = new ArrayList<>();
        synchronized (state) {
            for (Item item = state.pick(); item != null; item = state.pick()) {
                batch.add(item);
                if (batch.size() >= o.batchMax) {
                    break;
                }
            }
        }
        return batch;
    }

    private void hook(List<Item> batch) {
        if (batch.isEmpty()) {
            return;
        }
        try {
            Object value = o.onBatch.apply(batch.stream().map(item -> item.event).toList());
            batch.forEach(item -> item.event.batch = value);
        } catch (Throwable e) { // an Error must not end the thread
            Result retry = Result.retry().withCode(e instanceof Error ? "panic" : "error")
                    .withDetail("onBatch threw: " + Handlers.text(e));
            batch.forEach(item -> item.answer = retry);
            log(e, retry);
        }
    }

    private static void log(Throwable e, Result retry) {
        try {
            LOG.error("onBatch threw; the events of the batch are retried", e);
        } catch (Throwable unreadable) { // the logger asks for the message too
            LOG.error("the events of the batch are retried: {}", retry.detail());
        }
    }

    /** At the end: what is left has no handler, and is delivered again. */
    void drop() {
        synchronized (state) {
            begun.forEach(state::finish);
            begun.clear();
        }
    }
}
