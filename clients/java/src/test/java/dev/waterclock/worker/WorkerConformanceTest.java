package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.waterclock.Cases;
import dev.waterclock.internal.Json;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The cases of the worker: due events, receipts, and what it does with an event of which it knows receipts. */
class WorkerConformanceTest {
    private static ConsumerRecord<byte[], byte[]> record(Map<String, Object> c) {
        Map<String, Object> due = Json.object(c.get("due"));
        Cases.known(due, "key", "value", "headers");
        ConsumerRecord<byte[], byte[]> r = new ConsumerRecord<>("waterclock.due.sms", 0, 0, 0,
                TimestampType.LOG_APPEND_TIME, 0, 0, bytes(due.get("key")), bytes(due.get("value")),
                new RecordHeaders(), Optional.empty());
        Json.list(due.get("headers")).forEach(h -> r.headers().add((String) Json.list(h).get(0),
                bytes(Json.list(h).get(1))));
        return r;
    }

    private static byte[] bytes(Object text) {
        return text == null ? null : text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static DueEvent due(Map<String, Object> c) {
        try {
            return Decoder.decode(record(c), false);
        } catch (Decoder.Garbled e) {
            throw new AssertionError(e);
        }
    }

    @TestFactory
    Stream<DynamicTest> due() {
        return Cases.of("due", c -> {
            Cases.known(c, "name", "kind", "due", "event", "garbled");
            if (c.containsKey("garbled")) {
                Decoder.Garbled e = assertThrows(Decoder.Garbled.class, () -> Decoder.decode(record(c), false));
                assertEquals(c.get("garbled"), e.header);
                return;
            }
            Map<String, Object> got = fields(due(c));
            Map<String, Object> want = Json.object(c.get("event"));
            Cases.known(want, got.keySet().toArray(String[]::new));
            assertEquals(null, Cases.mismatch(want, got, "event"));
        });
    }

    private static Map<String, Object> fields(DueEvent e) {
        List<Object> headers = new ArrayList<>();
        e.headers().forEach(h -> headers.add(List.of(h.name(), h.text())));
        Map<String, Object> m = new HashMap<>();
        m.put("id", e.id());
        m.put("key", e.key());
        m.put("tenant", e.tenant());
        m.put("trigger_id", e.triggerId());
        m.put("occurrence", e.occurrence());
        m.put("step", e.step());
        m.put("attempt", e.attempt());
        m.put("postponed", e.postponed());
        m.put("revision", e.revision());
        m.put("scheduled", instant(e.scheduled()));
        m.put("fired", instant(e.fired()));
        m.put("expires", instant(e.expires()));
        m.put("receipt_by", instant(e.receiptBy()));
        m.put("local_time", e.localTime());
        m.put("user", e.user());
        m.put("source", e.source());
        m.put("basis", e.basis());
        m.put("content_type", e.contentType());
        m.put("payload", e.payloadText());
        m.put("traceparent", e.traceparent());
        m.put("tracestate", e.tracestate());
        m.put("record_key", new String(e.recordKey(), StandardCharsets.UTF_8));
        m.put("tags", e.tags());
        m.put("headers", headers);
        return m;
    }

    private static String instant(Instant at) {
        return at == null ? null : at.toString();
    }

    /** What the handler of a case does. */
    private static Handler handler(Map<String, Object> result) {
        Cases.known(result, "outcome", "after_ms", "code", "detail", "throws", "panics", "none");
        return e -> {
            if (result.containsKey("throws")) {
                throw new IllegalStateException((String) result.get("throws"));
            }
            if (result.containsKey("panics")) {
                throw new StackOverflowError((String) result.get("panics"));
            }
            if (result.containsKey("none")) {
                return null;
            }
            double ms = result.get("after_ms") instanceof Number n ? n.doubleValue() : 0;
            return new Result(Result.Outcome.of((String) result.get("outcome")), Duration.ofNanos((long) (ms * 1e6)),
                    Json.text(result, "code"), Json.text(result, "detail"));
        };
    }

    @TestFactory
    Stream<DynamicTest> receipt() {
        return Cases.of("receipt", c -> {
            Cases.known(c, "name", "kind", "channel", "now", "due", "result", "record");
            DueEvent e = due(c);
            Result result = Worker.call(handler(Json.object(c.get("result"))), e);
            Map<String, Object> got = Json.object(Json.read(Receipts.write(e, (String) c.get("channel"), result,
                    Instant.parse((String) c.get("now")))));
            Map<String, Object> want = Json.object(c.get("record"));
            assertEquals(want.get("key"), e.key());
            assertEquals(List.of(), want.get("headers"));
            assertEquals(null, Cases.mismatch(want.get("value"), got, "receipt"));
            assertEquals(Json.object(want.get("value")).keySet(), got.keySet());
        });
    }

    @TestFactory
    Stream<DynamicTest> memory() {
        return Cases.of("memory", c -> {
            Cases.known(c, "name", "kind", "channel", "now", "receipts", "due", "do", "reason");
            Memory memory = new Memory(100);
            long offset = -1;
            for (Object raw : Json.list(c.get("receipts"))) {
                offset++;
                Map<String, Object> r = Json.object(raw);
                Object value = r.get("value");
                Receipts.Seen seen = Receipts.read((String) c.get("channel"), bytes(r.get("key")),
                        bytes(value instanceof String s ? s : Json.write(value)));
                if (seen != null) {
                    memory.add(seen.dueId(), seen.outcome(), seen.attempt(), seen.postponed(), offset);
                }
            }
            DueEvent e = due(c);
            long now = Instant.parse((String) c.get("now")).toEpochMilli();
            String reason = State.skipReason(memory, e, now);
            String does = reason != null ? "skip" : State.expired(e, now) ? "expire" : "handle";
            assertEquals(c.get("do"), does);
            assertEquals(c.get("reason"), reason);
        });
    }
}
