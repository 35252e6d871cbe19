package dev.waterclock;

import dev.waterclock.internal.Json;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.Flow;

/**
 * What happens to a trigger, as it happens: first what has happened, then the rest, without an end. It connects anew
 * where a connection ends, behind the last event that came whole. It throws if that fails too often in succession: if
 * neither an event came nor a sign of life. Close it when you have seen enough.
 */
public final class EventStream implements Iterable<Event>, Iterator<Event>, AutoCloseable {
    private final Http http;
    private final String path;
    private final Http.Attempts attempts;
    private final Deque<Event> ready = new ArrayDeque<>();
    private volatile Body body;
    private volatile boolean closed;
    private String last = "";
    private String id;
    private List<String> data = new ArrayList<>();

    EventStream(Http http, String path) {
        this.http = http;
        this.path = path;
        attempts = http.new Attempts(Http.Request.get(path));
    }

    @Override
    public Iterator<Event> iterator() {
        return this;
    }

    /** Waits for the next event. False once the stream was closed. */
    @Override
    public boolean hasNext() {
        while (ready.isEmpty() && !closed) {
            try {
                step();
            } catch (IOException e) {
                body = null;
                if (!closed) {
                    attempts.pause(attempts.failed(e));
                }
            }
        }
        return !ready.isEmpty();
    }

    @Override
    public Event next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the stream was closed");
        }
        return ready.remove();
    }

    /** Ends the stream. Any thread may call it. */
    @Override
    public void close() {
        closed = true;
        Body b = body;
        if (b != null) {
            b.cancel();
        }
    }

    private void step() throws IOException {
        if (body == null) {
            connect();
            return;
        }
        try {
            if (!body.lines(attempts, this::line)) {
                throw new IOException("the stream ended");
            }
        } catch (ApiException e) { // nothing more of it is read
            body.cancel();
            throw e;
        }
    }

    private void connect() throws IOException {
        Http.Request request = Http.Request.get(path);
        request.headers.put("Accept", "text/event-stream, application/problem+json");
        if (!last.isEmpty()) {
            request.headers.put("Last-Event-ID", last);
        }
        HttpResponse<Flow.Publisher<List<ByteBuffer>>> response = http.begin(request, BodyHandlers.ofPublisher());
        Body b = http.body();
        response.body().subscribe(b);
        if (response.statusCode() != 200) {
            byte[] all = b.all(http.timeout);
            b.cancel();
            Duration wait = attempts.answered(response, all);
            attempts.pause(wait == null ? Duration.ZERO : wait);
            return;
        }
        attempts.begun(response);
        id = null;
        data = new ArrayList<>();
        body = b;
        if (closed) {
            b.cancel();
        }
    }

    private void line(String line) {
        int colon = line.indexOf(':');
        String name = colon < 0 ? line : line.substring(0, colon);
        String value = colon < 0 ? "" : line.substring(colon + 1);
        value = value.startsWith(" ") ? value.substring(1) : value;
        if (name.equals("data")) {
            data.add(value);
        } else if (name.equals("id")) {
            id = value;
        } else if (line.startsWith(":")) { // a comment: the trigger is quiet, and the server is well
            attempts.worked();
        } else if (line.isEmpty()) {
            end();
        }
    }

    private void end() {
        String text = String.join("\n", data);
        if (!text.isEmpty()) {
            ready.add(new Event(Json.object(Json.read(text))));
            last = id == null ? last : id;
            attempts.worked();
        }
        id = null;
        data = new ArrayList<>();
        body.release();
    }
}
