package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waterclock.internal.Json;
import dev.waterclock.worker.DueEvent;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the conformance file cannot say: a server that is killed, values of Java, dead letters. */
class ClientTest {
    /** kill -9 while calls are under way: each call makes one trigger, however often it was sent. */
    @Test
    @Timeout(120)
    void serverKilledInMidCall() throws Exception {
        int n = 60;
        try (Dev dev = new Dev()) {
            dev.start();
            WaterclockClient patient = WaterclockClient.builder().url(dev.url()).retries(200)
                    .backoff(Duration.ofMillis(20)).build();
            Set<String> made = new HashSet<>();
            CountDownLatch begun = new CountDownLatch(10);
            CompletableFuture<Void> calls = CompletableFuture.runAsync(() -> {
                for (int i = 0; i < n; i++) {
                    made.add(patient.schedule(Register.in(Duration.ofHours(1)).userId("u_kill")).triggerId());
                    begun.countDown();
                }
            });
            assertTrue(begun.await(60, TimeUnit.SECONDS));
            dev.kill();
            dev.start();
            calls.get(90, TimeUnit.SECONDS);
            Set<String> found = new HashSet<>();
            patient.listAll(new Filter().userId("u_kill")).forEach(t -> found.add(t.triggerId()));
            assertEquals(made, found);
            assertEquals(n, found.size());

            dev.kill();
            WaterclockClient hasty = WaterclockClient.builder().url(dev.url()).retries(1)
                    .backoff(Duration.ofMillis(1)).build();
            ApiException e = assertThrows(ApiException.Unavailable.class, () -> hasty.run("a"));
            assertEquals(0, e.status());
            assertEquals(2, e.attempts());
            assertFalse(e.maybeApplied(), "nobody was there");
        }
    }

    /** Dies with a write in its hands, applied or not: the client sends it once more with the same key. */
    @Test
    @Timeout(120)
    void oneCallOutlivesItsServer() throws Exception {
        for (boolean applied : new boolean[] {true, false}) {
            for (String given : new String[] {"", "order-77"}) {
                try (Dev dev = new Dev(); Struck way = new Struck(dev, applied)) {
                    dev.start();
                    WaterclockClient c = WaterclockClient.builder().url(way.url()).retries(200)
                            .backoff(Duration.ofMillis(20)).build();
                    Register r = Register.in(Duration.ofHours(1)).payload(Map.of("holdId", "h_8c4"));
                    Answer made = c.schedule(r, given.isEmpty() ? Options.NONE : Options.NONE.idempotencyKey(given));
                    String what = "applied " + applied + ", key " + given + ": " + way.keys;
                    assertTrue(way.keys.size() >= 2, what);
                    assertEquals(1, new HashSet<>(way.keys).size(), what);
                    assertFalse(way.keys.get(0).isEmpty(), what);
                    assertTrue(given.isEmpty() || given.equals(way.keys.get(0)), what);
                    assertEquals(!applied, made.created(), what);
                    assertAppliedOnce(c, made.triggerId());
                }
            }
        }
    }

    private static void assertAppliedOnce(WaterclockClient c, String id) {
        Dev.await("it is decided", () -> {
            try {
                return c.get(id).state().equals("PENDING");
            } catch (ApiException.NotFound e) {
                return false;
            }
        });
        List<String> types = new ArrayList<>();
        Dev.await("the history has it", () -> {
            types.clear();
            c.events(id).forEach(e -> types.add(e.type()));
            return types.contains("trigger.registered");
        });
        assertEquals(1, types.stream().filter("trigger.registered"::equals).count(), () -> "events " + types);
        assertFalse(types.contains("trigger.replaced"), () -> "events " + types);
        assertEquals(1, c.get(id).revision());
    }

    @Test
    void brokersAreAway() {
        try (KafkaClient client = KafkaClient.builder().brokers("127.0.0.1:1").timeout(Duration.ofMillis(300))
                .build()) {
            ApiException e = assertThrows(ApiException.Unavailable.class, () -> client.cancel("a"));
            assertEquals(0, e.status());
            assertTrue(e.maybeApplied());
        }
    }

    record Title(String title, int priority) {}

    record Bill(BigDecimal amount, BigInteger id, double rate) {}

    @Test
    void valuesOfJava() {
        Register r = Register.in(Duration.ofMinutes(7)).payload(new Title("Ü<&>", 3)).jitter(Duration.ofMillis(1500))
                .set("exclude", List.of(LocalDate.of(2060, 1, 5), Instant.parse("2060-01-05T09:00:00Z")));
        assertEquals("{\"delay\":\"7m\",\"payload\":{\"title\":\"Ü<&>\",\"priority\":3},\"jitter\":\"1500ms\","
                + "\"exclude\":[\"2060-01-05\",\"2060-01-05T09:00:00Z\"]}", Json.write(r.fields));
        String exact = "{ \"n\": 1.10, \"big\": 12345678901234567890 }";
        assertEquals("{\"payload\":" + exact + "}", Json.write(new Register().payloadJson(exact).fields));
        assertEquals("invalid", assertThrows(ApiException.InvalidRequest.class,
                () -> new Register().payloadJson("{a:1}")).code());
        ApiException e = assertThrows(ApiException.InvalidRequest.class,
                () -> WaterclockClient.of("http://127.0.0.1:1").schedule(new Register().payload(Double.NaN)));
        assertEquals("payload", e.field());
        assertEquals("AP8=", new Register().payloadBytes(new byte[] {0, -1}).fields.get("payload_base64"));
        assertEquals("2d", Json.read(Json.write(Duration.ofDays(2))));
    }

    /** A map that has no order of its own is written in one: a program that starts anew sends the same content. */
    @Test
    void payloadOfAnyOrder() {
        Map<String, Object> values = Map.of("seat", "4", "holdId", "h_8c4", "at", Map.of("y", 2, "x", 1));
        for (List<String> keys : List.of(List.of("seat", "holdId", "at"), List.of("at", "holdId", "seat"))) {
            Map<String, Object> map = new AbstractMap<>() {
                @Override
                public Set<Entry<String, Object>> entrySet() {
                    Set<Entry<String, Object>> all = new LinkedHashSet<>();
                    keys.forEach(key -> all.add(Map.entry(key, values.get(key))));
                    return all;
                }
            };
            assertEquals("{\"payload\":{\"at\":{\"x\":1,\"y\":2},\"holdId\":\"h_8c4\",\"seat\":\"4\"}}",
                    Json.write(new Register().payload(map).fields));
        }
    }

    record Seats(Map<String, Object> byRow, Set<String> free, Collection<Title> titles) {}

    /** So are maps and sets within records, lists and arrays, unless they have an order. */
    @Test
    void payloadOfAnyOrderWithin() {
        for (List<String> keys : List.of(List.of("b", "a", "c"), List.of("c", "b", "a"))) {
            Map<String, Object> rows = new LinkedHashMap<>();
            Set<Title> titles = new LinkedHashSet<>();
            keys.forEach(key -> rows.put(key, key.hashCode()));
            keys.forEach(key -> titles.add(new Title(key, 1)));
            Seats seats = new Seats(view(rows), view(rows).keySet(), Collections.unmodifiableSet(titles));
            String want = "{\"byRow\":{\"a\":97,\"b\":98,\"c\":99},\"free\":[\"a\",\"b\",\"c\"],\"titles\":["
                    + "{\"title\":\"a\",\"priority\":1},{\"title\":\"b\",\"priority\":1},"
                    + "{\"title\":\"c\",\"priority\":1}]}";
            assertEquals(want, Json.write(seats));
            assertEquals("[" + want + "]", Json.write(new Object[] {seats}));
            assertEquals("{\"x\":[[\"a\",\"b\",\"c\"]]}", Json.write(Map.of("x", List.of(Collections.unmodifiableSet(
                    rows.keySet())))));
        }
        Set<String> own = new LinkedHashSet<>(List.of("b", "a"));
        assertEquals("{\"byRow\":{\"b\":1,\"a\":2},\"free\":[\"b\",\"a\"],\"titles\":null}",
                Json.write(new Seats(new LinkedHashMap<>(Json.object(Json.read("{\"b\":1,\"a\":2}"))), own, null)));
        assertEquals("[1,null]", Json.write(new HashSet<>(Arrays.asList(null, 1))));
    }

    private static Map<String, Object> view(Map<String, Object> of) {
        return new AbstractMap<>() {
            @Override
            public Set<Entry<String, Object>> entrySet() {
                return of.entrySet();
            }
        };
    }

    /** A line of a batch has no line break, and else what was given. */
    @Test
    void payloadOfALine() {
        String json = "{\n \"amount\": 1.10,\r\n \"rate\": 0.12345678901234567890, \"e\": [1E2, -0],\r\"t\": \"\\n\"}";
        assertEquals("{\"id\":\"a\",\"payload\":" + json.replace('\n', ' ').replace('\r', ' ') + "}",
                WaterclockClient.line(Command.schedule("a", new Register().payloadJson(json), Options.NONE)));
    }

    /** What is written is read back as it was: numbers of any size, a class, bytes. */
    @Test
    void payloadRoundTrip() {
        WaterclockClient c = WaterclockClient.of(Dev.shared().url());
        c.schedule("java-payload", Register.in(Duration.ofHours(1)).payload(new Title("Take pills", 2)));
        assertEquals(new Title("Take pills", 2), c.get("java-payload").payload(Title.class));
        Bill bill = new Bill(new BigDecimal("1.10"), new BigInteger("12345678901234567890"), 0.5);
        c.schedule("java-payload", Register.in(Duration.ofHours(1)).payload(bill));
        assertEquals(bill, c.get("java-payload").payload(Bill.class));
        String digits = "{\"amount\":1.10,\"e\":1E-400,\"id\":12345678901234567890,\"rate\":0.12345678901234567890}";
        c.schedule("java-payload", Register.in(Duration.ofHours(1)).payloadJson(digits));
        assertEquals(digits, Json.write(c.get("java-payload").payload()));
        Object handled = DueEvent.of("a@o#0", digits).payload(Object.class);
        assertEquals(c.get("java-payload").payload(), handled);
        assertEquals(new BigDecimal("1.10"), Json.object(handled).get("amount"));
        assertEquals(0.0, Json.read("1e-9999999999")); // beyond a BigDecimal
        c.schedule("java-payload", Register.in(Duration.ofHours(1)).payloadBytes(new byte[] {0, -1}));
        assertArrayEquals(new byte[] {0, -1}, c.get("java-payload").payloadBytes());
        assertNull(c.get("java-payload").payload());
    }

    @Test
    void optionsThatDoNotFitAreRefused() {
        WaterclockClient c = WaterclockClient.of("http://127.0.0.1:1");
        Map<String, Runnable> calls = new HashMap<>();
        calls.put("idempotency_key", () -> c.cancel("a", Options.NONE.idempotencyKey("k")));
        calls.put("if_absent", () -> c.run("a", Options.NONE.ifAbsent()));
        calls.put("correlation_id", () -> c.cancel("a", Options.NONE.correlationId("c")));
        calls.put("channel", () -> c.redrive(new DeadLetterFilter().channel(""), 10, null)); // not of all channels
        calls.put("user_id", () -> c.list(new Filter().userId("")));
        calls.put("if_revision", () -> c.cancel("a", Options.NONE.ifRevision(0))); // that of a write not decided
        Options traced = Options.NONE.recordHeader("traceparent", "00-1");
        calls.put("record_headers", () -> c.batch(List.of(Command.cancel("a", traced))));
        calls.put("async", () -> c.batch(List.of(Command.cancel("a", Options.NONE.async()),
                Command.cancel("b", Options.NONE)))); // one answer waits for all, or for none
        calls.put("", () -> c.redrive(new DeadLetterFilter(), 10, null));
        calls.forEach((field, call) -> {
            ApiException e = assertThrows(ApiException.InvalidRequest.class, call::run);
            assertEquals(field, e.field());
            assertEquals(0, e.attempts());
        });
        assertEquals("", new DeadLetterFilter().cursor("").query.toString()); // the first page
        List<Command> many = Collections.nCopies(10_001, Command.cancel("a", Options.NONE));
        assertEquals(0, assertThrows(ApiException.TooLarge.class, () -> c.batch(many)).attempts());
        assertThrows(IllegalArgumentException.class, () -> WaterclockClient.builder().retries(-1).build());
    }

    /** Erase by HTTP and by Kafka: the content is gone. */
    @Test
    @Timeout(60)
    void erase() {
        WaterclockClient c = WaterclockClient.of(Dev.shared().url());
        Register r = Register.in(Duration.ofHours(1)).payload("secret");
        c.schedule("java-erase-1", r);
        c.erase("java-erase-1");
        c.schedule("java-erase-2", r);
        try (KafkaClient kafka = KafkaClient.builder().brokers(Dev.shared().kafka).build()) {
            kafka.erase("java-erase-2");
        }
        for (String id : List.of("java-erase-1", "java-erase-2")) {
            Dev.await(id + " is erased", () -> {
                try {
                    return c.get(id).payload() == null;
                } catch (ApiException.NotFound e) {
                    return true;
                }
            });
        }
    }

    @Test
    void receive() throws Exception {
        byte[] key = "k".repeat(24).getBytes(StandardCharsets.UTF_8);
        WebhookVerifier v = new WebhookVerifier("whsec_" + Base64.getEncoder().encodeToString(key));
        byte[] body = "{\"triggerId\":\"hold-1\",\"payload\":{\"a\":1}}".getBytes(StandardCharsets.UTF_8);
        WebhookVerifier.Webhook got = v.read(signed(key, body), body);
        assertEquals("m1", got.id());
        assertEquals("hold-1", got.triggerId());
        assertEquals(2, got.attempt());
        assertEquals(Map.of("a", 1L), got.payload());
        body = "{\"triggerId\":\"hold-1\",\"payload_base64\":\"AP8=\"}".getBytes(StandardCharsets.UTF_8);
        assertArrayEquals(new byte[] {0, -1}, v.read(signed(key, body), body).bytes());
        body = "raw".getBytes(StandardCharsets.UTF_8);
        got = v.read(signed(key, body)::get, body);
        assertEquals("hold-1", got.triggerId());
        assertArrayEquals(body, got.bytes());
        byte[] other = "raw!".getBytes(StandardCharsets.UTF_8);
        Map<String, String> headers = signed(key, body);
        assertEquals("no_match", assertThrows(BadSignatureException.class, () -> v.read(headers, other)).reason());
    }

    private static Map<String, String> signed(byte[] key, byte[] body) throws Exception {
        long now = Instant.now().getEpochSecond();
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update(("m1." + now + ".").getBytes(StandardCharsets.UTF_8));
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("webhook-id", "m1");
        headers.put("webhook-timestamp", Long.toString(now));
        headers.put("webhook-signature", "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body)));
        headers.put("X-Trigger-Id", "hold%2D1");
        headers.put("X-Trigger-Attempt", "2");
        return headers;
    }
}
