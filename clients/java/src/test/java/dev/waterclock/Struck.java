package dev.waterclock;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * The way to a server that is killed once, by kill -9, with the first write. The client gets no answer to that. Applied:
 * once the server has answered. Otherwise the server is frozen and has the request in its hands.
 */
final class Struck implements AutoCloseable {
    private final Dev dev;
    private final boolean applied;
    private final HttpServer front;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private boolean struck;
    /** The Idempotency-Key of each write, "" without one. */
    final List<String> keys = Collections.synchronizedList(new ArrayList<>());

    Struck(Dev dev, boolean applied) throws IOException {
        this.dev = dev;
        this.applied = applied;
        front = Local.serve(threads, this::serve);
    }

    String url() {
        return "http://127.0.0.1:" + front.getAddress().getPort();
    }

    private void serve(HttpExchange x) throws IOException {
        try (x) {
            byte[] body = x.getRequestBody().readAllBytes();
            boolean write = !x.getRequestMethod().equals("GET");
            if (write) {
                String key = x.getRequestHeaders().getFirst("Idempotency-Key");
                keys.add(key == null ? "" : key);
                if (!struck) {
                    struck = true;
                    strike(x, body);
                    return; // and the connection ends without an answer
                }
            }
            HttpResponse<byte[]> r = pass(x, body).join();
            r.headers().firstValue("Content-Type").ifPresent(v -> x.getResponseHeaders().set("Content-Type", v));
            r.headers().firstValue("ETag").ifPresent(v -> x.getResponseHeaders().set("ETag", v));
            x.sendResponseHeaders(r.statusCode(), r.body().length == 0 ? -1 : r.body().length);
            x.getResponseBody().write(r.body());
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }

    private CompletableFuture<HttpResponse<byte[]>> pass(HttpExchange x, byte[] body) {
        HttpRequest.Builder b = HttpRequest.newBuilder(URI.create(dev.url() + x.getRequestURI()))
                .method(x.getRequestMethod(), BodyPublishers.ofByteArray(body));
        for (String name : List.of("Content-Type", "Idempotency-Key", "If-Match", "If-None-Match")) {
            String value = x.getRequestHeaders().getFirst(name);
            if (value != null) {
                b.header(name, value);
            }
        }
        return client.sendAsync(b.build(), BodyHandlers.ofByteArray());
    }

    private void strike(HttpExchange x, byte[] body) throws IOException, InterruptedException {
        if (applied) {
            int status = pass(x, body).join().statusCode();
            if (status != 201) {
                throw new AssertionError("status " + status);
            }
        } else {
            dev.freeze();
            CompletableFuture<HttpResponse<byte[]>> inHand = pass(x, body);
            TimeUnit.MILLISECONDS.sleep(300);
            if (inHand.isDone()) {
                throw new AssertionError("a frozen server has answered");
            }
        }
        dev.kill();
        dev.start();
    }

    @Override
    public void close() {
        front.stop(0);
        threads.shutdownNow();
    }
}
