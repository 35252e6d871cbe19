package dev.waterclock.worker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;

/**
 * What is read beside the due events, on a thread of its own: the memory of new partitions, for as long as it takes;
 * whether the high lane is there; the ends of the logs, for the clock.
 */
final class MemoryLoad implements Runnable, Loader.Sink {
    private static final long ASK_EVERY = TimeUnit.SECONDS.toNanos(15);
    private static final long LANE_EVERY = TimeUnit.SECONDS.toNanos(2); // a new lane is found within 5 s
    private static final int WAIT_MS = 500;

    private final Worker.Names names;
    private final Map<String, Object> kafka;
    private final WorkerBuilder o;
    private final State state;
    private final Runnable released;
    private final Throttle failing;
    private final LinkedBlockingQueue<List<Part>> wanted = new LinkedBlockingQueue<>();
    private volatile boolean laneFound;
    private volatile Throwable died;

    MemoryLoad(WorkerBuilder o, Worker.Names names, Map<String, Object> kafka, State state, Runnable released,
            Throttle failing) {
        this.o = o;
        this.names = names;
        this.kafka = kafka;
        this.state = state;
        this.released = released;
        this.failing = failing;
    }

    /** Reads the memory of partitions, and then lets their events go. */
    void want(List<Part> parts) {
        wanted.add(parts);
    }

    /** Whether the high lane is there. */
    boolean laneFound() {
        return laneFound;
    }

    /** What ended this thread, if it was not the worker: a class that is missing, a setting that is wrong. */
    Throwable died() {
        return died;
    }

    /** Without this thread no due event is let go, so what ends it has to end the worker. */
    @Override
    public void run() {
        try {
            read();
        } catch (RuntimeException | Error e) {
            died = e;
        }
    }

    private void read() {
        long asked = System.nanoTime() - ASK_EVERY;
        long lane = asked;
        int failures = 0;
        List<Part> mine = new ArrayList<>();
        try (Admin admin = Admin.create(kafka); Loader loader = new Loader(names.receipts(), kafka)) {
            while (!state.ending()) {
                await(mine, failures);
                try {
                    long now = System.nanoTime();
                    if (!laneFound && now - lane >= LANE_EVERY) {
                        lane = now;
                        laneFound = loader.exists(names.lane());
                    }
                    if (!mine.isEmpty() || now - asked >= ASK_EVERY) {
                        asked = now;
                        askEnds(admin);
                    }
                    if (!mine.isEmpty()) {
                        load(loader, mine);
                        mine.clear();
                    }
                    failures = 0;
                } catch (RuntimeException | ExecutionException e) { // whatever it is: it is tried again
                    if (e instanceof InterruptException) {
                        return;
                    }
                    failures++;
                    if (!mine.isEmpty()) {
                        failing.warn("cannot read " + names.receipts()
                                + "; its due events are held until it can be read: " + e);
                    }
                }
            }
        } catch (InterruptedException | InterruptException e) {
            return; // the worker ends
        }
    }

    /** Waits for new partitions, or for the next question. */
    private void await(List<Part> mine, int failures) throws InterruptedException {
        long ms = failures > 0 ? Math.min(50L << Math.min(failures, 7), 5000) : mine.isEmpty() ? WAIT_MS : 0;
        for (List<Part> more = wanted.poll(ms, TimeUnit.MILLISECONDS); more != null; more = wanted.poll()) {
            mine.addAll(more);
        }
        mine.removeIf(p -> p.gone);
    }

    /** What comes behind the ends of the logs was appended after now. */
    private void askEnds(Admin admin) throws InterruptedException, ExecutionException {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        state.assigned().forEach(p -> latest.put(p.tp, OffsetSpec.latest()));
        if (latest.isEmpty()) {
            return;
        }
        long now = System.currentTimeMillis();
        Map<TopicPartition, ListOffsetsResultInfo> ends = admin.listOffsets(latest).all().get();
        ends.forEach((tp, end) -> state.endOfLog(tp, end.offset(), now));
    }

    private void load(Loader loader, List<Part> mine) {
        if (o.memory > 0) {
            Set<Integer> all = loader.partitions();
            Set<Integer> due = new HashSet<>();
            mine.forEach(p -> due.add(p.tp.partition()));
            if (!o.byKey && !all.containsAll(due)) {
                throw new IllegalStateException(names.receipts() + " has " + all.size()
                        + " partitions and the due topic has more: if the channel has partitioning: by_key, set byKey");
            }
            Map<Integer, Long> from = state.beginMemories(o.byKey ? Set.of() : due, all.size());
            state.readUpTo(loader.read(from, o.memory, this, state::ending));
        }
        state.release(mine);
        released.run();
    }

    @Override
    public void take(int partition, byte[] key, byte[] value, long offset) {
        Receipts.Seen seen = Receipts.read(o.channel, key, value);
        if (seen != null) {
            state.learn(partition, seen, offset);
        }
    }

    @Override
    public void renew(int partition) {
        state.renew(partition);
    }
}
