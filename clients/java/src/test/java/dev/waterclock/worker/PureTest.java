package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waterclock.internal.Json;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** What a worker knows, without I/O. */
class PureTest {
    private static ConsumerRecord<byte[], byte[]> due(String id) {
        return record(id, 1, 0);
    }

    private static ConsumerRecord<byte[], byte[]> record(String id, int attempt, long offset) {
        ConsumerRecord<byte[], byte[]> r = new ConsumerRecord<>("t", 0, offset, "k".getBytes(), new byte[0]);
        r.headers().add("ce_type", "waterclock.due.v1".getBytes()).add("ce_id", (id + "@1#0").getBytes())
                .add("ce_subject", id.getBytes()).add("ce_time", "2026-11-30T14:00:00.000Z".getBytes())
                .add("ce_wcattempt", Integer.toString(attempt).getBytes());
        return r;
    }

    private static DueEvent event(String id, int attempt) {
        try {
            return Decoder.decode(record(id, attempt, 0), false);
        } catch (Decoder.Garbled e) {
            throw new AssertionError(e);
        }
    }

    /** Tracing refuses no due event: the engine passes on what a producer wrote. */
    @Test
    void tracestateOfAnyBytes() throws Decoder.Garbled {
        ConsumerRecord<byte[], byte[]> r = due("a");
        r.headers().add("tracestate", new byte[] {'v', '=', (byte) 0xe9});
        assertEquals("v=\ufffd", Decoder.decode(r, false).tracestate());
        r.headers().add("ce_wcuser", new byte[] {(byte) 0xe9}); // of the engine itself
        assertEquals("ce_wcuser", assertThrows(Decoder.Garbled.class, () -> Decoder.decode(r, false)).header);
    }

    /** The last receipts are known for certain, and at most twice as many are. */
    @Test
    void memoryIsBounded() {
        Memory m = new Memory(1000);
        for (int i = 0; i < 10_000; i++) {
            m.add("k" + i + "@1#0", Result.Outcome.DELIVERED, 1, 0, 0);
            assertTrue(m.size() <= 2000);
            if (i >= 999) {
                assertEquals("final", m.check(event("k" + (i - 999), 1)));
            }
        }
        assertNull(m.check(event("k0", 1)));
    }

    /** A later receipt of a lower round takes nothing back. */
    @Test
    void memoryKeepsTheHighestRound() {
        Memory m = new Memory(2);
        m.add("a@1#0", Result.Outcome.RETRY, 2, 1, 0);
        m.add("b@1#0", Result.Outcome.RETRY, 1, 0, 0); // a new generation
        m.add("a@1#0", Result.Outcome.RETRY, 1, 0, 0);
        assertEquals("answered", m.check(event("a", 2)));
        assertNull(m.check(event("a", 3)));
    }

    private static DueEvent decided(String id, int receiptsRead) {
        ConsumerRecord<byte[], byte[]> r = record(id, 1, 0);
        r.headers().add("ce_wcbasis", ("1.5.9." + receiptsRead + ".0").getBytes());
        try {
            return Decoder.decode(r, false);
        } catch (Decoder.Garbled e) {
            throw new AssertionError(e);
        }
    }

    /** Once a receipt of the same round or a later one has an offset, what the engine decided after it is handled. */
    @Test
    void unknownOffsetsFindTheirPlace() {
        for (Result.Outcome outcome : List.of(Result.Outcome.DELIVERED, Result.Outcome.RETRY)) {
            for (int placed = 1; placed <= 3; placed++) {
                Memory m = new Memory(10);
                m.add("a@1#0", outcome, 2, 0, Memory.UNKNOWN);
                m.add("a@1#0", Result.Outcome.FAILED, placed, 0, 7);
                String answered = outcome.isFinal() ? "final" : "answered";
                assertEquals(answered, m.check(decided("a", 7)));
                // Of an earlier attempt, it says nothing about the later one.
                assertEquals(placed == 1 ? answered : null, m.check(decided("a", 8)));
            }
        }
    }

    /** The offsets of a topic that was made anew begin at 0: what is known of the old one answers nothing. */
    @Test
    void receiptsMadeAnew() {
        State state = new State(Worker.builder("print", e -> Result.delivered()), new Meter(null, null));
        List<Part> parts = state.assign(List.of(new TopicPartition("t", 0)));
        state.beginMemories(Set.of(0), 1);
        state.readUpTo(Map.of(0, 101L));
        state.learn(0, new Receipts.Seen("a@1#0", Result.Outcome.DELIVERED, 1, 0), 100);
        Uuid old = Uuid.randomUuid();
        Uuid anew = Uuid.randomUuid();
        assertTrue(state.receiptsTopic(old).isEmpty());
        assertTrue(state.receiptsTopic(old).isEmpty());
        assertEquals(Map.of(0, 101L), state.beginMemories(Set.of(0), 1));
        assertEquals(parts, state.receiptsTopic(anew));
        assertEquals(Map.of(0, 0L), state.beginMemories(Set.of(0), 1)); // the new one is read from its beginning
        assertTrue(state.receiptsTopic(anew).isEmpty());
    }

    /** A clock of ours that is wrong is corrected by what is appended after a question. */
    @Test
    void clock() {
        AtomicLong passed = new AtomicLong(); // no step of the system's clock counts, only what passes
        BrokerClock c = new BrokerClock(5_000, () -> TimeUnit.MILLISECONDS.toNanos(passed.get()));
        assertEquals(5_000, c.now());
        passed.set(95_000);
        c.observe(110_000, c.ours(), 0); // appended in our future: the brokers are ahead by 10 s at least
        assertEquals(110_000, c.now());
        c.observe(111_000, 101_100, 101_000); // and at most by 10.001 s
        passed.set(97_000);
        assertTrue(c.now() >= 111_990 && c.now() <= 112_010, "it is " + c.now());
        passed.set(195_000);
        c.observe(150_000, c.ours(), 199_990); // a clock was set: the brokers are behind now
        assertTrue(c.now() <= 150_020, "it is " + c.now());
    }

    private static Item item(Part p, long offset, DueEvent e) {
        Item item = new Item(p, offset, 100, e);
        p.add(item);
        return item;
    }

    /** A copy of an event whose receipt the brokers do not have yet is not handled, and not committed either. */
    @Test
    void skippedCopyWaitsForTheReceipt() {
        TopicPartition tp = new TopicPartition("t", 0);
        State state = new State(Worker.builder("print", e -> Result.delivered()), new Meter(null, null));
        List<Part> before = state.assign(List.of(tp));
        state.beginMemories(Set.of(0), 1);
        state.release(before);
        take(state, tp);
        Item first = state.pick();
        state.answer(first, Result.delivered());
        state.finish(first);
        state.close(List.of(tp)); // it moves away, and the other one fails
        state.forget(before);
        List<Part> after = state.assign(List.of(tp));
        state.beginMemories(Set.of(0), 1);
        state.release(after);
        take(state, tp);
        assertNull(state.pick());
        assertTrue(state.toCommit(after).isEmpty());
        state.acked(first, 0, 0);
        assertEquals(8, state.toCommit(after).get(tp).offset());
    }

    /** The brokers may have a receipt before its handler's thread goes on. */
    @Test
    void acknowledgedBeforeTheEnd() {
        TopicPartition tp = new TopicPartition("t", 0);
        State state = new State(Worker.builder("print", e -> Result.delivered()), new Meter(null, null));
        List<Part> parts = state.assign(List.of(tp));
        state.release(parts);
        take(state, tp);
        Item item = state.pick();
        state.answer(item, Result.delivered());
        state.acked(item, 0, 0);
        state.load(); // of any other thread
        state.finish(item);
        assertEquals(8, state.toCommit(parts).get(tp).offset());
        assertEquals(0, state.pending());
    }

    private static MemoryLoad memoryLoad(WorkerBuilder o, State state) {
        Worker.Names names = new Worker.Names("t", "t.high", "receipts");
        return new MemoryLoad(o, names, Map.of(), state, () -> { }, new Throttle(LoggerFactory.getLogger("test")));
    }

    /** A partition without a leader holds its own events, and nobody else's. */
    @Test
    void partitionWithoutLeader() {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered());
        State state = new State(o, new Meter(null, null));
        MemoryLoad load = memoryLoad(o, state);
        List<Part> mine = state.assign(List.of(new TopicPartition("t", 0), new TopicPartition("t", 1)));
        Node node = new Node(1, "kafka", 9092);
        MemoryLoad.Source source = (from, limit, sink, stopped) -> Map.copyOf(from);
        List<Part> left = load.load(source, List.of(new TopicPartitionInfo(0, node, List.of(), List.of()),
                new TopicPartitionInfo(1, null, List.of(), List.of())), mine);
        assertEquals(List.of(mine.get(1)), left);
        assertTrue(mine.get(0).loaded);
        assertFalse(mine.get(1).loaded);
    }

    /** The clock alone needs the ends of the logs: nothing is held for them. */
    @Test
    void endsThatNobodyTells() throws InterruptedException {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered());
        State state = new State(o, new Meter(null, null));
        List<Part> parts = state.assign(List.of(new TopicPartition("t", 0), new TopicPartition("t", 1)));
        KafkaFutureImpl<ListOffsetsResult.ListOffsetsResultInfo> known = new KafkaFutureImpl<>();
        known.complete(new ListOffsetsResult.ListOffsetsResultInfo(7, 0, Optional.empty()));
        KafkaFutureImpl<ListOffsetsResult.ListOffsetsResultInfo> unknown = new KafkaFutureImpl<>();
        unknown.completeExceptionally(new TimeoutException("no leader"));
        Admin admin = (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class},
                (self, method, args) -> new ListOffsetsResult(Map.of(parts.get(0).tp, unknown, parts.get(1).tp, known)));
        memoryLoad(o, state).askEnds(admin);
        assertEquals(7, parts.get(1).end);
        assertEquals(0, parts.get(0).asked);
    }

    private static void take(State state, TopicPartition tp) {
        ConsumerRecord<byte[], byte[]> r = record("a", 1, 7);
        state.take(tp, new Polled(List.of(r), false, null, null), 0);
    }

    /** The bound of the buffer is of headers, too: they stay in memory with their event. */
    @Test
    void headersCount() {
        ConsumerRecord<byte[], byte[]> r = due("k");
        int without = new Polled(List.of(r), false, null, null).records.get(0).size();
        r.headers().add("mine", new byte[16 << 10]).add("none", null);
        int with = new Polled(List.of(r), false, null, null).records.get(0).size();
        assertEquals((16 << 10) + "mine".length() + "none".length(), with - without);
    }

    /** Offsets may be committed up to the first record that is not done. */
    @Test
    void offsets() {
        Part p = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Item[] items = new Item[3];
        for (int i = 0; i < 3; i++) {
            items[i] = item(p, 10 + 2 * i, event("k", 1));
        }
        p.finish(items[1]);
        assertEquals(-1, p.next);
        p.finish(items[0]);
        assertEquals(13, p.next);
        p.finish(items[2]);
        assertEquals(15, p.next);
        assertEquals(0, p.records);
        assertEquals(0, p.bytes);
    }

    /** Nobody polls in a drain: a shorter interval gives another worker events while they are handled. */
    @Test
    void drainKeepsThePartitions() {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered());
        assertEquals(300_000, Poller.config(o, Map.of()).get("max.poll.interval.ms"));
        o.drainTimeout(Duration.ofMinutes(10));
        assertEquals(625_000, Poller.config(o, Map.of()).get("max.poll.interval.ms"));
        o.revokeTimeout(Duration.ofMinutes(20));
        assertEquals(1_225_000, Poller.config(o, Map.of()).get("max.poll.interval.ms"));
        assertEquals(7, Poller.config(o, Map.of("max.poll.interval.ms", 7)).get("max.poll.interval.ms"));
        o.drainTimeout(Duration.ofDays(100));
        assertEquals(Integer.MAX_VALUE, Poller.config(o, Map.of()).get("max.poll.interval.ms"));
    }

    /** A handler is tested without a broker. */
    @Test
    void handlerAlone() {
        Handler h = e -> e.payload(Integer.class) > 1 ? Result.delivered() : Result.fail("too_few", "");
        assertEquals(Result.delivered(), Worker.call(h, DueEvent.of("acme/pills@2026-11-20T09:00:00#0", "2")));
        DueEvent one = DueEvent.of("acme/pills@2026-11-20T09:00:00#0", "1");
        assertEquals("too_few", Worker.call(h, one).code());
        assertEquals("acme pills 2026-11-20T09:00:00", one.tenant() + " " + one.triggerId() + " " + one.occurrence());
    }

    /** An exception that cannot be read. */
    private static final class Unreadable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("it has no message");
        }
    }

    /** What a handler throws is a retry, whatever it is: it ends no thread. */
    @Test
    void exceptionThatCannotBeRead() {
        Result r = Worker.call(e -> {
            throw new Unreadable();
        }, DueEvent.of("acme/pills@2026-11-20T09:00:00#0", "2"));
        assertEquals(Result.retry().withCode("error").withDetail("Unreadable"), r);
    }

    /** The same of the hook: its events have an answer, and no handler is called. */
    @Test
    void hookThatCannotBeRead() {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered()).onBatch(events -> {
            throw new Unreadable();
        });
        State state = new State(o, new Meter(null, null));
        TopicPartition tp = new TopicPartition("t", 0);
        state.release(state.assign(List.of(tp)));
        state.take(tp, new Polled(List.of(due("k")), false, new Meter(null, null), null), 0);
        Batches batches = new Batches(o, state);
        assertTrue(batches.mayBegin());
        batches.begin();
        Result answer = batches.next().answer;
        assertEquals(Result.retry().withCode("error").withDetail("onBatch threw: Unreadable"), answer);
    }

    /** What moved while onBatch ran is another worker's: neither the handler nor what onBatch threw answers it. */
    @Test
    void partitionMovesDuringOnBatch() {
        for (boolean throwing : List.of(false, true)) {
            TopicPartition tp = new TopicPartition("t", 0);
            AtomicInteger handled = new AtomicInteger();
            AtomicReference<State> moves = new AtomicReference<>();
            WorkerBuilder o = Worker.builder("print", e -> {
                handled.incrementAndGet();
                return Result.delivered();
            }).onBatch(events -> {
                moves.get().abandon(moves.get().close(List.of(tp)));
                if (throwing) {
                    throw new IllegalStateException("a bug");
                }
                return null;
            });
            Meter meter = new Meter(null, null);
            State state = new State(o, meter);
            moves.set(state);
            state.release(state.assign(List.of(tp)));
            take(state, tp);
            ByteArraySerializer bytes = new ByteArraySerializer();
            MockProducer<byte[], byte[]> producer = new MockProducer<>(true, null, bytes, bytes);
            Throttle throttle = new Throttle(LoggerFactory.getLogger("test"));
            ReceiptWriter writer = new ReceiptWriter("receipts", () -> producer, meter, throttle);
            new Handlers(o, state, writer, meter, throttle).wake();
            assertTrue(State.await(() -> meter.counts().get("abandoned") != null && state.running() == 0,
                    Duration.ofSeconds(60)));
            state.end();
            writer.close();
            assertEquals(0, handled.get());
            assertTrue(producer.history().isEmpty());
        }
    }

    private static final ByteArraySerializer BYTES = new ByteArraySerializer();

    /** Handles events as a worker does, one after the other, and returns the outcomes of their receipts. */
    private static List<String> handled(WorkerBuilder o, List<ConsumerRecord<byte[], byte[]>> records) {
        Meter meter = new Meter(null, null);
        State state = new State(o.concurrency(1), meter);
        TopicPartition tp = new TopicPartition("t", 0);
        state.release(state.assign(List.of(tp)));
        state.take(tp, new Polled(records, false, meter, null), 0);
        MockProducer<byte[], byte[]> producer = new MockProducer<>(true, null, BYTES, BYTES);
        Throttle throttle = new Throttle(LoggerFactory.getLogger("test"));
        ReceiptWriter writer = new ReceiptWriter("receipts", () -> producer, meter, throttle);
        new Handlers(o, state, writer, meter, throttle).wake();
        assertTrue(State.await(() -> state.load().buffered() == 0, Duration.ofSeconds(60)), "not all are answered");
        state.end();
        writer.close();
        return producer.history().stream().map(r -> Json.text(Json.object(Json.read(new String(r.value(),
                StandardCharsets.UTF_8))), "outcome")).toList();
    }

    /** A tracer surrounds each attempt on the handler's thread, and hears how it ended. */
    @Test
    void tracer() {
        String parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        ThreadLocal<String> span = new ThreadLocal<>();
        Handler handler = e -> {
            told.add("handle " + span.get());
            if (e.key().equals("b")) {
                throw new IllegalStateException("no such number");
            }
            return e.key().equals("c") ? Result.fail("bad_number", "x".repeat(2000)) : Result.delivered();
        };
        WorkerBuilder o = Worker.builder("print", handler).tracer(e -> {
            told.add("start " + e.key() + " " + e.traceparent() + " " + e.tracestate());
            if (e.key().equals("d")) {
                return null;
            }
            span.set(e.key());
            return (outcome, code, detail) -> {
                told.add(String.join(" ", "end", outcome, code, detail, span.get()));
                span.remove();
            };
        });
        ConsumerRecord<byte[], byte[]> first = record("a", 1, 0);
        first.headers().add("traceparent", parent.getBytes()).add("tracestate", "v=1".getBytes());
        assertEquals(List.of("delivered", "retry", "failed", "delivered"),
                handled(o, List.of(first, record("b", 1, 1), record("c", 1, 2), record("d", 1, 3))));
        assertEquals(List.of("start a " + parent + " v=1", "handle a", "end delivered   a",
                "start b  ", "handle b", "end retry error no such number b",
                "start c  ", "handle c", "end failed bad_number " + "x".repeat(1024) + " c",
                "start d  ", "handle null"), told);
    }

    /** A handler that did not end before its partition moved: the span says so, and there is no receipt. */
    @Test
    void tracerOfAnAbandonedAttempt() throws InterruptedException {
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch begun = new CountDownLatch(1);
        WorkerBuilder o = Worker.builder("print", e -> {
            begun.countDown();
            Thread.sleep(60_000);
            return Result.delivered();
        }).tracer(e -> (outcome, code, detail) -> told.add(outcome + Thread.currentThread().isInterrupted()));
        State state = new State(o, new Meter(null, null));
        TopicPartition tp = new TopicPartition("t", 0);
        state.release(state.assign(List.of(tp)));
        take(state, tp);
        MockProducer<byte[], byte[]> producer = new MockProducer<>(true, null, BYTES, BYTES);
        Throttle throttle = new Throttle(LoggerFactory.getLogger("test"));
        ReceiptWriter writer = new ReceiptWriter("receipts", () -> producer, new Meter(null, null), throttle);
        new Handlers(o, state, writer, new Meter(null, null), throttle).wake();
        assertTrue(begun.await(60, TimeUnit.SECONDS));
        state.abandon(state.close(List.of(tp)));
        assertTrue(State.await(() -> state.running() == 0, Duration.ofSeconds(60)));
        state.end();
        writer.close();
        assertEquals(List.of("abandonedfalse"), told);
        assertTrue(producer.history().isEmpty());
    }

    /** What a tracer throws, and an interrupt that it leaves behind, change no answer and end no thread. */
    @Test
    void tracerThatThrows() {
        for (Throwable thrown : List.of(new IllegalStateException("of the exporter"), new Unreadable(),
                new NoClassDefFoundError("io/opentelemetry/api/trace/Span"))) {
            Handler handler = e -> {
                Thread.sleep(1); // throws if it was interrupted
                return Result.delivered();
            };
            WorkerBuilder start = Worker.builder("print", handler).tracer(e -> {
                Thread.currentThread().interrupt();
                throw sneaky(thrown);
            });
            WorkerBuilder end = Worker.builder("print", handler).tracer(e -> (outcome, code, detail) -> {
                Thread.currentThread().interrupt();
                throw sneaky(thrown);
            });
            List<String> want = List.of("delivered", "delivered");
            assertEquals(want, handled(start, List.of(record("a", 1, 0), record("b", 1, 1))));
            assertEquals(want, handled(end, List.of(record("a", 1, 0), record("b", 1, 1))));
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneaky(Throwable e) throws T {
        throw (T) e;
    }

    /** What waits for its full group starts no batch: the hook, and the threads that call it, have nothing to do. */
    @Test
    void fullGroupBeginsNoBatch() {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered()).onBatch(events -> null)
                .perGroup(Bulkhead.by(DueEvent::tenant).inFlight(1));
        State state = new State(o, new Meter(null, null));
        TopicPartition tp = new TopicPartition("t", 0);
        state.release(state.assign(List.of(tp)));
        Batches batches = new Batches(o, state);
        for (int i = 0; i < 2; i++) {
            ConsumerRecord<byte[], byte[]> r = record("acme/" + i, 1, i);
            ConsumerRecord<byte[], byte[]> own = new ConsumerRecord<>("t", 0, i, ("acme/" + i).getBytes(), new byte[0]);
            r.headers().forEach(own.headers()::add);
            state.take(tp, new Polled(List.of(own), false, null, null), 0);
        }
        assertTrue(batches.mayBegin());
        batches.begin();
        Item first = batches.next();
        assertEquals(1, state.load().ready());
        assertFalse(batches.hasWork());
        assertFalse(batches.mayBegin());
        state.finish(first);
        assertTrue(batches.hasWork());
        assertTrue(batches.mayBegin());
    }

    /** A producer that cannot be made now, such as while a keystore is rotated, loses no receipt. */
    @Test
    void producerThatCannotBeMade() throws InterruptedException {
        ByteArraySerializer bytes = new ByteArraySerializer();
        MockProducer<byte[], byte[]> refused = new MockProducer<>(false, null, bytes, bytes);
        ArrayDeque<Supplier<Producer<byte[], byte[]>>> made = new ArrayDeque<>(List.of(() -> refused, () -> {
            throw new KafkaException("the keystore is half written");
        }, () -> new MockProducer<>(true, null, bytes, bytes)));
        CountDownLatch acked = new CountDownLatch(1);
        ReceiptWriter writer = new ReceiptWriter("receipts", () -> made.remove().get(), new Meter(null, null),
                new Throttle(LoggerFactory.getLogger("test")));
        writer.write(new byte[1], new byte[1], (partition, offset) -> acked.countDown());
        refused.errorNext(new TopicAuthorizationException("receipts"));
        assertTrue(acked.await(60, TimeUnit.SECONDS));
        writer.close();
    }

    /** A due topic of the user's own may end like a lane. */
    @Test
    void topicNamedLikeALane() {
        WorkerBuilder o = Worker.builder("print", e -> Result.delivered()).topic("orders.high");
        State state = new State(o, new Meter(null, null));
        List<Part> parts = state.assign(List.of(new TopicPartition("orders.high", 0),
                new TopicPartition("orders.high.high", 0)));
        assertEquals(List.of(Queue.NORMAL, Queue.HIGH), parts.stream().map(p -> p.lane).toList());
        state.release(parts);
        for (Part p : parts) {
            state.take(p.tp, new Polled(List.of(due("k")), p.lane == Queue.HIGH, new Meter(null, null), null), 0);
        }
        assertTrue(state.pick().event.high());
    }

    /** One key after the other; the high lane first. */
    @Test
    void queue() {
        Part low = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Part high = new Part(new TopicPartition("t.high", 0), Queue.HIGH);
        Queue q = new Queue(null);
        Item a = item(low, 1, event("a", 1));
        Item b = item(low, 2, event("b", 1)); // the same record key
        Item c = item(high, 1, event("c", 1));
        List.of(a, b, c).forEach(q::add);
        assertEquals(c, q.take());
        assertEquals(a, q.take());
        assertNull(q.take());
        q.finish(a);
        assertEquals(b, q.take());
        q.finish(b);
        assertTrue(low.tails.isEmpty());
    }

    /** Two tenants with one target_key do not wait for each other. */
    @Test
    void orderOfOneTenant() {
        Part p = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Queue q = new Queue(null);
        Item acme = item(p, 1, event("acme/a", 1));
        Item other = item(p, 2, event("other/a", 1));
        Item second = item(p, 3, event("acme/b", 1));
        List.of(acme, other, second).forEach(q::add);
        assertEquals(acme, q.take());
        assertEquals(other, q.take());
        assertNull(q.take());
        q.finish(acme);
        assertEquals(second, q.take());
    }

    /** An event whose record key is its own, as it is without a target_key. */
    private static DueEvent alone(String key) {
        DueEvent e = event(key, 1);
        e.recordKey = key.getBytes();
        return e;
    }

    private static List<Item> many(Queue q, Part p, String tenant, int n) {
        List<Item> all = IntStream.range(0, n).mapToObj(i -> item(p, i, alone(tenant + "/" + i))).toList();
        all.forEach(q::add);
        return all;
    }

    /** Groups take turns, and no more of one run than it may have. */
    @Test
    void groupsTakeTurns() {
        Part p = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Queue q = new Queue(Bulkhead.by(DueEvent::tenant).inFlight(2));
        List<Item> acme = many(q, p, "acme", 4);
        List<Item> other = many(q, p, "other", 4);
        for (int i = 0; i < 2; i++) {
            assertEquals(acme.get(i), q.take());
            assertEquals(other.get(i), q.take());
        }
        assertNull(q.take());
        assertEquals(4, q.size());
        q.finish(other.get(0));
        assertEquals(other.get(2), q.take());
        assertNull(q.take());
        assertTrue(q.takeOverflow().isEmpty());
    }

    /** What finds no room is answered without the handler: the newest, those of the high lane last. */
    @Test
    void groupsOverflow() {
        Part low = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Part high = new Part(new TopicPartition("t.high", 0), Queue.HIGH);
        Queue q = new Queue(Bulkhead.by(DueEvent::tenant).inFlight(1).waiting(2).overflow(e -> Result.retry()));
        List<Item> first = many(q, low, "acme", 3);
        assertTrue(q.takeOverflow().isEmpty()); // nothing runs yet
        assertEquals(first.get(0), q.take());
        Item urgent = item(high, 0, alone("acme/urgent"));
        q.add(urgent);
        assertEquals(List.of(first.get(2)), q.takeOverflow());
        q.finish(first.get(2));
        assertEquals(2, q.size());
        q.finish(first.get(0));
        assertEquals(urgent, q.take());
    }

    /** What waits for an event of its key that hangs is answered; the one that hangs goes on. */
    @Test
    void groupsShed() {
        Part p = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Queue q = new Queue(Bulkhead.by(DueEvent::tenant).overflow(e -> Result.retry()));
        List<Item> same = IntStream.range(0, 3).mapToObj(i -> item(p, i, event("a" + i, 1))).toList();
        same.forEach(q::add);
        Item head = q.take();
        p.running.add(head);
        head.started = 1000;
        q.shed(p, 1000);
        assertTrue(q.takeOverflow().isEmpty()); // it has not run for so long
        q.shed(p, 1001);
        assertEquals(same.subList(1, 3), q.takeOverflow());
        same.subList(1, 3).forEach(q::finish);
        Item later = item(p, 3, event("a3", 1));
        q.add(later);
        assertNull(q.take()); // it waits for the one that hangs
        p.running.remove(head);
        q.finish(head);
        assertEquals(later, q.take());
    }

    /** A group's function that throws or returns null makes the nameless group; what is gone is purged. */
    @Test
    void groupsWithoutName() {
        Part p = new Part(new TopicPartition("t", 0), Queue.NORMAL);
        Queue q = new Queue(Bulkhead.by(e -> {
            if (e.key().equals("acme/0")) {
                throw new IllegalStateException("no group");
            }
            return null;
        }).inFlight(1));
        List<Item> all = many(q, p, "acme", 3);
        assertEquals(all.get(0), q.take());
        assertNull(q.take());
        p.gone = true;
        q.purge();
        assertEquals(0, q.size());
        q.finish(all.get(0));
        assertNull(q.take());
    }

    /** Each series once, with the names of the kit for Go. */
    @Test
    void prometheus() {
        PrometheusText m = new PrometheusText("print");
        m.handled(Result.Outcome.DELIVERED, "", Duration.ofMillis(2));
        m.handled(Result.Outcome.DELIVERED, "", Duration.ofSeconds(400));
        m.skipped("final");
        m.garbled("ce_id");
        m.receiptWritten(Duration.ofMillis(1));
        m.load(new Metrics.Load(1, 2, 3, 4, 5, 6, 7, 8, Duration.ofMillis(1500)));
        List<String> lines = m.text().lines().toList();
        for (String want : List.of("handled_total{channel=\"print\",outcome=\"delivered\"} 2",
                "skipped_total{channel=\"print\",reason=\"final\"} 1", "abandoned_total{channel=\"print\"} 0",
                "handle_seconds_bucket{channel=\"print\",le=\"0.001\"} 0.0",
                "handle_seconds_bucket{channel=\"print\",le=\"0.0025\"} 1.0",
                "handle_seconds_bucket{channel=\"print\",le=\"+Inf\"} 2.0",
                "receipt_seconds_bucket{channel=\"print\",le=\"0.001\"} 1.0",
                "handle_seconds_sum{channel=\"print\"} 400.002", "handle_seconds_count{channel=\"print\"} 2.0",
                "partitions{channel=\"print\",state=\"held\"} 8.0", "clock_ahead_seconds{channel=\"print\"} 1.5")) {
            assertTrue(lines.contains("waterclock_worker_" + want), want + " is not in " + lines);
        }
        assertEquals(lines.size(), lines.stream().map(l -> l.substring(0, l.indexOf("} "))).distinct().count());
    }
}
