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
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is read beside the due events, on a thread of its own: the memory of new partitions, for as long as it takes;
 * whether the high lane is there; the ends of the logs, for the clock.
 */
final class MemoryLoad implements Runnable, Loader.Sink {
    private static final long ASK_EVERY = TimeUnit.SECONDS.toNanos(15);
    private static final long LANE_EVERY = TimeUnit.SECONDS.toNanos(2); // a new lane is found within 5 s
    private static final int WAIT_MS = 500;
    private static final int ASK_WITHIN_MS = 2000;
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

    /** Reads receipts: see {@link Loader#read}. */
    interface Source {
        Map<Integer, Long> read(Map<Integer, Long> from, int limit, Loader.Sink sink, BooleanSupplier stopped);
    }

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
                        checkReceipts(admin, mine);
                    }
                    if (!mine.isEmpty()) {
                        List<Part> left = load(loader::read, receiptPartitions(admin), mine);
                        mine.retainAll(left);
                    }
                    if (!mine.isEmpty()) {
                        throw new LeaderNotAvailableException("partitions of " + names.receipts() + " have no leader");
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

    /**
     * What comes behind the ends of the logs was appended after now. The clock alone needs them, so nothing waits for
     * those that nobody tells.
     */
    void askEnds(Admin admin) throws InterruptedException {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        state.assigned().forEach(p -> latest.put(p.tp, OffsetSpec.latest()));
        if (latest.isEmpty()) {
            return;
        }
        long now = state.now();
        ListOffsetsResult ends = admin.listOffsets(latest, new ListOffsetsOptions().timeoutMs(ASK_WITHIN_MS));
        for (TopicPartition tp : latest.keySet()) {
            try {
                state.endOfLog(tp, ends.partitionResult(tp).get().offset(), now);
            } catch (ExecutionException e) {
                LOG.debug("the end of {} is unknown: {}", tp, e.toString());
            }
        }
    }

    /** Adds the partitions whose memory is to be read again, because the receipts topic was made anew. */
    void checkReceipts(Admin admin, List<Part> mine) throws InterruptedException {
        if (o.memory <= 0) {
            return;
        }
        try {
            DescribeTopicsOptions within = new DescribeTopicsOptions().timeoutMs(ASK_WITHIN_MS);
            Uuid id = admin.describeTopics(List.of(names.receipts()), within).allTopicNames().get()
                    .get(names.receipts()).topicId();
            List<Part> again = state.receiptsTopic(id);
            if (!again.isEmpty()) {
                LOG.warn("{} was made anew; reading it again", names.receipts());
                again.removeAll(mine);
                mine.addAll(again);
            }
        } catch (ExecutionException e) { // it is not there, or the brokers are not: what reads it says so
            LOG.debug("the id of {} is unknown: {}", names.receipts(), e.toString());
        }
    }

    private List<TopicPartitionInfo> receiptPartitions(Admin admin) throws InterruptedException, ExecutionException {
        if (o.memory <= 0) {
            return List.of();
        }
        return admin.describeTopics(List.of(names.receipts())).allTopicNames().get().get(names.receipts()).partitions();
    }

    /** Lets the events of partitions go whose receipts can be read; returns the others. */
    List<Part> load(Source receipts, List<TopicPartitionInfo> topic, List<Part> mine) {
        List<Part> left = new ArrayList<>();
        if (o.memory > 0) {
            Set<Integer> due = new HashSet<>();
            mine.forEach(p -> due.add(p.tp.partition()));
            if (!o.byKey && due.stream().anyMatch(num -> num >= topic.size())) {
                throw new IllegalStateException(names.receipts() + " has " + topic.size()
                        + " partitions and the due topic has more: if the channel has partitioning: by_key, set byKey");
            }
            Map<Integer, Long> from = state.beginMemories(o.byKey ? Set.of() : due, topic.size());
            boolean all = true;
            for (TopicPartitionInfo p : topic) {
                if (p.leader() == null || p.leader().isEmpty()) {
                    all &= from.remove(p.partition()) == null;
                }
            }
            state.readUpTo(receipts.read(from, o.memory, this, state::ending));
            // With byKey, the receipts of a partition's events are on all partitions.
            boolean every = all;
            left.addAll(mine.stream().filter(p -> o.byKey ? !every : !from.containsKey(p.tp.partition())).toList());
        }
        List<Part> ready = new ArrayList<>(mine);
        ready.removeAll(left);
        state.release(ready);
        released.run();
        return left;
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
