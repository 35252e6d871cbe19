package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.waterclock.internal.Json;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Every case of clients/conformance/cases.jsonl but those of the worker, which are in WorkerConformanceTest. */
class ConformanceTest {
    /** Why the result is not the expected one; null if it is. */
    private static String outcome(Supplier<Object> call, Map<String, Object> c, Map<String, Object> names,
            List<Object> result) {
        try {
            Object got = call.get();
            result.add(got);
            if (c.containsKey("error")) {
                return "nothing was thrown; it gave " + got;
            }
            return c.containsKey("expect") ? Cases.mismatch(Cases.fill(c.get("expect"), names), got, "result") : null;
        } catch (ApiException e) {
            if (!c.containsKey("error")) {
                return "thrown: " + Calls.error(e);
            }
            return Cases.mismatch(Cases.fill(c.get("error"), names), Calls.error(e), "error");
        }
    }

    @TestFactory
    Stream<DynamicTest> http() {
        return Cases.of("http", c -> {
            for (int i = 0; i < 6; i++) {
                if (steps(c)) {
                    return;
                }
            }
            fail("the server has not decided a write in six rounds");
        });
    }

    /** False if a write was not decided at once: the case begins anew. */
    private static boolean steps(Map<String, Object> c) {
        Cases.known(c, "name", "kind", "steps");
        Map<String, Object> names = new LinkedHashMap<>(Dev.NAMES);
        names.put("run", "j" + Long.toString(new SecureRandom().nextLong() >>> 12, 36));
        WaterclockClient client = WaterclockClient.of(Dev.shared().url());
        int i = 0;
        for (Object s : Json.list(c.get("steps"))) {
            Map<String, Object> step = Json.object(s);
            Cases.known(step, "call", "args", "via", "expect", "error", "eventually", "save");
            if (!step(client, step, names, "step " + i++ + ", " + step.get("call") + ": ")) {
                return false;
            }
        }
        return true;
    }

    private static boolean step(WaterclockClient client, Map<String, Object> step, Map<String, Object> names,
            String at) {
        Object args = Cases.fill(step.get("args"), names);
        String name = (String) step.get("call");
        long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (true) {
            List<Object> result = new ArrayList<>();
            String wrong = outcome(() -> "kafka".equals(step.get("via"))
                    ? Calls.command(KAFKA.get(), name, new Calls.Args(args))
                    : Calls.http(client, name, args), step, names, result);
            Object got = result.isEmpty() ? null : result.get(0);
            boolean async = Json.object(args).containsKey("async");
            if (!async && got instanceof Map<?, ?> m && Boolean.FALSE.equals(m.get("decided"))) {
                return false;
            }
            if (wrong == null) {
                if (step.containsKey("save")) {
                    Json.object(step.get("save")).forEach((n, field) -> names.put("saved." + n,
                            Json.object(got).get(field)));
                }
                return true;
            }
            if (!step.containsKey("eventually") || System.nanoTime() - end > 0) {
                fail(at + wrong);
            }
        }
    }

    private static final Supplier<KafkaClient> KAFKA = new Supplier<>() {
        private KafkaClient client;

        @Override
        public synchronized KafkaClient get() {
            if (client == null) {
                client = KafkaClient.builder().brokers(Dev.shared().kafka).build();
            }
            return client;
        }
    };

    @TestFactory
    Stream<DynamicTest> wire() {
        return Cases.of("wire", c -> {
            try {
                wire(c);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    private static void wire(Map<String, Object> c) throws IOException {
        Cases.known(c, "name", "kind", "call", "args", "script", "client", "expect", "error", "min_elapsed_ms");
        Map<String, Object> names = new LinkedHashMap<>(Dev.NAMES);
        names.put("run", "r");
        Map<String, Object> options = c.containsKey("client") ? Json.object(c.get("client")) : Map.of();
        Cases.known(options, "token", "base_path", "retries", "max_wait_ms");
        try (Script script = new Script(Json.list(c.get("script")), names)) {
            WaterclockClient.Builder b = WaterclockClient.builder().backoff(Duration.ofMillis(1))
                    .url(script.url() + Json.text(options, "base_path"));
            if (options.containsKey("token")) {
                b.token((String) options.get("token"));
            }
            if (options.containsKey("retries")) {
                b.retries((int) Json.integer(options, "retries"));
            }
            if (options.containsKey("max_wait_ms")) {
                b.maxWait(Duration.ofMillis(Json.integer(options, "max_wait_ms")));
            }
            WaterclockClient client = b.build();
            long begin = System.nanoTime();
            Object args = Cases.fill(c.get("args"), names);
            String wrong = outcome(() -> Calls.http(client, (String) c.get("call"), args), c, names,
                    new ArrayList<>());
            long elapsed = (System.nanoTime() - begin) / 1_000_000;
            assertEquals(List.of(), script.wrong);
            assertEquals(null, wrong);
            assertEquals(Json.list(c.get("script")).size(), script.played, "requests");
            assertTrue(elapsed >= Json.integer(c, "min_elapsed_ms"), "it took " + elapsed + " ms");
        }
    }

    @TestFactory
    Stream<DynamicTest> command() {
        Map<String, KafkaClient> clients = new HashMap<>();
        return Cases.of("command", c -> {
            Cases.known(c, "name", "kind", "call", "args", "tenant", "record", "error");
            KafkaClient client = clients.computeIfAbsent((String) c.get("tenant"),
                    t -> KafkaClient.builder().brokers("127.0.0.1:1").tenant(t).build());
            List<ProducerRecord<byte[], byte[]>> made = new ArrayList<>();
            Commands<Object> recorder = command -> {
                made.add(client.record(command));
                return made;
            };
            String wrong = outcome(() -> Calls.command(recorder, (String) c.get("call"), new Calls.Args(c.get("args"))),
                    c, Map.of(), new ArrayList<>());
            assertEquals(null, wrong);
            if (!c.containsKey("error")) {
                sameRecord(Json.object(c.get("record")), made.get(0));
            }
        });
    }

    private static void sameRecord(Map<String, Object> want, ProducerRecord<byte[], byte[]> got) {
        Cases.known(want, "topic", "key", "headers", "value", "partitions", "partition");
        assertEquals(want.get("topic"), got.topic());
        assertArrayEquals(want.get("key").toString().getBytes(StandardCharsets.UTF_8), got.key());
        List<Object> headers = new ArrayList<>();
        got.headers().forEach(h -> headers.add(List.of(h.key(), new String(h.value(), StandardCharsets.UTF_8))));
        assertEquals(want.get("headers"), headers);
        assertEquals(want.get("value"), Json.read(got.value()));
        int partitions = (int) Json.integer(want, "partitions");
        assertEquals(null, got.partition(), "Kafka's own partitioner chooses");
        assertEquals(Json.integer(want, "partition"), Utils.toPositive(Utils.murmur2(got.key())) % partitions);
    }

    @TestFactory
    Stream<DynamicTest> signature() {
        return Cases.of("signature", c -> {
            Cases.known(c, "name", "kind", "secrets", "headers", "body", "body_base64", "now", "tolerance_seconds",
                    "ok", "error", "reads");
            byte[] body = c.containsKey("body_base64") ? Base64.getDecoder().decode((String) c.get("body_base64"))
                    : c.get("body").toString().getBytes(StandardCharsets.UTF_8);
            Map<String, String> headers = new LinkedHashMap<>();
            Json.object(c.get("headers")).forEach((k, v) -> headers.put(k, v.toString()));
            Clock clock = Clock.fixed(Instant.ofEpochSecond(Json.integer(c, "now")), ZoneOffset.UTC);
            Duration tolerance = Duration.ofSeconds(Json.integer(c, "tolerance_seconds"));
            String[] secrets = Json.list(c.get("secrets")).toArray(String[]::new);
            if (c.containsKey("error")) {
                BadSignatureException e = assertThrows(BadSignatureException.class,
                        () -> new WebhookVerifier(tolerance, clock, secrets).verify(headers, body));
                assertEquals(c.get("error"), e.reason());
                return;
            }
            assertEquals(true, c.get("ok"));
            String id = new WebhookVerifier(tolerance, clock, secrets).verify(headers, body);
            assertTrue(headers.containsValue(id) && !id.isEmpty());
            if (c.containsKey("reads")) {
                checkRead(Json.object(c.get("reads")),
                        new WebhookVerifier(tolerance, clock, secrets).read(headers, body), body);
            }
        });
    }

    /** What a verified webhook is read as. */
    private static void checkRead(Map<String, Object> want, WebhookVerifier.Webhook got, byte[] body) {
        Cases.known(want, "trigger_id", "attempt", "payload", "payload_base64", "raw");
        assertEquals(want.get("trigger_id"), got.triggerId());
        assertEquals(want.containsKey("attempt") ? Json.integer(want, "attempt") : 1, got.attempt());
        byte[] bytes = want.get("payload_base64") instanceof String s ? Base64.getDecoder().decode(s) : null;
        assertArrayEquals(want.containsKey("raw") ? body : bytes, got.bytes());
        assertEquals(want.get("payload"), got.payload());
    }
}
