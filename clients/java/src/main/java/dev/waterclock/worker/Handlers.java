package dev.waterclock.worker;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The threads that call the handler. They are made as they are needed, and stay. */
final class Handlers {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

    private final WorkerBuilder o;
    private final State state;
    private final ReceiptWriter writer;
    private final Meter meter;
    private final Throttle failing;
    private final Spans spans;
    private final Batches batches; // null without a hook

    // Guarded by the state.
    private int threads;
    private int idle;
    private boolean waking; // one thread is on its way: it wakes the next one

    Handlers(WorkerBuilder o, State state, ReceiptWriter writer, Meter meter, Throttle failing) {
        this.o = o;
        this.state = state;
        this.writer = writer;
        this.meter = meter;
        this.failing = failing;
        spans = new Spans(o.tracer, failing);
        batches = o.onBatch == null ? null : new Batches(o, state);
    }

    /**
     * Something is ready. Threads are woken one after another, each by the one before it: with a handler that takes
     * microseconds few are ever awake, and they do not fight for the processors.
     */
    void wake() {
        synchronized (state) {
            if (waking || !hasWork()) {
                return;
            }
            if (idle > 0) {
                waking = true;
                state.notify();
            } else if (threads < o.concurrency) {
                startThread();
            }
        }
    }

    /** Where the machine allows no more threads, those that are there go on. */
    private void startThread() {
        try {
            daemon(this::serve, "waterclock-handler-" + (threads + 1));
            threads++;
            waking = true;
        } catch (OutOfMemoryError e) {
            failing.warn("cannot start a thread for a handler; there are " + threads + ": " + e);
        }
    }

    static Thread daemon(Runnable body, String name) {
        Thread t = new Thread(body, name);
        t.setDaemon(true);
        t.start();
        return t;
    }

    private boolean hasWork() {
        return batches == null ? state.canStart() : batches.hasWork();
    }

    private void serve() {
        synchronized (state) {
            waking = false;
        }
        Item item = next(null);
        while (item != null) {
            handle(item);
            item = next(item);
        }
    }

    /** Notes that one event has ended, and waits for the next one; null at the end. */
    private Item next(Item before) {
        while (true) {
            synchronized (state) {
                if (before != null) {
                    state.finish(before);
                    before = null;
                }
                while (true) {
                    if (state.ending()) {
                        return null;
                    }
                    Item item = batches == null ? state.pick() : batches.next();
                    if (item != null) {
                        wake();
                        return item;
                    }
                    if (batches != null && batches.mayBegin()) {
                        break;
                    }
                    sleep();
                }
            }
            batches.begin();
        }
    }

    /** The state has ended: nothing more begins. */
    void drop() {
        if (batches != null) {
            batches.drop();
        }
    }

    private void sleep() {
        idle++;
        try {
            state.wait();
        } catch (InterruptedException e) {
            LOG.debug("an interrupt that was meant for nobody");
        }
        idle--;
        waking = false;
    }

    /** Calls the handler, unless there is an answer already, and writes the receipt. */
    private void handle(Item item) {
        if (item.abandoned()) { // while onBatch ran: another worker has it
            meter.abandoned();
            return;
        }
        if (item.answer != null) {
            meter.answered(item.answer);
            answer(item, item.answer);
            return;
        }
        Tracer.End end = spans.start(item.event);
        long begin = System.nanoTime();
        item.begin(o.handlerTimeout.toNanos());
        Called called = call(o.handler, item.event);
        long took = System.nanoTime() - begin;
        boolean abandoned = item.end();
        if (called.threw && abandoned) {
            spans.end(end, null);
            meter.abandoned();
            return; // no receipt, so its offset is not committed
        }
        spans.end(end, called.result);
        meter.handled(called.result, took);
        answer(item, called.result);
    }

    /** Writes the receipt: before the next event of the same order key starts, so it stands before that one's. */
    private void answer(Item item, Result result) {
        DueEvent e = item.event;
        byte[] value = Receipts.write(e, o.channel, result, Instant.now());
        state.answer(item, result);
        writer.write(e.key().getBytes(StandardCharsets.UTF_8), value,
                (partition, offset) -> state.acked(item, partition, offset));
    }

    /** Answers what finds no room. One answer may bring the next event of the same order key, so it is asked anew. */
    void answerOverflow() {
        for (var items = state.takeOverflow(); !items.isEmpty(); items = state.takeOverflow()) {
            for (Item item : items) {
                Result r = call(e -> o.perGroup.overflow().apply(e), item.event).result;
                meter.handled(r, 0);
                answer(item, r);
                state.finish(item);
            }
            wake();
        }
    }

    record Called(Result result, boolean threw) {}

    /** What a handler throws becomes a retry. */
    static Called call(Handler handler, DueEvent event) {
        try {
            Result r = handler.handle(event);
            return new Called(r == null ? Result.noResult() : r, false);
        } catch (Exception e) {
            return threw(event, event.cancelled() ? "timeout" : "error", e);
        } catch (Throwable e) { // an Error must not end the thread
            return threw(event, "panic", e);
        }
    }

    private static Called threw(DueEvent event, String code, Throwable e) {
        String text = text(e);
        try {
            LOG.warn("the handler threw; {} is retried", event.id(), e);
        } catch (Throwable unreadable) { // the logger asks for the message too
            LOG.warn("the handler threw; {} is retried: {}", event.id(), text);
        }
        return new Called(Result.retry().withCode(code).withDetail(text), true);
    }

    /** The message of an exception, else its class: getMessage may be a caller's own, and throw too. */
    static String text(Throwable e) {
        String message = null;
        try {
            message = e.getMessage();
        } catch (Throwable unreadable) { // as if it had none
        }
        return message == null || message.isEmpty() ? e.getClass().getSimpleName() : message;
    }
}
