package dev.waterclock;

import dev.waterclock.internal.Json;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;

/** Sends requests, and sends them again where that is safe. */
final class Http {
    private static final int MAX_TEXT = 200;

    final String base;
    final Duration timeout;
    private final HttpClient client;
    private final Map<String, String> headers;
    private final int retries;
    private final Duration backoff;
    private final Duration maxWait;
    private final int maxAnswer;

    Http(WaterclockClient.Builder b) {
        base = b.url.replaceAll("/+$", "");
        timeout = b.timeout;
        client = b.client != null ? b.client : HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(b.timeout)
                .build();
        headers = Map.copyOf(b.headers);
        retries = b.retries;
        backoff = b.backoff;
        maxWait = b.maxWait;
        maxAnswer = b.maxAnswer;
    }

    /** A request. Safe: a second one does no harm. */
    static final class Request {
        final String method;
        final String path;
        final Map<String, String> headers = new LinkedHashMap<>();
        byte[] body;
        boolean safe = true;
        boolean write = true;

        Request(String method, String path) {
            this.method = method;
            this.path = path;
        }

        static Request get(String path) {
            Request r = new Request("GET", path);
            r.write = false;
            return r;
        }

        Request json(Object v) {
            return body(spell(v), "application/json");
        }

        Request body(String text, String type) {
            body = text.getBytes(StandardCharsets.UTF_8);
            headers.put("Content-Type", type);
            return this;
        }

        /** The JSON of a value; a value that has none is refused. */
        static String spell(Object v) {
            try {
                return Json.write(v);
            } catch (IllegalArgumentException e) {
                throw ApiException.refuse("invalid", "payload", e.getMessage());
            }
        }
    }

    /** Reads an answer; what it throws says that the answer is none of the API's. */
    interface Reader<T> {
        T read(HttpResponse<byte[]> response);
    }

    <T> T send(Request request, Reader<T> reader) {
        return send(request, reader, result -> List.of());
    }

    /** As above; refusals are the parts of the result that are errors. */
    <T> T send(Request request, Reader<T> reader, Function<T, List<ApiException>> refusals) {
        Attempts attempts = new Attempts(request);
        while (true) {
            Duration wait;
            try {
                HttpResponse<byte[]> response = begin(request, answer -> new Bounded(maxAnswer));
                wait = attempts.answered(response, response.body());
                if (wait == null) {
                    T result = attempts.read(() -> reader.read(response));
                    refusals.apply(result).forEach(attempts::note);
                    return result;
                }
            } catch (IOException e) {
                wait = attempts.failed(e);
            }
            attempts.pause(wait);
        }
    }

    /** Reads an answer while it comes. */
    interface Streamed<T> {
        T read(Body body, Attempts attempts);
    }

    /** The answer may take as long as it likes. Once it has begun, the request is not repeated. */
    <T> T stream(Request request, Streamed<T> reader) {
        Attempts attempts = new Attempts(request);
        while (true) {
            Duration wait;
            Body body = body();
            try {
                HttpResponse<Flow.Publisher<List<ByteBuffer>>> response = begin(request, BodyHandlers.ofPublisher());
                response.body().subscribe(body);
                wait = attempts.answered(response,
                        response.statusCode() / 100 == 2 ? new byte[0] : body.all(timeout));
                if (wait == null) {
                    return reader.read(body, attempts);
                }
            } catch (IOException e) {
                wait = attempts.failed(e);
            } finally {
                body.cancel();
            }
            attempts.pause(wait);
        }
    }

    /** The body of an answer that is read while it comes. */
    Body body() {
        return new Body(maxAnswer);
    }

    static IllegalArgumentException tooLong(int most) {
        return new IllegalArgumentException("it has more than " + most + " bytes (maxAnswer)");
    }

    /** One attempt. */
    <B> HttpResponse<B> begin(Request request, BodyHandler<B> handler) throws IOException {
        AtomicBoolean once = new AtomicBoolean();
        CompletableFuture<HttpResponse<B>> sent = client.sendAsync(build(request, once), handler);
        try {
            return sent.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            sent.cancel(true);
            throw new IOException("no answer within " + timeout, e);
        } catch (InterruptedException e) {
            sent.cancel(true);
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException io) {
                throw io;
            }
            throw new IOException(e.getCause());
        }
    }

    private HttpRequest build(Request request, AtomicBoolean once) {
        HttpRequest.Builder b = HttpRequest.newBuilder(URI.create(base + request.path)).timeout(timeout);
        try {
            headers.forEach(b::setHeader);
            request.headers.forEach(b::setHeader);
        } catch (IllegalArgumentException e) {
            throw ApiException.refuse("invalid", "", e.getMessage());
        }
        if (!request.headers.containsKey("Accept")) {
            b.setHeader("Accept", "application/json, application/problem+json");
        }
        return b.method(request.method, request.body != null ? BodyPublishers.ofByteArray(request.body)
                : new Empty(once)).build();
    }

    /**
     * No body, sent once. HttpClient sends a GET a second time by itself if the connection ends before an answer; that
     * attempt would neither be counted nor asked for.
     */
    private record Empty(AtomicBoolean once) implements BodyPublisher {
        @Override
        public long contentLength() {
            if (once.getAndSet(true)) {
                throw new IllegalStateException("the connection ended before an answer");
            }
            return 0;
        }

        @Override
        public void subscribe(Flow.Subscriber<? super ByteBuffer> subscriber) {
            BodyPublishers.noBody().subscribe(subscriber);
        }
    }

    /** What to do with what came of each attempt of one request. */
    final class Attempts {
        private final Request request;
        private int sent;
        private int status; // of the last answer
        private boolean maybeApplied;

        Attempts(Request request) {
            this.request = request;
        }

        /**
         * How long to wait before the next attempt; null: the answer counts. Throws what is not repeated. A body that
         * is null was too long.
         */
        Duration answered(HttpResponse<?> response, byte[] body) {
            sent++;
            status = response.statusCode();
            if (body == null) {
                throw unreadable(tooLong(maxAnswer));
            }
            if (status >= 200 && status < 300) {
                return null;
            }
            maybeApplied |= request.write && unsure(status);
            Duration after = retryAfter(response.headers().firstValue("Retry-After").orElse(""));
            ApiException error = error(response, body, after == null ? Duration.ZERO : after);
            if (status == 429 || request.safe && unsure(status)) {
                Duration wait = waitFor(after);
                if (wait != null) {
                    return wait;
                }
            }
            throw error.noted(sent, maybeApplied);
        }

        /** How long to wait after an attempt without an answer; throws if it is not repeated. */
        Duration failed(IOException e) {
            sent++;
            boolean reached = !(e instanceof ConnectException) && !(e instanceof HttpConnectTimeoutException);
            maybeApplied |= request.write && reached;
            boolean interrupted = Thread.currentThread().isInterrupted();
            if (!interrupted && (!reached || request.safe)) {
                Duration wait = waitFor(null);
                if (wait != null) {
                    return wait;
                }
            }
            String detail = request.method + " " + request.path + ": no answer: " + e;
            throw ApiException.of(0, detail, e).noted(sent, maybeApplied);
        }

        /** Completes the error of a part of the answer. */
        void note(ApiException error) {
            error.noted(sent, maybeApplied || error.status() >= 500);
        }

        private Duration waitFor(Duration after) {
            if (sent > retries || after != null && after.compareTo(maxWait) > 0) {
                return null;
            }
            long most = backoff.toNanos() << Math.min(sent - 1, 5);
            long jitter = ThreadLocalRandom.current().nextLong(most / 2 + 1);
            return after == null ? Duration.ofNanos(most / 2 + jitter) : after.plusNanos(jitter / Math.max(sent, 1));
        }

        void pause(Duration wait) {
            try {
                TimeUnit.NANOSECONDS.sleep(wait.toNanos());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw ApiException.of(0, "interrupted between two attempts", e).noted(sent, maybeApplied);
            }
        }

        /** An answer has begun that has no end. */
        void begun(HttpResponse<?> response) {
            status = response.statusCode();
        }

        /** It works: failures are counted anew. */
        void worked() {
            sent = 0;
        }

        /** Of an answer that had begun well. */
        ApiException brokenOff(Throwable cause) {
            return ApiException.of(0, "the redrive broke off: repeat it, and it goes on with what is open", cause)
                    .noted(sent, true);
        }

        /** Reads an answer, or a part of it. */
        <T> T read(Supplier<T> reader) {
            try {
                return reader.get();
            } catch (ApiException e) { // the answer began well, and ended with an error
                throw e.noted(sent, maybeApplied || request.write && unsure(e.status()));
            } catch (IllegalArgumentException | DateTimeParseException | ClassCastException | NullPointerException e) {
                throw unreadable(e);
            }
        }

        private ApiException unreadable(RuntimeException e) {
            String detail = request.method + " " + request.path + ": the answer is none of the API's: "
                    + e.getMessage();
            ApiException error = new ApiException.ServerError(
                    new ApiException.Info(status, Map.of("detail", detail), Duration.ZERO, "", e));
            return error.noted(Math.max(sent, 1), maybeApplied || request.write && unsure(status));
        }
    }

    /** Whether a write that ended with this status may have been applied. */
    private static boolean unsure(int status) {
        return status < 300 || status >= 500 || status == 408;
    }

    private static ApiException error(HttpResponse<?> response, byte[] body, Duration after) {
        String text = new String(body, StandardCharsets.UTF_8);
        Map<String, Object> problem = null;
        try {
            if (Json.read(text) instanceof Map<?, ?> m && m.get("code") instanceof String) {
                problem = Json.object(m);
            }
        } catch (IllegalArgumentException e) {
            problem = null;
        }
        if (problem == null) {
            problem = Map.of("detail", "status " + response.statusCode() + ", and no problem of the API's: "
                    + text.substring(0, Math.min(text.length(), MAX_TEXT)));
        }
        return ApiException.of(new ApiException.Info(response.statusCode(), problem, after,
                response.headers().firstValue("X-Request-Id").orElse(""), null));
    }

    /** Of a header Retry-After, which has seconds or a date; null if it has neither. */
    static Duration retryAfter(String value) {
        try {
            long ms = Math.round(Math.max(Double.parseDouble(value), 0) * 1000);
            return Duration.ofMillis(Math.min(ms, Integer.MAX_VALUE * 1000L));
        } catch (NumberFormatException e) {
            return retryAt(value);
        }
    }

    private static Duration retryAt(String value) {
        try {
            Instant at = ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            Duration d = Duration.between(Instant.now(), at);
            return d.isNegative() ? Duration.ZERO : d;
        } catch (DateTimeParseException e) {
            return null;
        }
    }
}
