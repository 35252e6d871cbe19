package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waterclock.Command;
import dev.waterclock.DeadLetterFilter;
import dev.waterclock.Dev;
import dev.waterclock.Event;
import dev.waterclock.Options;
import dev.waterclock.Register;
import dev.waterclock.UnfinishedException;
import dev.waterclock.WaterclockClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The worker against a running dev: what it promises. */
@Timeout(120)
class WorkerTest {
    private static final Dev DEV = Dev.shared();
    private static final WaterclockClient CLIENT = WaterclockClient.of(DEV.url());

    /** A worker that runs until it is closed; then what run() threw is thrown. */
    private static final class Running implements AutoCloseable {
        final Worker worker;
        private final CompletableFuture<Void> ended;

        Running(WorkerBuilder b) {
            worker = b.brokers(DEV.kafka).build();
            ended = CompletableFuture.runAsync(worker::run, r -> new Thread(r).start());
        }

        long stat(String name) {
            return worker.stats().getOrDefault(name, 0L);
        }

        @Override
        public void close() {
            worker.close();
            try {
                ended.join();
            } catch (CompletionException e) {
                throw (RuntimeException) e.getCause();
            }
        }
    }

    private static void awaitState(String id, String state) {
        Dev.await(id + " is " + state, () -> CLIENT.get(id).state().equals(state));
    }

    /** What became of its emissions; late receipts change nothing, and are left out. */
    private static List<String> outcomes(String id) {
        List<String> all = new ArrayList<>();
        for (Event e : CLIENT.events(id)) {
            if (e.type().startsWith("delivery.") && !e.reason().equals("late")) {
                all.add(e.type().substring("delivery.".length()));
            }
        }
        Collections.sort(all);
        return all;
    }

    /** The log is behind the state by a moment. */
    private static void awaitOutcomes(String id, List<String> want) {
        Dev.await(id + " has " + want, () -> outcomes(id).size() >= want.size());
        assertEquals(want, outcomes(id), id);
    }

    private static void now(String id, String channel) {
        CLIENT.schedule(id, Register.in(Duration.ZERO).channel(channel));
    }

    private static void many(String name, int from, int to, String channel) {
        List<Command> all = IntStream.range(from, to).mapToObj(i -> Command.schedule(name + i,
                Register.in(Duration.ZERO).channel(channel), Options.NONE)).toList();
        assertTrue(CLIENT.batch(all).stream().allMatch(r -> r.ok()));
    }

    /** Each result becomes its receipt; what a handler throws is a retry; a dead letter can be redriven. */
    @Test
    void everyResult() {
        AtomicInteger fails = new AtomicInteger();
        Handler handler = e -> {
            boolean first = e.attempt() == 1;
            return switch (e.triggerId().substring("java-res-".length())) {
                case "accept" -> Result.accepted();
                case "suppress" -> Result.suppress("opted_out");
                case "fail" -> fails.incrementAndGet() == 1 ? Result.fail("bad_number", "no such number")
                        : Result.delivered();
                case "retry" -> first ? Result.retry(Duration.ofMillis(50)).withCode("busy") : Result.delivered();
                case "throw" -> {
                    if (first) {
                        throw new IllegalStateException("no such number");
                    }
                    yield Result.delivered();
                }
                case "error" -> {
                    if (first) {
                        throw new AssertionError("a bug");
                    }
                    yield Result.delivered();
                }
                case "null" -> first ? null : Result.delivered();
                case "postpone" -> e.postponed() == 0 ? Result.postpone(Duration.ofMillis(10), "quiet_hours")
                        : Result.delivered();
                default -> Result.delivered();
            };
        };
        Map<String, List<String>> want = new TreeMap<>(Map.of(
                "deliver", List.of("delivered"), "accept", List.of("accepted"), "suppress", List.of("suppressed"),
                "fail", List.of("dead_lettered", "failed"), "retry", List.of("delivered", "retried"),
                "throw", List.of("delivered", "retried"), "error", List.of("delivered", "retried"),
                "null", List.of("delivered", "retried"), "postpone", List.of("delivered", "postponed")));
        try (Running w = new Running(Worker.builder("work", handler))) {
            for (String name : want.keySet()) {
                CLIENT.schedule("java-res-" + name, Register.in(Duration.ZERO).channel("work"));
            }
            want.forEach((name, events) -> {
                awaitState("java-res-" + name, name.equals("fail") ? "FAILED" : "FIRED");
                awaitOutcomes("java-res-" + name, events);
            });
            Map<String, String> reasons = new HashMap<>();
            for (String name : List.of("retry", "throw", "error", "null")) {
                CLIENT.events("java-res-" + name).forEach(e -> {
                    if (e.type().equals("delivery.retried")) {
                        reasons.put(name, e.reason());
                    }
                });
            }
            assertEquals(Map.of("retry", "busy", "throw", "error", "error", "panic", "null", "no_result"), reasons);
            assertEquals(0, w.stat("receipt_failures"));

            DeadLetterFilter filter = new DeadLetterFilter().triggerId("java-res-fail");
            Dev.await("the dead letter is listed", () -> CLIENT.deadLetters(filter).items().size() == 1);
            CLIENT.allDeadLetters(filter).forEach(d -> assertEquals("bad_number", d.code()));
            assertEquals(1, CLIENT.redrive("java-res-fail", null).redriven());
            awaitState("java-res-fail", "FIRED");
        }
    }

    /** Events of one key are handled one after the other, in the order of the log. */
    @Test
    void orderByKey() {
        CLIENT.schedule("java-ord", Register.every("FREQ=DAILY", "UTC").channel("work"));
        for (int i = 0; i < 12; i++) {
            CLIENT.run("java-ord");
        }
        List<Long> seen = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger atOnce = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        Handler handler = e -> {
            if (e.triggerId().equals("java-ord")) {
                most.accumulateAndGet(atOnce.incrementAndGet(), Math::max);
                seen.add(e.offset());
                Thread.sleep(20);
                atOnce.decrementAndGet();
            }
            return Result.delivered();
        };
        try (Running w = new Running(Worker.builder("work", handler))) {
            Dev.await("all are handled", () -> seen.size() >= 12 && w.stat("running") == 0);
        }
        assertEquals(seen.stream().sorted().distinct().toList(), seen);
        assertEquals(1, most.get());
        CLIENT.cancel("java-ord");
    }

    /** What waits in the high lane goes before the rest, though it came later. A lane is found while a worker runs. */
    @Test
    void highLaneFirst() throws Exception {
        CountDownLatch gate = new CountDownLatch(1);
        List<Boolean> order = Collections.synchronizedList(new ArrayList<>());
        Handler handler = e -> {
            gate.await();
            order.add(e.high());
            return Result.delivered();
        };
        many("java-low-", 0, 20, "urgent");
        try (Running w = new Running(Worker.builder("urgent", handler).concurrency(1))) {
            Dev.await("the low ones are in memory", () -> w.stat("buffered") >= 20);
            long begin = System.nanoTime();
            for (int i = 0; i < 10; i++) {
                CLIENT.schedule("java-high-" + i, Register.in(Duration.ZERO).channel("urgent").priority("high"));
            }
            Dev.await("all are in memory", () -> w.stat("buffered") >= 30);
            long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begin);
            gate.countDown();
            Dev.await("all are handled", () -> order.size() >= 30);
            assertTrue(order.subList(1, 11).stream().allMatch(high -> high), "the order is " + order);
            assertTrue(seconds < 30, "the lane was found after " + seconds + " s"); // 5 s on a machine at rest
        }
    }

    /** Killed between work and receipt: that event comes to the next worker; what was answered is not called again. */
    @Test
    void killedBetweenWorkAndReceipt(@TempDir Path dir) throws Exception {
        int n = 40;
        Path calls = Files.createFile(dir.resolve("calls"));
        many("java-kill-", 0, n, "kill");
        Process first = Dev.java(WorkerProcess.class, DEV.kafka, "waterclock.", "kill", calls.toString(), "6000", "die")
                .start();
        assertTrue(first.waitFor(60, TimeUnit.SECONDS));
        assertEquals(137, first.exitValue());
        List<String> before = Files.readAllLines(calls);
        assertEquals(10, before.size());
        Process second = Dev.java(WorkerProcess.class, DEV.kafka, "waterclock.", "kill", calls.toString(), "6000")
                .start();
        try {
            for (int i = 0; i < n; i++) {
                awaitState("java-kill-" + i, "FIRED");
            }
        } finally {
            second.destroy(); // SIGTERM: it drains
            assertTrue(second.waitFor(40, TimeUnit.SECONDS));
        }
        assertEquals(143, second.exitValue());
        Map<String, Integer> counts = new HashMap<>();
        Files.readAllLines(calls).forEach(line -> counts.merge(line, 1, Integer::sum));
        assertEquals(n, counts.size());
        List<String> twice = counts.keySet().stream().filter(id -> counts.get(id) > 1).toList();
        assertEquals(2, counts.get(before.get(9)), "what was worked on and not answered comes once more");
        assertEquals(1, ReceiptLog.of(DEV.kafka, "waterclock.", "kill", n).get(before.get(9).split(" ")[0]),
                "its receipt is there once");
        assertTrue(twice.size() <= 4, "at most what was in hand comes again: " + twice);
        for (int i = 0; i < n; i++) {
            awaitOutcomes("java-kill-" + i, List.of("delivered"));
        }
    }

    /** A second worker joins and the first one leaves, while both work: each event is called once. */
    @Test
    void rebalance() {
        Map<String, Integer> calls = new ConcurrentHashMap<>();
        AtomicInteger one = new AtomicInteger();
        AtomicInteger two = new AtomicInteger();
        java.util.function.Function<AtomicInteger, WorkerBuilder> builder = by -> Worker.builder("two", e -> {
            Thread.sleep(5);
            calls.merge(e.id() + " " + e.attempt(), 1, Integer::sum);
            by.incrementAndGet();
            return Result.delivered();
        }).concurrency(4);
        try (Running first = new Running(builder.apply(one))) {
            many("java-two-", 0, 300, "two");
            Dev.await("the first works", () -> one.get() > 50);
            try (Running second = new Running(builder.apply(two))) {
                Dev.await("both have partitions", () -> second.stat("assigned") > 0 && first.stat("assigned") < 4);
                many("java-two-", 300, 600, "two");
                Dev.await("the second works", () -> two.get() > 20);
                first.worker.stop();
                many("java-two-", 600, 700, "two");
                Dev.await("all are called", () -> calls.size() >= 700);
                awaitState("java-two-699", "FIRED");
            }
        }
        assertEquals(700, calls.size());
        assertTrue(calls.values().stream().allMatch(n -> n == 1));
    }

    /** A partition that is full is paused: memory is bounded, and nothing is lost. */
    @Test
    void backPressure() throws Exception {
        CountDownLatch gate = new CountDownLatch(1);
        Map<String, Integer> calls = new ConcurrentHashMap<>();
        Handler handler = e -> {
            gate.await();
            calls.merge(e.id(), 1, Integer::sum);
            return Result.delivered();
        };
        many("java-bp-", 0, 2000, "full");
        try (Running w = new Running(Worker.builder("full", handler).concurrency(2).buffer(64, 1 << 20))) {
            Dev.await("it is paused", () -> w.stat("paused") >= 2);
            Thread.sleep(300);
            assertTrue(w.stat("buffered") <= 4 * (16 + 1000), "a share each, and one poll beyond");
            assertEquals(2, w.stat("running"));
            gate.countDown();
            Dev.await("all are handled", () -> calls.size() >= 2000);
        }
        assertTrue(calls.values().stream().allMatch(n -> n == 1));
    }

    /** A handler that does not end in time: its thread is interrupted, and its event is delivered again. */
    @Test
    void drainTooShort() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        Predicate<DueEvent> mine = e -> e.triggerId().equals("java-drain");
        Handler stuck = e -> {
            if (!mine.test(e)) {
                return Result.delivered();
            }
            begun.countDown();
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException x) {
                interrupted.complete(e.cancelled());
                Thread.sleep(2000); // longer than the drain
            }
            throw new IllegalStateException("the worker ends");
        };
        now("java-drain", "work");
        Running w = new Running(Worker.builder("work", stuck).drainTimeout(Duration.ofMillis(800)));
        assertTrue(begun.await(60, TimeUnit.SECONDS));
        UnfinishedException e = assertThrows(UnfinishedException.class, w::close);
        assertTrue(e.getMessage().contains("1 handlers ran"), e.getMessage());
        assertTrue(interrupted.get(30, TimeUnit.SECONDS));
        try (Running next = new Running(Worker.builder("work", x -> Result.delivered()))) {
            awaitState("java-drain", "FIRED");
            assertEquals(0, next.stat("receipt_failures"));
        }
        awaitOutcomes("java-drain", List.of("delivered"));
    }

    /** A handler past its time is interrupted, and retried with code timeout. */
    @Test
    void handlerTimeout() {
        Handler slow = e -> {
            if (e.triggerId().equals("java-slow") && e.attempt() == 1) {
                Thread.sleep(60_000);
            }
            assertFalse(Thread.currentThread().isInterrupted());
            return Result.delivered();
        };
        now("java-slow", "work");
        try (Running w = new Running(Worker.builder("work", slow).handlerTimeout(Duration.ofMillis(200)))) {
            Dev.await("it was retried", () -> w.stat("retry") >= 1);
        }
        Dev.await("it is logged", () -> outcomes("java-slow").contains("retried"));
        CLIENT.events("java-slow").forEach(e -> {
            if (e.type().equals("delivery.retried")) {
                assertEquals("timeout", e.reason());
            }
        });
    }

    /** A record that is not a due event is stepped over; what has expired is suppressed without the handler. */
    @Test
    void garbledAndExpired() throws Exception {
        CLIENT.schedule("java-exp", Register.in(Duration.ZERO).channel("work").expiresAfter(Duration.ofSeconds(1)));
        awaitState("java-exp", "IN_FLIGHT");
        try (KafkaProducer<String, String> p = new KafkaProducer<>(Map.of("bootstrap.servers", DEV.kafka),
                new StringSerializer(), new StringSerializer())) {
            p.send(new ProducerRecord<>("waterclock.due.work", "java-exp", "hello")).get();
        }
        Thread.sleep(1200);
        List<String> called = Collections.synchronizedList(new ArrayList<>());
        try (Running w = new Running(Worker.builder("work", e -> {
            called.add(e.triggerId());
            return Result.delivered();
        }))) {
            awaitState("java-exp", "FIRED");
            Dev.await("the record is counted", () -> w.stat("garbled") == 1);
        }
        awaitOutcomes("java-exp", List.of("suppressed"));
        assertFalse(called.contains("java-exp"));
    }

    /** The hook is called once for many events, and handlers get what it returned; if it threw, they are retried. */
    @Test
    void onBatch() {
        many("java-batch-", 0, 200, "batch");
        AtomicInteger hooks = new AtomicInteger();
        Map<String, Object> values = new ConcurrentHashMap<>();
        try (Running w = new Running(Worker.builder("batch", e -> {
            values.put(e.triggerId(), e.batch());
            return Result.delivered();
        }).concurrency(32).onBatch(events -> {
            if (hooks.incrementAndGet() == 1) {
                throw new IllegalStateException("the database is away");
            }
            return Map.of("events", events.stream().map(DueEvent::id).toList());
        }))) {
            Dev.await("the rest is handled", () -> w.stat("delivered") + w.stat("retry") >= 200);
            assertTrue(w.stat("retry") >= 1 && w.stat("retry") <= 32, "retried: " + w.stat("retry"));
        }
        assertTrue(hooks.get() >= 7 && hooks.get() <= 150, "hooks: " + hooks);
        values.forEach((id, v) -> assertTrue(((List<?>) ((Map<?, ?>) v).get("events")).stream()
                .anyMatch(x -> x.toString().startsWith(id + "@")), id));
    }

    /** A slow group takes only its share, others go on; what finds no room has the answer of overflow. */
    @Test
    void bulkheads() {
        CountDownLatch gate = new CountDownLatch(1);
        AtomicInteger atOnce = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        AtomicInteger slow = new AtomicInteger();
        Handler handler = e -> {
            if (e.triggerId().startsWith("java-slow-")) {
                most.accumulateAndGet(atOnce.incrementAndGet(), Math::max);
                gate.await();
                atOnce.decrementAndGet();
                slow.incrementAndGet();
            }
            return Result.delivered();
        };
        Bulkhead bulkhead = Bulkhead.by(e -> e.triggerId().startsWith("java-slow-") ? "slow" : e.triggerId())
                .inFlight(2).waiting(3).overflow(e -> Result.fail("busy", ""));
        many("java-slow-", 0, 12, "bulk");
        many("java-fast-", 0, 20, "bulk");
        try (Running w = new Running(Worker.builder("bulk", handler).concurrency(4).perGroup(bulkhead))) {
            for (int i = 0; i < 20; i++) {
                awaitState("java-fast-" + i, "FIRED");
            }
            Dev.await("all but 2 and 3 find no room", () -> w.stat("failed") == 7);
            assertEquals(0, slow.get());
            gate.countDown();
            Dev.await("those with room are delivered", () -> slow.get() == 5);
            Dev.await("all are answered", () -> IntStream.range(0, 12)
                    .filter(i -> CLIENT.get("java-slow-" + i).state().equals("FAILED")).count() == 7);
        }
        assertEquals(2, most.get());
    }

    /** What a worker tells its metrics; those that throw do no harm. */
    @Test
    void metrics() {
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        List<Metrics.Load> loads = Collections.synchronizedList(new ArrayList<>());
        Metrics metrics = new Metrics() {
            @Override
            public void handled(Result.Outcome outcome, String code, Duration took) {
                told.add(outcome + " " + code);
                throw new IllegalStateException("metrics that are broken do no harm");
            }

            @Override
            public void receiptWritten(Duration took) {
                told.add("receipt");
            }

            @Override
            public void load(Load load) {
                loads.add(load);
            }
        };
        Handler handler = e -> e.triggerId().equals("java-meter-0") ? Result.fail("bad_number", "")
                : Result.delivered();
        many("java-meter-", 0, 2, "meter");
        try (Running w = new Running(Worker.builder("meter", handler).metrics(metrics)
                .commitInterval(Duration.ofMillis(50)))) {
            awaitState("java-meter-0", "FAILED");
            awaitState("java-meter-1", "FIRED");
            Dev.await("all is told", () -> told.size() == 4);
            Dev.await("the load is told", () -> loads.stream().anyMatch(l -> l.assigned() > 0 && l.buffered() == 0));
        }
        assertEquals(List.of("DELIVERED ", "FAILED bad_number", "receipt", "receipt"), told.stream().sorted().toList());
    }

    /** What was known of a receipts topic that was deleted is of no use for the one of the same name. */
    @Test
    void topicMadeAnew() throws Exception {
        String topic = "anew" + System.nanoTime() + ".receipts";
        Map<String, Object> kafka = Map.of("bootstrap.servers", DEV.kafka);
        try (Admin admin = Admin.create(kafka)) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
        }
        List<Integer> renewed = new ArrayList<>();
        Loader.Sink sink = new Loader.Sink() {
            @Override
            public void take(int partition, byte[] key, byte[] value, long offset) {
                throw new AssertionError("the topic is empty");
            }

            @Override
            public void renew(int partition) {
                renewed.add(partition);
            }
        };
        try (Loader loader = new Loader(topic, kafka)) {
            assertEquals(Map.of(0, 0L, 1, 0L), loader.read(Map.of(0, 50L, 1, 0L), 100, sink, () -> false));
        }
        assertEquals(List.of(0), renewed);
    }

    /** A class that is missing on the thread that reads the memory. */
    public static final class MissingClass extends JmxReporter {
        @Override
        public void configure(Map<String, ?> configs) {
            if (Thread.currentThread().getName().equals("waterclock-load")) {
                throw new NoClassDefFoundError("com/example/Missing");
            }
            super.configure(configs);
        }
    }

    /** The thread that reads the memory lets events go. An error that ends it ends the worker too. */
    @Test
    void errorWhileReading() {
        Worker worker = Worker.builder("java-missing", e -> Result.delivered()).brokers(DEV.kafka)
                .kafka(Map.of("metric.reporters", MissingClass.class.getName())).build();
        CompletableFuture<Void> ended = CompletableFuture.runAsync(worker::run, r -> new Thread(r).start());
        ExecutionException e = assertThrows(ExecutionException.class, () -> ended.get(60, TimeUnit.SECONDS));
        Throwable root = e;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        assertEquals(NoClassDefFoundError.class, root.getClass());
    }

    @Test
    void optionsAreChecked() {
        Handler h = e -> Result.delivered();
        List<WorkerBuilder> wrong = List.of(Worker.builder("X", h), Worker.builder("a", null),
                Worker.builder("a.high", h), Worker.builder("a", h).concurrency(0), Worker.builder("a", h).memory(0),
                Worker.builder("a", h).buffer(0, 1), Worker.builder("a", h).drainTimeout(Duration.ZERO),
                Worker.builder("a", h).brokers(""), Worker.builder("a", h).group(""),
                Worker.builder("a", h).batchMax(0), Worker.builder("a", h).perGroup(Bulkhead.by(null)),
                Worker.builder("a", h).perGroup(Bulkhead.by(DueEvent::tenant).inFlight(0)));
        for (WorkerBuilder b : wrong) {
            assertTrue(assertThrows(IllegalArgumentException.class, b::build).getMessage().startsWith("worker: "));
        }
    }
}
