package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Events that tests of handlers make. */
class DueEventTest {
    @Test
    void aBuilderSetsEveryField() {
        Instant at = Instant.parse("2026-11-20T14:00:00Z");
        DueEvent e = DueEvent.builder("acme/pills").payload("{\"n\":1}").attempt(3).step(1).postponed(2).revision(7)
                .scheduled(at).fired(at.plusMillis(3)).expires(at.plusSeconds(60)).receiptBy(at.plusSeconds(90))
                .localTime("2026-11-20T09:00:00[America/New_York]").user("u_81").targetKey("u_81").high()
                .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").tracestate("v=1")
                .tags(Map.of("type", "marketing")).header("x-own", "yes").batch(42).build();
        assertEquals("acme/pills@2026-11-20T14:00:00.000Z#1", e.id());
        assertEquals("2026-11-20T14:00:00.000Z", e.occurrence());
        assertEquals(List.of("acme", "pills", "u_81", "application/json"),
                List.of(e.tenant(), e.triggerId(), e.user(), e.contentType()));
        assertEquals(List.of(3, 1, 2, 7L), List.of(e.attempt(), e.step(), e.postponed(), e.revision()));
        assertEquals(List.of(at, at.plusMillis(3), at.plusSeconds(60), at.plusSeconds(90)),
                List.of(e.scheduled(), e.fired(), e.expires(), e.receiptBy()));
        assertEquals("2026-11-20T09:00:00[America/New_York]", e.localTime());
        assertEquals("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", e.traceparent());
        assertEquals("v=1", e.tracestate());
        assertEquals(Map.of("type", "marketing"), e.tags());
        assertEquals("yes", e.header("x-own"));
        assertEquals(42, e.batch());
        assertEquals("{\"n\":1}", e.payloadText());
        assertArrayEquals("u_81".getBytes(StandardCharsets.UTF_8), e.recordKey());
        assertTrue(e.high());
    }

    @Test
    void aBuilderHasDefaultsAndMakesNewEvents() {
        DueEvent.Builder b = DueEvent.builder("pills");
        DueEvent e = b.build();
        assertEquals(List.of("default", 1, 0, 0), List.of(e.tenant(), e.attempt(), e.step(), e.payload().length));
        assertNull(e.expires());
        assertNotSame(e, b.attempt(2).build());
        assertEquals(1, e.attempt());
        assertThrows(IllegalArgumentException.class, () -> DueEvent.builder(""));
    }

    @Test
    void aHandlerIsTestedWithIt() throws Exception {
        Handler handler = e -> e.attempt() < 3 ? Result.retry() : Result.fail("gave_up", "");
        assertEquals(Result.Outcome.RETRY, Worker.call(handler, DueEvent.builder("k").attempt(2).build()).outcome());
        assertEquals(Result.Outcome.FAILED, Worker.call(handler, DueEvent.builder("k").attempt(3).build()).outcome());
    }
}
