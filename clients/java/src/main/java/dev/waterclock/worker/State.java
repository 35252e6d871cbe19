package dev.waterclock.worker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * What is in memory: partitions, their events, what is known of receipts. Its monitor guards all of it; nobody waits
 * for Kafka or a handler while he has it. Threads that wait on the monitor are handlers' and nobody else's.
 *
 * <p>An event goes this way: {@link #take} (polled), {@link #pick} (a handler begins), {@link #answer} (its receipt is
 * written), {@link #finish} (it has ended), {@link #acked} (the brokers have its receipt; perhaps before the end).
 */
final class State {
    private static final int MIN_RECORDS = 16; // the share of a partition is at least this
    private static final long HANGS_AFTER = TimeUnit.SECONDS.toNanos(1);

    private final WorkerBuilder o;
    private final String lane; // the topic of the high lane
    private final Meter meter;
    private final Queue queue;
    private final Memories memories;
    private final Map<String, Unacked> unacked = new HashMap<>(); // by id; the newest receipt of each
    private final Map<TopicPartition, Part> parts = new HashMap<>();
    private final BrokerClock clock = new BrokerClock(System.currentTimeMillis(), System::nanoTime);
    private final ConcurrentLinkedQueue<Acked> acked = new ConcurrentLinkedQueue<>(); // the producer needs no monitor
    private int running;
    private int pending;
    private boolean ending;
    private Uuid topicId = Uuid.ZERO_UUID; // of the receipts topic that the memories are of

    State(WorkerBuilder o, Meter meter) {
        this.o = o;
        lane = Worker.Names.of(o).lane();
        this.meter = meter;
        queue = new Queue(o.perGroup);
        memories = new Memories(o.memory, o.byKey);
    }

    // --- the way of an event ------------------------------------------------------------------

    /** Our clock, as take and endOfLog want it. */
    long now() {
        return clock.ours();
    }

    /** Takes in what was polled of one partition, when the clock was this. */
    synchronized void take(TopicPartition tp, Polled records, long polledMs) {
        Part part = parts.get(tp);
        if (part == null || part.gone) {
            return; // the worker ends
        }
        if (records.lastAppended != 0) {
            boolean above = part.asked != 0 && records.lastOffset >= part.end;
            clock.observe(records.lastAppended, polledMs, above ? part.asked : 0);
        }
        for (Polled.Record r : records.records) {
            Item item = new Item(part, r.offset(), r.size(), r.event());
            part.add(item);
            if (item.event == null) {
                part.finish(item);
            } else if (part.loaded) {
                queue.add(item);
            } else {
                part.held.add(item);
            }
        }
    }

    /** The next event to handle; null if none may start. One that has expired has its answer. */
    synchronized Item pick() {
        while (!ending && running < o.concurrency) {
            Item item = queue.take();
            if (item == null) {
                return null;
            }
            long now = clock.now();
            if (!skip(item, now)) {
                start(item);
                item.answer = expired(item.event, now) ? Result.suppress("expired") : null;
                return item;
            }
        }
        return null;
    }

    private void start(Item item) {
        running++;
        item.part.running.add(item);
        item.started = System.nanoTime();
    }

    private boolean skip(Item item, long now) {
        Unacked receipt = unacked.get(item.event.id());
        String waits = receipt == null ? null : Memory.check(receipt.answer, item.event);
        String reason = waits != null ? waits : skipReason(memories.of(item.event), item.event, now);
        if (reason == null) {
            return false;
        }
        meter.skipped(reason);
        queue.finish(item);
        if (waits != null) { // otherwise its offset could be committed without a receipt
            receipt.copies.add(item);
            item.part.pending++;
        } else {
            item.part.finish(item);
        }
        return true;
    }

    /** Why an event is neither handled nor answered at the brokers' time now; null if it is. */
    static String skipReason(Memory memory, DueEvent e, long now) {
        String reason = memory == null ? null : memory.check(e);
        if (reason != null) {
            return reason;
        }
        return e.receiptByMs != DueEvent.NONE && now > e.receiptByMs ? "receipt_by" : null;
    }

    static boolean expired(DueEvent e, long now) {
        return e.expiresMs != DueEvent.NONE && now > e.expiresMs;
    }

    /** What finds no room in its bulkhead, and is to be answered now. */
    synchronized List<Item> takeOverflow() {
        List<Item> live = new ArrayList<>();
        long now = clock.now();
        for (Item item : queue.takeOverflow()) {
            if (item.part.gone) {
                queue.finish(item);
            } else if (!skip(item, now)) {
                start(item);
                item.started = 0; // no handler runs
                live.add(item);
            }
        }
        return live;
    }

    /** The receipt of an event is about to be written. The brokers may have it before {@link #finish}. */
    synchronized void answer(Item item, Result answer) {
        item.unacked = new Unacked(item.event, answer.outcome());
        if (memories.of(item.event) != null) {
            unacked.put(item.event.id(), item.unacked);
        }
        pending++;
        item.part.pending++;
    }

    /** An event is done with, and the next one of its order key may start. Without an answer it is delivered again. */
    synchronized void finish(Item item) {
        running--;
        item.part.running.remove(item);
        queue.finish(item);
        takeAcked();
    }

    /** An event whose receipt the brokers have, and where they have it. */
    private record Acked(Item item, int partition, long offset) {}

    /** The brokers have the receipt of an event. Any thread may say so, and waits for nobody. */
    void acked(Item item, int partition, long offset) {
        acked.add(new Acked(item, partition, offset));
    }

    private void takeAcked() {
        for (Acked a = acked.poll(); a != null; a = acked.poll()) {
            Item item = a.item;
            pending--;
            memories.add(item.event, item.unacked.outcome, a.partition, a.offset);
            unacked.remove(item.event.id(), item.unacked);
            finishAnswered(item);
            item.unacked.copies.forEach(State::finishAnswered);
        }
    }

    private static void finishAnswered(Item item) {
        item.part.pending--;
        item.part.finish(item);
    }

    /** Whether an event waits that may start. Those of full groups may not. */
    synchronized boolean canStart() {
        return queue.canStart();
    }

    /** Few handlers are free: a batch that begins now would be small. */
    synchronized boolean crowded() {
        return o.concurrency - running < Math.max(o.concurrency / 4, 1);
    }

    /** Interrupts handlers that have had their time. */
    synchronized void interruptLate() {
        long now = System.nanoTime();
        parts.values().forEach(p -> p.running.forEach(item -> item.interruptIfLate(now)));
    }

    // --- partitions come and go -----------------------------------------------------------------

    /** New partitions. Their events are held until {@link #release}. */
    synchronized List<Part> assign(Collection<TopicPartition> assigned) {
        List<Part> added = new ArrayList<>();
        for (TopicPartition tp : assigned) {
            Part p = new Part(tp, tp.topic().equals(lane) ? Queue.HIGH : Queue.NORMAL);
            parts.put(tp, p);
            added.add(p);
        }
        return added;
    }

    synchronized List<Part> assigned() {
        return new ArrayList<>(parts.values());
    }

    /** Nothing of these starts any more. */
    synchronized List<Part> close(Collection<TopicPartition> which) {
        List<Part> found = new ArrayList<>();
        for (TopicPartition tp : which) {
            Part p = parts.get(tp);
            if (p != null) {
                p.gone = true;
                found.add(p);
            }
        }
        queue.purge();
        return found;
    }

    /** Nothing starts any more. */
    synchronized List<Part> end() {
        ending = true;
        List<Part> all = close(List.copyOf(parts.keySet()));
        notifyAll();
        return all;
    }

    synchronized boolean ending() {
        return ending;
    }

    synchronized void abandon(List<Part> which) {
        which.forEach(p -> p.running.forEach(Item::abandon));
    }

    /** Drops partitions, and the memory of those of which no lane is left. */
    synchronized void forget(List<Part> which) {
        which.forEach(p -> parts.remove(p.tp, p));
        Set<Integer> used = new HashSet<>();
        parts.keySet().forEach(tp -> used.add(tp.partition()));
        memories.keep(used);
    }

    synchronized boolean idle(List<Part> which) {
        takeAcked();
        return which.stream().allMatch(p -> p.running.isEmpty() && p.pending == 0);
    }

    synchronized int running() {
        return running;
    }

    synchronized int pending() {
        takeAcked();
        return pending;
    }

    /** Waits, without the monitor, until something is so. False if it was not in time. */
    static boolean await(BooleanSupplier done, Duration within) {
        long end = System.nanoTime() + within.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() - end >= 0) {
                return false;
            }
            sleep(5);
        }
        return true;
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    // --- the memory -----------------------------------------------------------------------------

    synchronized Map<Integer, Long> beginMemories(Set<Integer> due, int receiptPartitions) {
        return memories.begin(due, receiptPartitions);
    }

    synchronized void learn(int partition, Receipts.Seen seen, long offset) {
        memories.learn(partition, seen, offset);
    }

    synchronized void renew(int partition) {
        memories.renew(partition);
    }

    /**
     * The receipts topic has this id. If it was made anew, its offsets begin at 0 again, so those that are known would
     * seem to be newer: they are forgotten. Returns the partitions whose memory is to be read again.
     */
    synchronized List<Part> receiptsTopic(Uuid id) {
        boolean anew = !topicId.equals(Uuid.ZERO_UUID) && !id.equals(Uuid.ZERO_UUID) && !topicId.equals(id);
        topicId = id;
        if (!anew) {
            return List.of();
        }
        memories.renew();
        return assigned();
    }

    synchronized void readUpTo(Map<Integer, Long> ends) {
        memories.readUpTo(ends);
    }

    /** The memory of these is read: their events go. */
    synchronized void release(List<Part> which) {
        for (Part p : which) {
            p.loaded = true;
            if (!p.gone) {
                p.held.forEach(queue::add);
            }
            p.held = new ArrayList<>();
        }
    }

    /** An end of a log, which was asked for at this time of ours. */
    synchronized void endOfLog(TopicPartition tp, long end, long askedMs) {
        Part p = parts.get(tp);
        if (p != null) {
            p.end = end;
            p.asked = askedMs;
        }
    }

    // --- back-pressure and commits ----------------------------------------------------------------

    /** Partitions to pause because they are full, and to resume because they have room. */
    record Flow(List<TopicPartition> full, List<TopicPartition> free) {}

    synchronized Flow flow() {
        takeAcked();
        Flow flow = new Flow(new ArrayList<>(), new ArrayList<>());
        int n = Math.max(parts.size(), 1);
        int records = Math.max(o.bufferRecords / n, MIN_RECORDS);
        long bytes = Math.max(o.bufferBytes / n, WorkerBuilder.MIN_BYTES);
        for (Part p : parts.values()) {
            if (!p.paused && (p.records >= records || p.bytes >= bytes)) {
                p.paused = true;
                flow.full.add(p.tp);
            } else if (p.paused && p.records <= records / 2 && p.bytes <= bytes / 2) {
                p.paused = false;
                flow.free.add(p.tp);
            }
        }
        return flow;
    }

    synchronized boolean anyPaused() {
        return parts.values().stream().anyMatch(p -> p.paused);
    }

    /** Makes room in paused partitions where a handler hangs and others of its key wait. */
    synchronized void shed() {
        if (o.perGroup != null && o.perGroup.overflow() != null) {
            long before = System.nanoTime() - HANGS_AFTER;
            parts.values().stream().filter(p -> p.paused).forEach(p -> queue.shed(p, before));
        }
    }

    /** Not of partitions that are not ours any more: that could undo the new owner's commit. */
    synchronized Map<TopicPartition, OffsetAndMetadata> toCommit(Collection<Part> which) {
        takeAcked();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Part p : which) {
            if (p.next > p.committed && parts.get(p.tp) == p) {
                offsets.put(p.tp, new OffsetAndMetadata(p.next));
            }
        }
        return offsets;
    }

    synchronized void committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
        offsets.forEach((tp, at) -> {
            Part p = parts.get(tp);
            if (p != null) {
                p.committed = Math.max(p.committed, at.offset());
            }
        });
    }

    // --- numbers ------------------------------------------------------------------------------------

    synchronized Metrics.Load load() {
        takeAcked();
        int buffered = 0;
        long bytes = 0;
        int paused = 0;
        int held = 0;
        for (Part p : parts.values()) {
            buffered += p.records;
            bytes += p.bytes;
            paused += p.paused ? 1 : 0;
            held += p.loaded ? 0 : 1;
        }
        return new Metrics.Load(running, queue.size(), buffered, bytes, pending, parts.size(), paused, held,
                Duration.ofMillis(clock.ahead()));
    }
}
