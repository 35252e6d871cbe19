package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A redrive that takes longer than the client's time-out. */
class RedriveTest {
    private static final int LINES = 8;
    private static final String REFUSED =
            "{\"status\":422,\"code\":\"too_large\",\"detail\":\"cut\",\"trigger_id\":\"b\"}";

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final CountDownLatch left = new CountDownLatch(1); // the client has hung up
    private HttpServer server;
    private WaterclockClient client;

    @BeforeEach
    void start() throws IOException {
        server = Local.serve(threads, this::serve);
        client = WaterclockClient.builder().url("http://127.0.0.1:" + server.getAddress().getPort())
                .timeout(Duration.ofSeconds(1)).retries(0).build();
    }

    @AfterEach
    void stop() {
        server.stop(0);
        threads.shutdownNow();
    }

    /** A line each 300 ms, and one refusal between every two. */
    private void serve(HttpExchange x) throws IOException {
        try (x) {
            x.getRequestBody().readAllBytes();
            x.sendResponseHeaders(200, 0);
            OutputStream out = x.getResponseBody();
            for (int i = 1; i <= LINES; i++) {
                TimeUnit.MILLISECONDS.sleep(300);
                String line = REFUSED + "\n{\"matched\":" + 2 * LINES + ",\"redriven\":" + i + ",\"refused\":" + i
                        + ",\"done\":" + (i == LINES) + "}\n";
                out.write(line.getBytes(StandardCharsets.UTF_8));
                out.flush();
            }
        } catch (InterruptedException | IOException e) {
            left.countDown();
        }
    }

    @Test
    @Timeout(60)
    void takesLongerThanTheTimeout() {
        List<Redrive> seen = new ArrayList<>();
        Redrive end = client.redriveAll(RedriveOptions.NONE.progress(seen::add));
        assertTrue(end.done());
        assertEquals(LINES, end.redriven());
        assertEquals(LINES, seen.size());
        assertSame(end, seen.get(LINES - 1));
        for (int i = 0; i < LINES; i++) {
            assertEquals(i + 1, seen.get(i).redriven());
            assertEquals(1, seen.get(i).refusals().size()); // those since the progress before
        }
        ApiException refusal = end.refusals().get(0);
        assertInstanceOf(ApiException.TooLarge.class, refusal);
        assertEquals("b", refusal.triggerId());
        assertEquals(LINES, client.redrive("b", null).refusals().size()); // of one trigger, those of all of it
    }

    /** What the listener throws comes out as it is, and the server stops. */
    @Test
    @Timeout(60)
    void listenerStopsIt() throws InterruptedException {
        IllegalArgumentException enough = new IllegalArgumentException("enough");
        assertSame(enough, assertThrows(IllegalArgumentException.class,
                () -> client.redriveAll(RedriveOptions.NONE.progress(p -> {
                    throw enough;
                }))));
        assertTrue(left.await(30, TimeUnit.SECONDS));
    }
}
