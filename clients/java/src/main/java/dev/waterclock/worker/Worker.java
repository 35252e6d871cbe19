package dev.waterclock.worker;

import dev.waterclock.UnfinishedException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Handles the due events of a channel: {@link #run} does until {@link #close}, or SIGTERM. One thread polls, commits
 * and hears of rebalances; handlers run on threads of their own.
 */
public final class Worker implements AutoCloseable {
    static final String HIGH = ".high";
    private static final int MAX_POLL = 1000;
    private static final int MIN_RECORDS = 16; // the share of a partition is at least this
    static final long MIN_BYTES = 64 << 10;
    private static final long ASK_EVERY = TimeUnit.SECONDS.toNanos(15); // for the ends of the logs
    private static final long LANE_EVERY = TimeUnit.SECONDS.toNanos(2); // a new lane is found within 5 s
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration POLL_PAUSED = Duration.ofMillis(5); // room comes soon
    private static final Duration COMMIT = Duration.ofSeconds(10);
    private static final int BATCH_LINGER_MS = 5;
    private static final int HEADERS = 512; // bytes in memory for the headers and objects of an event, about
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

    private final WorkerBuilder o;
    private final String topic;
    private final String receiptsTopic;
    private final Map<String, Object> kafka = new HashMap<>();
    private final Throttle garbled = new Throttle(LOG);
    private final Throttle failing = new Throttle(LOG);
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean stopping;
    private volatile boolean started;
    private volatile boolean laneFound;

    // The rest is guarded by the lock; nobody waits for Kafka or a handler with it held.
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition ready = lock.newCondition();
    private final Condition loads = lock.newCondition();
    private final Part.Queue queue = new Part.Queue();
    private final ArrayDeque<Part.Item> batched = new ArrayDeque<>(); // the hook has run, the handlers have not
    private final Map<TopicPartition, Part> parts = new HashMap<>();
    private final Map<Integer, Memory> memories = new HashMap<>();
    private final List<Part> toLoad = new ArrayList<>();
    private final BrokerClock clock = new BrokerClock();
    private final Map<String, Long> counts = new TreeMap<>();
    private int receiptPartitions; // once known
    private int running;
    private int pending;
    private int threads;
    private int idle;
    private boolean hooking;
    private boolean ending;

    private KafkaConsumer<byte[], byte[]> consumer;
    private volatile ReceiptWriter writer;

    Worker(WorkerBuilder b) {
        o = b;
        topic = b.topic.isEmpty() ? b.prefix + "due." + b.channel : b.topic;
        receiptsTopic = b.prefix + "receipts";
        kafka.put("client.id", "waterclock-worker-" + b.channel);
        kafka.put("enable.metrics.push", false);
        kafka.putAll(b.kafka);
        kafka.put("bootstrap.servers", b.brokers);
    }

    /** A worker of a channel. */
    public static WorkerBuilder builder(String channel, Handler handler) {
        return new WorkerBuilder(channel, handler);
    }

    // --- for callers ------------------------------------------------------------------------

    /**
     * Handles events until {@link #close} or {@link #stop}, or until the JVM ends: after SIGTERM or SIGINT it drains.
     * Brokers that are away are waited for.
     *
     * @throws UnfinishedException if drainTimeout was too short
     */
    public void run() {
        lock.lock();
        try {
            if (started) {
                throw new IllegalStateException("a worker runs once: make another one");
            }
            started = true;
        } finally {
            lock.unlock();
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
        if (started) {
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
        lock.lock();
        try {
            Map<String, Long> m = new TreeMap<>(counts);
            m.put("assigned", (long) parts.size());
            m.put("running", (long) running);
            m.put("ready", (long) queue.size());
            m.put("pending", (long) pending);
            m.put("buffered", parts.values().stream().mapToLong(p -> p.records).sum());
            m.put("paused", parts.values().stream().filter(p -> p.paused).count());
            m.put("held", parts.values().stream().filter(p -> !p.loaded).count());
            m.put("receipt_failures", writer == null ? 0L : writer.failures.get());
            return m;
        } finally {
            lock.unlock();
        }
    }

    /** Calls a handler as the worker does: what it throws becomes a retry. For tests of handlers. */
    public static Result call(Handler handler, DueEvent event) {
        return called(handler, event, false).result;
    }

    private record Called(Result result, boolean threw) {}

    private static Called called(Handler handler, DueEvent event, boolean timedOut) {
        try {
            Result r = handler.handle(event);
            return new Called(r == null ? Result.noResult() : r, false);
        } catch (InterruptedException e) {
            return threw(event, event.cancelled() || timedOut ? "timeout" : "error", e);
        } catch (Exception e) {
            return threw(event, event.cancelled() ? "timeout" : "error", e);
        } catch (Throwable e) { // an Error must not end the thread
            return threw(event, "panic", e);
        }
    }

    private static Called threw(DueEvent event, String code, Throwable e) {
        LOG.warn("the handler threw; {} is retried", event.id(), e);
        String message = e.getMessage();
        String text = message == null || message.isEmpty() ? e.getClass().getSimpleName() : message;
        return new Called(Result.retry().withCode(code).withDetail(text), true);
    }

    // --- the loop ---------------------------------------------------------------------------

    private void loop() {
        writer = new ReceiptWriter(receiptsTopic, kafka, failing);
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 1000); // how soon one hears of a rebalance
        config.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, 4000);
        config.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 200);
        config.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, o.fetchBytes);
        config.putAll(kafka);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, o.group + "." + o.channel);
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, MAX_POLL);
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed"); // or aborted due events are seen
        config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, CooperativeStickyAssignor.class.getName());
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread loader = daemon(this::loadLoop, "waterclock-load");
        try {
            boolean lane = false;
            consumer.subscribe(List.of(topic), new Rebalances());
            long committed = System.nanoTime();
            while (!stopping) {
                if (laneFound && !lane) {
                    lane = true;
                    consumer.subscribe(List.of(topic, topic + HIGH), new Rebalances());
                }
                poll();
                flow();
                interruptLate();
                if (System.nanoTime() - committed >= o.commitInterval.toNanos()) {
                    commitSoon();
                    committed = System.nanoTime();
                }
            }
        } finally {
            drain(loader);
        }
    }

    private static Thread daemon(Runnable body, String name) {
        Thread t = new Thread(body, name);
        t.setDaemon(true);
        t.start();
        return t;
    }

    private void poll() {
        ConsumerRecords<byte[], byte[]> records;
        try {
            records = consumer.poll(anyPaused() ? POLL_PAUSED : POLL);
        } catch (InterruptException e) {
            stopping = true;
            Thread.interrupted(); // it would end the drain
            return;
        } catch (KafkaException e) {
            failing.warn("cannot read due events of " + topic + "; trying on: " + e);
            sleep(500);
            return;
        }
        long polled = System.currentTimeMillis();
        for (TopicPartition tp : records.partitions()) {
            take(tp, records.records(tp), polled);
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean anyPaused() {
        lock.lock();
        try {
            return parts.values().stream().anyMatch(p -> p.paused);
        } finally {
            lock.unlock();
        }
    }

    private void take(TopicPartition tp, List<ConsumerRecord<byte[], byte[]>> records, long polled) {
        boolean high = tp.topic().equals(topic + HIGH);
        List<DueEvent> events = new ArrayList<>(records.size());
        for (ConsumerRecord<byte[], byte[]> r : records) {
            events.add(decode(r, high));
        }
        lock.lock();
        try {
            Part part = parts.get(tp);
            if (part == null || part.gone) {
                return; // the worker ends
            }
            ConsumerRecord<byte[], byte[]> last = records.get(records.size() - 1);
            if (last.timestampType() == TimestampType.LOG_APPEND_TIME) {
                boolean above = part.asked != 0 && last.offset() >= part.end;
                clock.observe(last.timestamp(), polled, above ? part.asked : 0);
            }
            for (int i = 0; i < records.size(); i++) {
                add(part, records.get(i), events.get(i));
            }
            wake();
        } finally {
            lock.unlock();
        }
    }

    private DueEvent decode(ConsumerRecord<byte[], byte[]> r, boolean high) {
        try {
            return Decoder.decode(r, high);
        } catch (Decoder.Garbled e) {
            garbled.warn("stepped over a record that is no due event: " + r.topic() + "/" + r.partition() + "/"
                    + r.offset() + ": " + e.getMessage());
            return null;
        }
    }

    private void add(Part part, ConsumerRecord<byte[], byte[]> r, DueEvent event) {
        int size = HEADERS + Math.max(r.serializedKeySize(), 0) + Math.max(r.serializedValueSize(), 0);
        Part.Item item = new Part.Item(part, r.offset(), size, event);
        part.add(item);
        if (event == null) {
            count("garbled");
            part.finish(item);
        } else if (part.loaded) {
            queue.add(item);
        } else {
            part.held.add(item);
        }
    }

    private void count(String name) {
        counts.merge(name, 1L, Long::sum);
    }

    // --- handlers ---------------------------------------------------------------------------

    /** Something is ready. The lock is held. Threads are made as they are needed, and stay. */
    private void wake() {
        int work = queue.size();
        for (int i = 0; i < Math.min(work, idle); i++) {
            ready.signal();
        }
        for (int more = Math.min(work - idle, o.concurrency - threads); more > 0; more--) {
            threads++;
            daemon(this::serve, "waterclock-handler-" + threads);
        }
    }

    private void serve() {
        Part.Item before = null;
        while (true) {
            Part.Item item = next(before);
            if (item == null) {
                return;
            }
            before = item;
            handle(item);
        }
    }

    /** Gives back the event before, and waits for the next one; null at the end. */
    private Part.Item next(Part.Item before) {
        lock.lock();
        try {
            if (before != null) {
                finish(before);
            }
            while (!ending) {
                Part.Item item = o.onBatch == null ? pick() : fromBatch();
                if (item != null) {
                    item.thread = Thread.currentThread();
                    item.deadline = System.nanoTime() + o.handlerTimeout.toNanos();
                    return item;
                }
                idle++;
                ready.awaitUninterruptibly();
                idle--;
            }
            return null;
        } finally {
            lock.unlock();
        }
    }

    private void finish(Part.Item item) {
        running--;
        item.part.running.remove(item);
        if (!item.part.gone) {
            queue.finish(item);
        }
    }

    /** The next event to handle. */
    private Part.Item pick() {
        while (!ending) {
            Part.Item item = queue.take();
            if (item == null) {
                return null;
            }
            String reason = skip(memoryOf(item.event), item.event, clock.now(System.currentTimeMillis()));
            if (reason != null) {
                count("skipped_" + reason);
                queue.finish(item);
                item.part.finish(item);
                continue;
            }
            running++;
            item.part.running.add(item);
            return item;
        }
        return null;
    }

    /** Why an event is neither handled nor answered at the brokers' time now; null if it is. */
    static String skip(Memory memory, DueEvent e, long now) {
        String reason = memory == null ? null : memory.check(e);
        if (reason != null) {
            return reason;
        }
        return e.receiptByMs != DueEvent.NONE && now > e.receiptByMs ? "receipt_by" : null;
    }

    static boolean expired(DueEvent e, long now) {
        return e.expiresMs != DueEvent.NONE && now > e.expiresMs;
    }

    private Memory memoryOf(DueEvent e) {
        if (!o.byKey) {
            return memories.get(e.partition());
        }
        if (receiptPartitions == 0) {
            return null;
        }
        int hash = Utils.murmur2(e.key().getBytes(StandardCharsets.UTF_8));
        return memories.get(Utils.toPositive(hash) % receiptPartitions);
    }

    /** The next event of a batch; without one, the hook is called with a new one. The hook runs without the lock. */
    private Part.Item fromBatch() {
        while (!ending) {
            Part.Item item = batched.poll();
            if (item != null) {
                return item;
            }
            if (hooking || queue.size() == 0) {
                return null;
            }
            hooking = true;
            try {
                if (o.concurrency - running < Math.max(o.concurrency / 4, 1)) {
                    lingerForRoom();
                }
                callHook(pickBatch());
            } finally {
                hooking = false;
            }
            for (int i = 0; i < Math.min(batched.size() - 1, idle); i++) {
                ready.signal();
            }
        }
        return null;
    }

    /** While nearly all handlers are busy, each that ends would start a batch of one. */
    private void lingerForRoom() {
        lock.unlock();
        try {
            sleep(BATCH_LINGER_MS);
        } finally {
            lock.lock();
        }
    }

    private List<Part.Item> pickBatch() {
        List<Part.Item> batch = new ArrayList<>();
        while (batch.size() < o.batchMax && running < o.concurrency) {
            Part.Item item = pick();
            if (item == null) {
                break;
            }
            batch.add(item);
        }
        return batch;
    }

    private void callHook(List<Part.Item> batch) {
        if (batch.isEmpty()) {
            return;
        }
        long now = clock.now(System.currentTimeMillis());
        List<DueEvent> events = batch.stream().map(i -> i.event).filter(e -> !expired(e, now)).toList();
        Object value = null;
        RuntimeException failed = null;
        lock.unlock();
        try {
            value = events.isEmpty() ? null : o.onBatch.apply(events);
        } catch (RuntimeException | Error e) {
            LOG.error("onBatch threw; the events of the batch are retried", e);
            failed = new IllegalStateException("onBatch threw: " + e, e);
        } finally {
            lock.lock();
        }
        for (Part.Item item : batch) {
            item.event.batch = value;
            item.hookFailed = failed;
        }
        batched.addAll(batch);
    }

    private void handle(Part.Item item) {
        DueEvent event = item.event;
        long now;
        lock.lock();
        try {
            now = clock.now(System.currentTimeMillis());
        } finally {
            lock.unlock();
        }
        if (expired(event, now)) {
            answer(item, Result.suppress("expired"), false);
            return;
        }
        Handler handler = o.handler;
        if (item.hookFailed != null) {
            handler = e -> {
                throw item.hookFailed;
            };
        }
        Called called = called(handler, event, item.timedOut);
        answer(item, called.result, called.threw);
    }

    /** Writes the receipt. Before the next event of the same key starts, the memory has it. */
    private void answer(Part.Item item, Result result, boolean threw) {
        DueEvent event = item.event;
        byte[] value = Receipts.write(event, o.channel, result, Instant.now());
        lock.lock();
        try {
            item.thread = null;
            if (threw && item.part.gone && event.cancelled() && !item.timedOut) {
                count("abandoned"); // no receipt, so its offset is not committed
                return;
            }
            Memory memory = memoryOf(event);
            if (memory != null) {
                memory.add(event.id(), result.outcome(), event.attempt(), event.postponed());
            }
            count(result.outcome().text);
            pending++;
            item.part.pending++;
        } finally {
            lock.unlock();
            Thread.interrupted(); // it was meant for the handler
        }
        writer.write(event.key().getBytes(StandardCharsets.UTF_8), value, () -> acked(item));
    }

    private void acked(Part.Item item) {
        lock.lock();
        try {
            pending--;
            item.part.pending--;
            item.part.finish(item);
        } finally {
            lock.unlock();
        }
    }

    /** Interrupts handlers that have had their time. */
    private void interruptLate() {
        long now = System.nanoTime();
        lock.lock();
        try {
            for (Part p : parts.values()) {
                for (Part.Item item : p.running) {
                    if (item.thread != null && !item.timedOut && now - item.deadline > 0) {
                        item.timedOut = true;
                        item.event.cancelled = true;
                        item.thread.interrupt();
                    }
                }
            }
        } finally {
            lock.unlock();
        }
    }

    // --- back-pressure and commits ----------------------------------------------------------

    /** Pauses partitions that are full, and resumes those with room. */
    private void flow() {
        List<TopicPartition> full = new ArrayList<>();
        List<TopicPartition> free = new ArrayList<>();
        lock.lock();
        try {
            int n = Math.max(parts.size(), 1);
            int records = Math.max(o.bufferRecords / n, MIN_RECORDS);
            long bytes = Math.max(o.bufferBytes / n, MIN_BYTES);
            for (Part p : parts.values()) {
                if (!p.paused && (p.records >= records || p.bytes >= bytes)) {
                    p.paused = true;
                    full.add(p.tp);
                } else if (p.paused && p.records <= records / 2 && p.bytes <= bytes / 2) {
                    p.paused = false;
                    free.add(p.tp);
                }
            }
        } finally {
            lock.unlock();
        }
        Set<TopicPartition> ours = consumer.assignment();
        full.retainAll(ours);
        free.retainAll(ours);
        consumer.pause(full);
        consumer.resume(free);
    }

    private Map<TopicPartition, OffsetAndMetadata> toCommit(Collection<Part> which) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        lock.lock();
        try {
            for (Part p : which) {
                // Not of partitions that are not ours any more: that could undo the new owner's commit.
                if (p.next > p.committed && parts.get(p.tp) == p) {
                    offsets.put(p.tp, new OffsetAndMetadata(p.next));
                }
            }
        } finally {
            lock.unlock();
        }
        return offsets;
    }

    private List<Part> assigned() {
        lock.lock();
        try {
            return new ArrayList<>(parts.values());
        } finally {
            lock.unlock();
        }
    }

    private void commitSoon() {
        Map<TopicPartition, OffsetAndMetadata> offsets = toCommit(assigned());
        if (!offsets.isEmpty()) {
            consumer.commitAsync(offsets, (done, e) -> committed(done, e));
        }
    }

    private void commitWithin(Map<TopicPartition, OffsetAndMetadata> offsets, Duration within) {
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
        lock.lock();
        try {
            if (e != null) {
                count("commit_failures");
                failing.warn("cannot commit offsets of group " + o.group + "." + o.channel + "; trying on: " + e);
                return;
            }
            offsets.forEach((tp, at) -> {
                Part p = parts.get(tp);
                if (p != null) {
                    p.committed = Math.max(p.committed, at.offset());
                }
            });
        } finally {
            lock.unlock();
        }
    }

    // --- rebalances -------------------------------------------------------------------------

    private final class Rebalances implements ConsumerRebalanceListener {
        /** New partitions. Their events are held until the end of the receipts topic is read. */
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            if (assigned.isEmpty()) {
                return;
            }
            LOG.info("partitions assigned: {}", assigned);
            lock.lock();
            try {
                for (TopicPartition tp : assigned) {
                    Part p = new Part(tp, tp.topic().equals(topic + HIGH));
                    parts.put(tp, p);
                    toLoad.add(p);
                }
                loads.signal();
            } finally {
                lock.unlock();
            }
        }

        /** What runs may finish within revokeTimeout; what is done is committed. */
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            List<Part> moved = closeParts(revoked);
            if (moved.isEmpty() || isEnding()) {
                return;
            }
            if (!await(() -> moved.stream().allMatch(p -> p.running.isEmpty() && p.pending == 0), o.revokeTimeout)) {
                abandon(moved);
                LOG.warn("partitions moved before their handlers had finished; their events go to another worker: {}",
                        revoked);
            }
            commitWithin(toCommit(moved), COMMIT);
            forget(moved);
        }

        /** The group has given our partitions to others: nothing may be committed. */
        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            List<Part> moved = closeParts(lost);
            if (!moved.isEmpty()) {
                LOG.warn("the group has taken partitions away; their events go to another worker: {}", lost);
                abandon(moved);
                forget(moved);
            }
        }
    }

    private boolean isEnding() {
        lock.lock();
        try {
            return ending;
        } finally {
            lock.unlock();
        }
    }

    private List<Part> closeParts(Collection<TopicPartition> which) {
        lock.lock();
        try {
            List<Part> found = new ArrayList<>();
            for (TopicPartition tp : which) {
                Part p = parts.get(tp);
                if (p != null) {
                    p.gone = true;
                    found.add(p);
                }
            }
            return found;
        } finally {
            lock.unlock();
        }
    }

    private boolean await(BooleanSupplier done, Duration within) {
        long end = System.nanoTime() + within.toNanos();
        while (true) {
            lock.lock();
            try {
                if (done.getAsBoolean()) {
                    return true;
                }
            } finally {
                lock.unlock();
            }
            if (System.nanoTime() - end >= 0) {
                return false;
            }
            sleep(5);
        }
    }

    private void abandon(List<Part> which) {
        lock.lock();
        try {
            for (Part p : which) {
                for (Part.Item item : p.running) {
                    item.event.cancelled = true;
                    if (item.thread != null) {
                        item.thread.interrupt();
                    }
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Drops partitions, and the memory of those of which no lane is left. */
    private void forget(List<Part> which) {
        lock.lock();
        try {
            for (Part p : which) {
                parts.remove(p.tp, p);
            }
            if (!o.byKey) {
                Set<Integer> used = new HashSet<>();
                parts.keySet().forEach(tp -> used.add(tp.partition()));
                memories.keySet().retainAll(used);
            }
        } finally {
            lock.unlock();
        }
    }

    // --- the memory, and what is asked for beside -------------------------------------------

    /** Reads the memory of new partitions, for as long as it takes; finds the lane; asks for the ends of the logs. */
    private void loadLoop() {
        long asked = System.nanoTime() - ASK_EVERY;
        long lane = asked;
        int failures = 0;
        List<Part> mine = new ArrayList<>();
        try (Admin admin = Admin.create(kafka); Loader loader = new Loader(receiptsTopic, kafka)) {
            while (waitForLoad(mine, failures)) {
                try {
                    long now = System.nanoTime();
                    if (!laneFound && now - lane >= LANE_EVERY) {
                        lane = now;
                        laneFound = loader.exists(topic + HIGH);
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
                } catch (InterruptedException | InterruptException e) {
                    return;
                } catch (RuntimeException | ExecutionException e) { // whatever it is: it is tried again
                    failures++;
                    if (!mine.isEmpty()) {
                        failing.warn("cannot read " + receiptsTopic + "; its due events are held until it can be read: "
                                + e);
                    }
                }
            }
        } catch (InterruptException e) {
            LOG.debug("interrupted while it closed");
        }
    }

    /** Waits for new partitions, or for the next question. False at the end. */
    private boolean waitForLoad(List<Part> mine, int failures) {
        lock.lock();
        try {
            if (toLoad.isEmpty() && !ending) {
                long ms = failures > 0 ? Math.min(50L << Math.min(failures, 7), 5000) : mine.isEmpty() ? 500 : 0;
                if (ms > 0) {
                    loads.await(ms, TimeUnit.MILLISECONDS);
                }
            }
            mine.addAll(toLoad);
            mine.removeIf(p -> p.gone);
            toLoad.clear();
            return !ending;
        } catch (InterruptedException e) {
            return false;
        } finally {
            lock.unlock();
        }
    }

    /** What comes behind the ends of the logs was appended after now: for the clock. */
    private void askEnds(Admin admin) throws InterruptedException, ExecutionException {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        assigned().forEach(p -> latest.put(p.tp, OffsetSpec.latest()));
        if (latest.isEmpty()) {
            return;
        }
        long now = System.currentTimeMillis();
        Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> ends = admin.listOffsets(latest).all().get();
        lock.lock();
        try {
            ends.forEach((tp, end) -> {
                Part p = parts.get(tp);
                if (p != null) {
                    p.end = end.offset();
                    p.asked = now;
                }
            });
        } finally {
            lock.unlock();
        }
    }

    private void load(Loader loader, List<Part> mine) {
        if (o.memory > 0) {
            Map<Integer, Long> ends = loader.read(spans(loader.partitions(), mine), o.memory, this::learn,
                    this::isEnding);
            lock.lock();
            try {
                ends.forEach((num, end) -> {
                    if (memories.containsKey(num)) {
                        memories.get(num).next = end;
                    }
                });
            } finally {
                lock.unlock();
            }
        }
        lock.lock();
        try {
            for (Part p : mine) {
                p.loaded = true;
                if (!p.gone) {
                    p.held.forEach(queue::add);
                }
                p.held = new ArrayList<>();
            }
            wake();
        } finally {
            lock.unlock();
        }
    }

    private Map<Integer, Long> spans(Set<Integer> all, List<Part> mine) {
        Set<Integer> wanted = new HashSet<>();
        mine.forEach(p -> wanted.add(p.tp.partition()));
        if (o.byKey) {
            wanted.clear();
            wanted.addAll(all);
        } else if (!all.containsAll(wanted)) {
            throw new IllegalStateException(receiptsTopic + " has " + all.size() + " partitions and the due topic has "
                    + "more: if the channel has partitioning: by_key, set byKey");
        }
        Map<Integer, Long> spans = new HashMap<>();
        lock.lock();
        try {
            receiptPartitions = all.size();
            wanted.forEach(num -> spans.put(num, memories.computeIfAbsent(num, n -> new Memory(o.memory)).next));
        } finally {
            lock.unlock();
        }
        return spans;
    }

    private void learn(int partition, byte[] key, byte[] value) {
        Receipts.Seen seen = Receipts.read(o.channel, key, value);
        if (seen == null) {
            return;
        }
        lock.lock();
        try {
            Memory memory = memories.get(partition);
            if (memory != null) {
                memory.add(seen.dueId(), seen.outcome(), seen.attempt(), seen.postponed());
            }
        } finally {
            lock.unlock();
        }
    }

    // --- the end ----------------------------------------------------------------------------

    /** Handlers have three quarters of drainTimeout, receipts an eighth more, the last commit the rest. */
    private void drain(Thread loader) {
        long begin = System.nanoTime();
        List<Part> mine;
        lock.lock();
        try {
            ending = true;
            mine = new ArrayList<>(parts.values());
            mine.forEach(p -> p.gone = true);
            batched.forEach(this::finish); // their handlers were not called
            batched.clear();
            ready.signalAll();
            loads.signalAll();
        } finally {
            lock.unlock();
        }
        if (!await(() -> running == 0, left(begin, 6))) {
            abandon(mine);
        }
        await(() -> running == 0 && pending == 0, left(begin, 7));
        int ran;
        int open;
        lock.lock();
        try {
            ran = running;
            open = pending;
        } finally {
            lock.unlock();
        }
        try {
            commitWithin(toCommit(mine), left(begin, 7).plus(o.drainTimeout.dividedBy(16)));
            consumer.close(CloseOptions.timeout(left(begin, 8)));
        } catch (KafkaException e) {
            LOG.warn("cannot leave the group; others get the partitions when the session has timed out: {}",
                    e.toString());
        } finally {
            writer.close();
            loader.interrupt();
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
