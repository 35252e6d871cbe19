package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waterclock.Command;
import dev.waterclock.Dev;
import dev.waterclock.Options;
import dev.waterclock.Register;
import dev.waterclock.WaterclockClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Two worker processes on real Kafka brokers. WATERCLOCK_TEST_KAFKA names them; test/java does. */
@EnabledIfEnvironmentVariable(named = "WATERCLOCK_TEST_KAFKA", matches = ".+")
class KafkaTest {
    private static final String BROKERS = System.getenv("WATERCLOCK_TEST_KAFKA");
    private static final int N = 60;

    private final String prefix = "java" + Long.toHexString(System.nanoTime()) + ".";

    /** Killed between work and receipt: its events come to the other one, and each has its receipt. */
    @Test
    void oneOfTwoWorkersKilled(@TempDir Path dir) throws Exception {
        List<Process> workers = new ArrayList<>();
        String died;
        try (Dev engine = Dev.serve(BROKERS, prefix, "channels.kill.receipts=true",
                "channels.kill.receipt_timeout=10m")) {
            Path one = Files.createFile(dir.resolve("calls-0"));
            Path two = Files.createFile(dir.resolve("calls-1"));
            workers.add(begin(one, "die"));
            workers.add(begin(two));
            WaterclockClient client = WaterclockClient.of(engine.url());
            assertTrue(client.batch(IntStream.range(0, N).mapToObj(i -> Command.schedule("kill-" + i,
                    Register.in(Duration.ZERO).channel("kill"), Options.NONE)).toList()).stream()
                    .allMatch(r -> r.ok()));
            assertTrue(workers.get(0).waitFor(2, TimeUnit.MINUTES));
            assertEquals(137, workers.get(0).exitValue());
            for (int i = 0; i < N; i++) {
                String id = "kill-" + i;
                Dev.await(id + " is delivered", () -> client.get(id).state().equals("FIRED"));
            }
            workers.get(1).destroy(); // SIGTERM: it drains
            assertTrue(workers.get(1).waitFor(1, TimeUnit.MINUTES));
            check(Files.readAllLines(one), Files.readAllLines(two));
            died = Files.readAllLines(one).get(9).split(" ")[0];
        } finally {
            workers.forEach(Process::destroyForcibly);
        }
        Map<String, Integer> receipts = ReceiptLog.of(BROKERS, prefix, "kill", N);
        assertEquals(N, receipts.size());
        assertEquals(1, receipts.get(died), "the receipt of what was worked on twice is there once");
        assertTrue(receipts.values().stream().mapToInt(n -> n).sum() <= N + 4, "receipts: " + receipts);
    }

    private Process begin(Path calls, String... more) throws Exception {
        List<String> args = new ArrayList<>(List.of(BROKERS, prefix, "kill", calls.toString(), "10000"));
        args.addAll(List.of(more));
        Process p = Dev.java(WorkerProcess.class, args.toArray(String[]::new)).start();
        Dev.await("it has partitions", () -> Files.exists(Path.of(calls + ".ready")));
        return p;
    }

    private static void check(List<String> first, List<String> second) {
        Set<String> all = new HashSet<>(first);
        all.addAll(second);
        assertEquals(N, all.size(), "each occurrence was handled");
        assertEquals(10, first.size());
        assertTrue(second.contains(first.get(9)), "what was worked on and not answered comes to the other worker");
        assertEquals(second.size(), new HashSet<>(second).size(), "the second one handles nothing twice");
        Set<String> both = new HashSet<>(first);
        both.retainAll(second);
        assertTrue(both.size() <= 4, "at most what was in hand when it died is handled twice: " + both);
    }
}
