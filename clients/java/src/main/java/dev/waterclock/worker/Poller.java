package dev.waterclock.worker;

import dev.waterclock.UnfinishedException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The consumer of due events: one thread polls, pauses what is full, commits, hears of rebalances, and drains. */
final class Poller implements ConsumerRebalanceListener {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);
    private static final int MAX_POLL = 1000;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration POLL_PAUSED = Duration.ofMillis(5); // room comes soon
    private static final Duration COMMIT = Duration.ofSeconds(10);
    private static final Duration POLL_INTERVAL = Duration.ofMinutes(5); // Kafka's default
    private static final Duration POLL_MARGIN = Duration.ofSeconds(25); // for the commit and the next join

    private final WorkerBuilder o;
    private final Worker.Names names;
    private final State state;
    private final Handlers handlers;
    private final MemoryLoad load;
    private final Meter meter;
    private final Throttle failing;
    private final Throttle garbled = new Throttle(LOG);
    private final KafkaConsumer<byte[], byte[]> consumer;
    private boolean laneRead;
    private long committed = System.nanoTime();

    Poller(WorkerBuilder o, Worker.Names names, Map<String, Object> kafka, State state, Handlers handlers,
            MemoryLoad load, Meter meter, Throttle failing) {
        this.o = o;
        this.names = names;
        this.state = state;
        this.handlers = handlers;
        this.load = load;
        this.meter = meter;
        this.failing = failing;
        consumer = new KafkaConsumer<>(config(o, kafka), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(names.due()), this);
    }

    static Map<String, Object> config(WorkerBuilder o, Map<String, Object> kafka) {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 1000); // how soon one hears of a rebalance
        config.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, 4000);
        config.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 200);
        config.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, o.fetchBytes);
        config.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, pollInterval(o));
        config.putAll(kafka);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, o.group + "." + o.channel);
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, MAX_POLL);
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed"); // or aborted due events are seen
        config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, CooperativeStickyAssignor.class.getName());
        return config;
    }

    /** Nobody polls while the worker drains or a partition moves; past this interval others get the partitions. */
    private static int pollInterval(WorkerBuilder o) {
        long longest = Math.max(o.drainTimeout.toMillis(), o.revokeTimeout.toMillis()) + POLL_MARGIN.toMillis();
        return (int) Math.min(Math.max(longest, POLL_INTERVAL.toMillis()), Integer.MAX_VALUE);
    }

    /** One turn of the loop. False if the thread was interrupted: the worker ends. */
    boolean turn() {
        if (load.laneFound() && !laneRead) {
            laneRead = true;
            consumer.subscribe(List.of(names.due(), names.lane()), this);
        }
        if (!poll()) {
            return false;
        }
        flow();
        state.interruptLate();
        state.shed();
        handlers.answerOverflow();
        if (System.nanoTime() - committed >= o.commitInterval.toNanos()) {
            committed = System.nanoTime();
            commitSoon();
            meter.load(state.load());
        }
        return true;
    }

    private boolean poll() {
        ConsumerRecords<byte[], byte[]> records;
        try {
            records = consumer.poll(state.anyPaused() ? POLL_PAUSED : POLL);
        } catch (InterruptException e) {
            Thread.interrupted(); // it would end the drain
            return false;
        } catch (KafkaException e) {
            failing.warn("cannot read due events of " + names.due() + "; retrying: " + e);
            State.sleep(500);
            return true;
        }
        long polled = state.now();
        for (TopicPartition tp : records.partitions()) {
            state.take(tp, new Polled(records.records(tp), tp.topic().equals(names.lane()), meter, garbled),
                    polled);
            handlers.wake();
        }
        return true;
    }

    private void flow() {
        State.Flow flow = state.flow();
        Set<TopicPartition> ours = consumer.assignment();
        flow.full().retainAll(ours);
        flow.free().retainAll(ours);
        consumer.pause(flow.full());
        consumer.resume(flow.free());
    }

    // --- commits --------------------------------------------------------------------------------

    private void commitSoon() {
        Map<TopicPartition, OffsetAndMetadata> offsets = state.toCommit(state.assigned());
        if (!offsets.isEmpty()) {
            consumer.commitAsync(offsets, this::committed);
        }
    }

    private void commitWithin(List<Part> parts, Duration within) {
        Map<TopicPartition, OffsetAndMetadata> offsets = state.toCommit(parts);
        if (offsets.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(offsets, within);
            committed(offsets, null);
        } catch (KafkaException e) {
            committed(offsets, e);
        }
    }

    /** The next commit has all that a failed one had. */
    private void committed(Map<TopicPartition, OffsetAndMetadata> offsets, Exception e) {
        if (e == null) {
            state.committed(offsets);
        } else {
            meter.commitFailed();
            failing.warn("cannot commit offsets of group " + o.group + "." + o.channel + "; retrying: " + e);
        }
    }

    // --- rebalances -----------------------------------------------------------------------------

    /** New partitions. Their events are held until the end of the receipts topic is read. */
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        if (!assigned.isEmpty()) {
            LOG.info("partitions assigned: {}", assigned);
            load.want(state.assign(assigned));
        }
    }

    /** What runs may finish within revokeTimeout; what is done is committed. */
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        if (state.ending()) {
            return; // the drain has waited already
        }
        List<Part> moved = state.close(revoked);
        if (moved.isEmpty()) {
            return;
        }
        if (!State.await(() -> state.idle(moved), o.revokeTimeout)) {
            state.abandon(moved);
            LOG.warn("partitions moved before their handlers had finished; their events go to another worker: {}",
                    revoked);
        }
        commitWithin(moved, COMMIT);
        state.forget(moved);
    }

    /** The group has given our partitions to others: nothing may be committed. */
    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        List<Part> moved = state.close(lost);
        if (!moved.isEmpty()) {
            LOG.warn("the group has revoked partitions; their events go to another worker: {}", lost);
            state.abandon(moved);
            state.forget(moved);
        }
    }

    // --- the end --------------------------------------------------------------------------------

    /** Handlers have three quarters of drainTimeout, receipts an eighth more, the last commit and goodbye the rest. */
    void drain() {
        long begin = System.nanoTime();
        List<Part> mine = state.end();
        handlers.drop();
        if (!State.await(() -> state.running() == 0, left(begin, 6))) {
            state.abandon(mine);
        }
        State.await(() -> state.running() == 0 && state.pending() == 0, left(begin, 7));
        int ran = state.running();
        int open = state.pending();
        try {
            commitWithin(mine, left(begin, 7).plus(o.drainTimeout.dividedBy(16)));
            consumer.close(CloseOptions.timeout(left(begin, 8)));
        } catch (KafkaException e) {
            LOG.warn("cannot leave the group; others get the partitions when the session has timed out: {}",
                    e.toString());
        }
        if (ran + open > 0) {
            throw new UnfinishedException("after " + o.drainTimeout + ", " + ran + " handlers ran and " + open
                    + " receipts were not written; these due events are delivered again");
        }
    }

    /** What is left of so many eighths of drainTimeout. */
    private Duration left(long begin, int eighths) {
        long nanos = begin + o.drainTimeout.toNanos() / 8 * eighths - System.nanoTime();
        return Duration.ofNanos(Math.max(nanos, 0));
    }
}
