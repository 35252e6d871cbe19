package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Answers that are longer than maxAnswer, or have no end. */
@Timeout(120)
class EndlessTest {
    private static final int MOST = 1 << 20;

    /** What is sent: first once, and then the rest, this many times. */
    private record Sent(int status, String coding, byte[] first, byte[] rest, long times) {
        Sent(int status, String first, String rest) {
            this(status, "", bytes(first), bytes(rest), Long.MAX_VALUE);
        }
    }

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final AtomicLong written = new AtomicLong();
    private volatile Sent sent;
    private HttpServer server;

    @BeforeEach
    void start() throws IOException {
        server = Local.serve(threads, this::serve);
    }

    @AfterEach
    void stop() {
        server.stop(0);
        threads.shutdownNow();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private WaterclockClient client(int most) {
        return WaterclockClient.builder().url("http://127.0.0.1:" + server.getAddress().getPort())
                .timeout(Duration.ofSeconds(30)).maxAnswer(most).build();
    }

    private void serve(HttpExchange x) throws IOException {
        Sent now = sent;
        try (x) {
            x.getRequestBody().readAllBytes();
            if (!now.coding.isEmpty()) {
                x.getResponseHeaders().set("Content-Encoding", now.coding);
            }
            x.sendResponseHeaders(now.status, 0);
            OutputStream out = x.getResponseBody();
            out.write(now.first);
            for (long i = 0; i < now.times; i++) {
                out.write(now.rest);
                written.addAndGet(now.rest.length);
            }
        } catch (IOException e) {
            // the client has hung up
        }
    }

    private static byte[] zeros(int length) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (GZIPOutputStream packer = new GZIPOutputStream(out)) {
            packer.write(new byte[length]);
        }
        return out.toByteArray();
    }

    private static void follow(WaterclockClient c) {
        try (EventStream events = c.follow("a")) {
            events.next();
        }
    }

    /** No more of an answer is held than maxAnswer says, and the rest of it is not read. */
    @Test
    void answersWithoutAnEnd() {
        String spaces = " ".repeat(1 << 16);
        String long1 = "x".repeat(10_000);
        String letter = "{\"status\":422,\"code\":\"too_large\",\"detail\":\"" + long1 + "\"}\n";
        String progress = "{\"matched\":1,\"redriven\":1,\"done\":false,\"cursor\":\"" + long1 + "\"}\n";
        Consumer<WaterclockClient> get = c -> c.get("a");
        Consumer<WaterclockClient> follow = EndlessTest::follow;
        Consumer<WaterclockClient> one = c -> c.redrive("a", null);
        Consumer<WaterclockClient> all = c -> c.redriveAll(RedriveOptions.NONE);
        record Call(Consumer<WaterclockClient> made, Sent sent) {}
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put("get", new Call(get, new Sent(200, "", spaces)));
        calls.put("get, error", new Call(get, new Sent(500, "", spaces)));
        calls.put("follow, refused", new Call(follow, new Sent(403, "", spaces)));
        calls.put("follow, line", new Call(follow, new Sent(200, "data: ", spaces)));
        calls.put("follow, lines", new Call(follow, new Sent(200, "", "data: x\n".repeat(8192))));
        calls.put("redrive, error", new Call(one, new Sent(500, "", spaces)));
        calls.put("redrive, line", new Call(one, new Sent(200, "", spaces)));
        calls.put("redrive, progress", new Call(one, new Sent(200, "", progress)));
        calls.put("redriveAll, letters", new Call(all, new Sent(200, "", letter)));
        calls.put("redriveAll, refused", new Call(all, new Sent(403, "", spaces)));
        WaterclockClient client = client(MOST);
        calls.forEach((name, call) -> {
            written.set(0);
            sent = call.sent;
            ApiException e = assertThrows(ApiException.ServerError.class, () -> call.made.accept(client), name);
            assertTrue(e.detail().contains("more than " + MOST + " bytes (maxAnswer)"), name + ": " + e.detail());
            assertEquals(call.sent.status, e.status(), name);
            assertEquals(1, e.attempts(), name);
            assertEquals(name.startsWith("redrive") && call.sent.status != 403, e.maybeApplied(), name);
            assertTrue(written.get() < 32 * MOST, () -> name + ": the server wrote " + written);
        });
    }

    /** The client decompresses nothing, and asks for nothing else: a bomb is what it is before it goes off. */
    @Test
    void bomb() throws IOException {
        sent = new Sent(200, "gzip", zeros(200 << 20), new byte[0], 0);
        ApiException e = assertThrows(ApiException.ServerError.class, () -> client(MOST).get("a"));
        assertEquals(200, e.status());
        assertEquals(1, e.attempts());
    }

    /** The bound is of an event, and of what comes up to a progress: a stream may be as long as it likes. */
    @Test
    void longStreamsOfShortEvents() {
        WaterclockClient client = client(1000);
        sent = new Sent(200, "", new byte[0], bytes(":\n\nid: 1\r\ndata: {}\n\n"), 500);
        try (EventStream events = client.follow("a")) {
            for (int i = 0; i < 500; i++) {
                assertEquals("", events.next().type());
            }
        }
        String refused = "{\"status\":422,\"code\":\"too_large\",\"detail\":\"cut\"}\n";
        String progress = "{\"matched\":1,\"redriven\":1,\"done\":false}\n";
        sent = new Sent(200, "", bytes((refused + progress).repeat(500) + progress.replace("false", "true")),
                new byte[0], 0);
        int[] refusals = {0};
        client.redriveAll(RedriveOptions.NONE.progress(p -> refusals[0] += p.refusals().size()));
        assertEquals(500, refusals[0]);
        // Of one trigger, all of it is held until its end.
        ApiException e = assertThrows(ApiException.ServerError.class, () -> client.redrive("a", null));
        assertTrue(e.detail().contains("more than 1000 bytes"), e.detail());
    }

    /** A redrive is done with its last line, whatever comes after that. */
    @Test
    void whatFollowsTheLastLine() {
        sent = new Sent(200, "{\"matched\":1,\"redriven\":1,\"done\":true}\n", "\n".repeat(1 << 16));
        assertTrue(client(1 << 30).redriveAll(RedriveOptions.NONE).done());
    }

    @Test
    void eventThatIsNoneOfTheApi() {
        sent = new Sent(200, "", bytes("data: {\n\n"), new byte[0], 0);
        ApiException e = assertThrows(ApiException.ServerError.class, () -> follow(client(MOST)));
        assertEquals(200, e.status());
        assertEquals(1, e.attempts());
        assertFalse(e.maybeApplied());
        assertThrows(IllegalArgumentException.class, () -> client(0));
    }
}
