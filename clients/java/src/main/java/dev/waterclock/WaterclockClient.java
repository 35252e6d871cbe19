package dev.waterclock;

import dev.waterclock.internal.Durations;
import dev.waterclock.internal.Json;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;

/**
 * A client for the HTTP API. Many threads may share it.
 *
 * <p>A request is sent again after 429, and where that is safe after a lost answer, 408 and 5xx: every read, schedule,
 * cancel, pause, resume, rezone, ack and erase; the other writes with {@link Options#ifRevision}; run never.
 */
public final class WaterclockClient implements Commands<Answer> {
    private static final int MAX_BATCH = 10_000;
    private static final String TRIGGERS = "/v1/triggers";

    private final Http http;

    private WaterclockClient(Builder b) {
        http = new Http(b);
    }

    /** A client for {@code http://127.0.0.1:8080} or the like. */
    public static WaterclockClient of(String url) {
        return builder().url(url).build();
    }

    public static Builder builder() {
        return new Builder();
    }

    // --- writes -----------------------------------------------------------------------------

    /** Creates a trigger of which the server makes the id. */
    public Answer schedule(Register trigger) {
        return schedule(null, trigger, Options.NONE);
    }

    /** The same; a key in the options makes it safe over restarts of your program. */
    public Answer schedule(Register trigger, Options options) {
        return schedule(null, trigger, options);
    }

    /** Changes what the merge patch (RFC 7396) names, also a part of when; null removes a field. */
    public Answer update(String id, Map<String, ?> patch) {
        return update(id, patch, Options.NONE);
    }

    public Answer update(String id, Map<String, ?> patch, Options options) {
        Command c = Command.reschedule(id, When.of(patch), options);
        c.checkHttp();
        return send(c, merge(id, c.fields));
    }

    @Override
    public Answer send(Command command) {
        command.checkHttp();
        return send(command, request(command));
    }

    private Answer send(Command c, Http.Request request) {
        request.safe = c.repeatable();
        conditions(request, c.options);
        return http.send(request, r -> Answer.of(object(r), r.statusCode()));
    }

    private static Http.Request request(Command c) {
        return switch (c.op) {
            case "register" -> register(c);
            case "cancel" -> cancel(c);
            case "reschedule" -> merge(c.id, TimeFields.replacement(c.fields));
            case "run_now" -> verb(c, "run");
            default -> verb(c, c.op);
        };
    }

    private static Http.Request merge(String id, Map<String, Object> patch) {
        return new Http.Request("PATCH", path(id)).body(Http.Request.spell(patch), "application/merge-patch+json");
    }

    private static Http.Request cancel(Command c) {
        if (c.options.correlationId != null) {
            throw ApiException.refuse("invalid", "correlation_id", "a cancel over HTTP does not take it");
        }
        String note = c.options.note;
        return new Http.Request("DELETE", path(c.id)
                + (note == null ? "" : "?note=" + URLEncoder.encode(note, StandardCharsets.UTF_8)));
    }

    private static Http.Request verb(Command c, String name) {
        Http.Request request = new Http.Request("POST", path(c.id) + ":" + name);
        return c.fields.isEmpty() ? request : request.json(c.fields);
    }

    private static Http.Request register(Command c) {
        Http.Request request = c.id == null ? new Http.Request("POST", TRIGGERS) : new Http.Request("PUT", path(c.id));
        // Without it a repeat would make a second trigger. A PUT has none: a new key would count as a change.
        boolean needed = c.id == null && c.fields.get("idempotency_key") == null;
        String key = c.options.idempotencyKey == null && needed ? newKey() : c.options.idempotencyKey;
        if (key == null) {
            return request.json(c.fields);
        }
        if (key.chars().allMatch(letter -> letter < 0x80)) {
            request.headers.put("Idempotency-Key", key);
            return request.json(c.fields);
        }
        Map<String, Object> fields = new LinkedHashMap<>(c.fields); // a header would have '?' for each other letter
        fields.put("idempotency_key", key);
        return request.json(fields);
    }

    private static String newKey() {
        return "java-" + UUID.randomUUID();
    }

    private static void conditions(Http.Request request, Options o) {
        if (o.ifRevision != null) {
            request.headers.put("If-Match", "\"" + o.ifRevision + "\"");
        }
        if (o.ifAbsent) {
            request.headers.put("If-None-Match", "*");
        }
        if (o.async) {
            request.headers.put("Prefer", "respond-async");
        }
    }

    /**
     * Sends many commands, at most 10,000, in their order. One that is refused has its error in its result and affects
     * no other. The request is repeated only if that is safe for each command, and no id is there twice. If all have
     * {@link Options#async}, it does not wait for decisions: the status of an answer is then 202.
     */
    public List<BatchResult> batch(List<Command> commands) {
        if (commands.size() > MAX_BATCH) { // several requests would have several outcomes, and an exception has one
            throw ApiException.refuse("too_large", "", "a batch has at most " + MAX_BATCH + " commands; send several");
        }
        if (commands.isEmpty()) {
            return List.of();
        }
        Http.Request request = new Http.Request("POST", TRIGGERS + ":batch");
        StringBuilder body = new StringBuilder();
        Options waits = commands.get(0).options.async ? Options.NONE.async() : Options.NONE;
        conditions(request, waits);
        Set<String> ids = new HashSet<>(); // repeated, the first line of an id would meet what the second one left
        for (Command c : commands) {
            c.checkBatch(waits.async);
            body.append(line(c)).append('\n');
            request.safe &= c.repeatable() && (c.id == null || ids.add(c.id));
        }
        request.body(body.toString(), "application/x-ndjson");
        return http.send(request, r -> results(r, commands.size()),
                all -> all.stream().map(BatchResult::error).filter(Objects::nonNull).toList());
    }

    static String line(Command c) {
        boolean register = c.op.equals("register");
        Map<String, Object> o = new LinkedHashMap<>();
        if (!register) {
            o.put("op", c.op);
        }
        if (c.id != null) {
            o.put("id", c.id);
        }
        o.putAll(c.object(false));
        if (register && c.id == null) {
            o.putIfAbsent("idempotency_key", newKey());
        }
        // A raw payload may have line breaks, which in JSON are between tokens. All else of it stays byte for byte.
        return Http.Request.spell(o).replace('\n', ' ').replace('\r', ' ');
    }

    private static List<BatchResult> results(HttpResponse<byte[]> response, int want) {
        List<BatchResult> all = new ArrayList<>();
        for (Map<String, Object> o : lines(response)) {
            int status = (int) Json.integer(o, "status");
            String id = o.get("id") instanceof String s ? s : null;
            if (o.containsKey("code")) {
                ApiException error = ApiException.of(new ApiException.Info(status, o, Duration.ZERO, "", null));
                all.add(new BatchResult(id, (int) Json.integer(o, "line"), null, error));
            } else {
                all.add(new BatchResult(id, 0, Answer.of(o, status), null));
            }
        }
        if (all.size() != want) {
            throw new IllegalArgumentException(all.size() + " answers to " + want + " lines");
        }
        return all;
    }

    // --- reads ------------------------------------------------------------------------------

    /** The trigger as it is; {@link ApiException.NotFound} if it is unknown or forgotten. */
    public Trigger get(String id) {
        return http.send(Http.Request.get(path(id)), r -> Trigger.of(object(r)));
    }

    /** One page of a list. */
    public Page<Trigger> list(Filter filter) {
        return page(TRIGGERS, filter.query, Trigger::of);
    }

    /** All pages, each read as it is asked for. */
    public Iterable<Trigger> listAll(Filter filter) {
        return pages(TRIGGERS, filter.query, Trigger::of);
    }

    /** One page of what happened to a trigger; a cursor of null is the first, a limit of 0 the server's. */
    public Page<Event> events(String id, String cursor, int limit) {
        return page(path(id) + "/events", query(limit).set("cursor", cursor), Event::new);
    }

    /** All that happened to a trigger. */
    public Iterable<Event> events(String id) {
        return events(id, 0);
    }

    /** The same, so many in a page. */
    public Iterable<Event> events(String id, int limit) {
        return pages(path(id) + "/events", query(limit), Event::new);
    }

    private static Query query(int limit) {
        return new Query().set("limit", limit == 0 ? "" : Integer.toString(limit));
    }

    /** What happened to a trigger, and then what happens, as it happens. */
    public EventStream follow(String id) {
        return new EventStream(http, path(id) + "/events?follow=1");
    }

    /** The next n occurrences. */
    public List<Occurrence> occurrences(String id, int n) {
        return http.send(Http.Request.get(path(id) + "/occurrences?n=" + n), r -> items(r, "items", Occurrence::new));
    }

    /** When a rule would fire; nothing is registered. */
    public List<Occurrence> preview(Preview preview) {
        Http.Request request = new Http.Request("POST", "/v1/preview").json(preview.fields);
        request.write = false;
        return http.send(request, r -> items(r, "occurrences", Occurrence::new));
    }

    /** How many occurrences fall due in each of the next n buckets. */
    public List<Map<String, Object>> upcoming(Duration bucket, int n) {
        Query q = new Query().set("bucket", Durations.text(bucket)).set("n", Integer.toString(n));
        return items("/v1/upcoming" + q);
    }

    /** The partitions, their owners and how far they are. For operators. */
    public List<Map<String, Object>> partitions() {
        return items("/v1/partitions");
    }

    public List<Map<String, Object>> channels() {
        return items("/v1/channels");
    }

    /** The origins that callbacks call, the worst first. For operators. */
    public List<Map<String, Object>> endpoints() {
        return items("/v1/endpoints");
    }

    private List<Map<String, Object>> items(String path) {
        return http.send(Http.Request.get(path), r -> items(r, "items", Function.identity()));
    }

    // --- calendars --------------------------------------------------------------------------

    /** The calendars that triggers of the tenant can name. */
    public List<Map<String, Object>> calendars() {
        return items("/v1/calendars");
    }

    public Map<String, Object> getCalendar(String name) {
        return http.send(Http.Request.get(calendar(name)), WaterclockClient::object);
    }

    /** Creates or replaces a calendar. Triggers that name it follow. */
    public Map<String, Object> putCalendar(String name, List<String> dates) {
        Http.Request request = new Http.Request("PUT", calendar(name)).json(Map.of("dates", dates));
        return http.send(request, WaterclockClient::object);
    }

    /** Deletes one that no trigger names. */
    public Map<String, Object> deleteCalendar(String name) {
        return http.send(new Http.Request("DELETE", calendar(name)), WaterclockClient::object);
    }

    private static String calendar(String name) {
        return "/v1/calendars/" + segment(name, "invalid", "name");
    }

    // --- dead letters -----------------------------------------------------------------------

    /** One page of dead letters, the newest first. */
    public Page<DeadLetter> deadLetters(DeadLetterFilter filter) {
        return page("/v1/dead-letters", filter.query, DeadLetter::new);
    }

    /** All pages, each read as it is asked for. */
    public Iterable<DeadLetter> allDeadLetters(DeadLetterFilter filter) {
        return pages("/v1/dead-letters", filter.query, DeadLetter::new);
    }

    /** Counts dead letters by {@code tenant}, {@code code} or {@code endpoint}, the largest count first. */
    public List<DeadLetterCount> countDeadLetters(String by, DeadLetterFilter filter) {
        Query q = filter.query.copy().filter("group_by", by);
        return http.send(Http.Request.get("/v1/dead-letters" + q), r -> items(r, "groups", DeadLetterCount::new));
    }

    /** Tries the dead letters of a trigger again; with a ceId, which may be null, only that occurrence. */
    public Redrive redrive(String triggerId, String ceId) {
        return redrive(triggerId, ceId, RedriveOptions.NONE);
    }

    /** The same at a rate, with progress, and the like. */
    public Redrive redrive(String triggerId, String ceId, RedriveOptions options) {
        Map<String, Object> body = new LinkedHashMap<>(Map.of("trigger_id", triggerId));
        if (ceId != null) {
            body.put("ce_id", ceId);
        }
        return redrive(body, options, true);
    }

    /** As {@link #redrive(DeadLetterFilter, RedriveOptions)}. The note says why, and may be null. */
    public Redrive redrive(DeadLetterFilter filter, double perSecond, String note) {
        return redrive(filter, RedriveOptions.NONE.rate(perSecond).note(note));
    }

    /**
     * Tries again the dead letters that a filter leaves, and returns how it ended. It may take as long as it likes.
     * What was redriven is not redriven a second time, so a call that failed may be repeated, and goes on with what is
     * open. A filter that leaves all is refused: see {@link #redriveAll}.
     */
    public Redrive redrive(DeadLetterFilter filter, RedriveOptions options) {
        Map<String, Object> body = filter.query.fields();
        if (body.isEmpty()) {
            throw ApiException.refuse("invalid", "", "the filter is empty: redriveAll redrives all");
        }
        return redrive(body, options, false);
    }

    /** As {@link #redrive(DeadLetterFilter, double, String)}, of all open dead letters. */
    public Redrive redriveAll(double perSecond, String note) {
        return redriveAll(RedriveOptions.NONE.rate(perSecond).note(note));
    }

    /** As {@link #redrive(DeadLetterFilter, RedriveOptions)}, of all open dead letters. */
    public Redrive redriveAll(RedriveOptions options) {
        return redrive(new LinkedHashMap<>(Map.of("all", true)), options, false);
    }

    /** Counts what {@link #redrive} and {@link #redriveAll} would try again, and tries nothing. */
    public Redrive countRedrive(DeadLetterFilter filter) {
        Map<String, Object> body = filter.query.fields();
        if (body.isEmpty()) {
            body.put("all", true);
        }
        body.put("dry_run", true);
        return redrive(body, RedriveOptions.NONE, false);
    }

    private Redrive redrive(Map<String, Object> body, RedriveOptions options, boolean keepRefusals) {
        Http.Request request = new Http.Request("POST", "/v1/dead-letters:redrive").json(options.into(body));
        return http.stream(request, new RedriveLines(options.progress, keepRefusals));
    }

    // --- what they are made of --------------------------------------------------------------

    private static String path(String id) {
        return TRIGGERS + "/" + segment(id, "invalid_key", "id");
    }

    private static String segment(String text, String code, String field) {
        if (text == null || text.isEmpty() || text.equals(".") || text.equals("..")) {
            throw ApiException.refuse(code, field, "there is no such " + field + " over HTTP");
        }
        return Query.escape(text);
    }

    private static Map<String, Object> object(HttpResponse<byte[]> response) {
        return Json.object(Json.read(response.body()));
    }

    private static List<Map<String, Object>> lines(HttpResponse<byte[]> response) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (String line : new String(response.body(), StandardCharsets.UTF_8).split("\n")) {
            if (!line.isBlank()) {
                all.add(Json.object(Json.read(line)));
            }
        }
        return all;
    }

    private static <T> List<T> items(HttpResponse<byte[]> r, String name, Function<Map<String, Object>, T> item) {
        return items(object(r), name, item);
    }

    private static <T> List<T> items(Map<String, Object> object, String name, Function<Map<String, Object>, T> item) {
        return Json.list(object.get(name)).stream().map(Json::object).map(item).toList();
    }

    private <T> Page<T> page(String path, Query query, Function<Map<String, Object>, T> item) {
        return http.send(Http.Request.get(path + query), r -> {
            Map<String, Object> o = object(r);
            String next = Json.text(o, "next_cursor");
            return new Page<>(items(o, "items", item), next.isEmpty() ? null : next);
        });
    }

    private <T> Iterable<T> pages(String path, Query query, Function<Map<String, Object>, T> item) {
        return () -> new Iterator<T>() {
            private Page<T> page = page(path, query, item);
            private Iterator<T> items = page.iterator();

            @Override
            public boolean hasNext() {
                while (!items.hasNext() && page.nextCursor() != null) {
                    page = page(path, query.copy().set("cursor", page.nextCursor()), item);
                    items = page.iterator();
                }
                return items.hasNext();
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return items.next();
            }
        };
    }

    /** Options of a {@link WaterclockClient}. */
    public static final class Builder {
        String url = "http://127.0.0.1:8080";
        Duration timeout = Duration.ofSeconds(30);
        HttpClient client;
        int retries = 3;
        Duration backoff = Duration.ofMillis(100);
        Duration maxWait = Duration.ofSeconds(30);
        int maxAnswer = 64 << 20;
        final Map<String, String> headers = new LinkedHashMap<>(Map.of("User-Agent", "waterclock-java"));

        private Builder() {}

        /** Of the server; a path in it is put before each request's. The default is http://127.0.0.1:8080. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** An API key or a JWT. */
        public Builder token(String token) {
            return header("Authorization", "Bearer " + token);
        }

        /** A header of every request. */
        public Builder header(String name, String value) {
            headers.put(name, value);
            return this;
        }

        /** Of one attempt. The default is 30 s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** How many more times a request may be sent. The default is 3. */
        public Builder retries(int retries) {
            this.retries = retries;
            return this;
        }

        /** The first wait between two attempts, which doubles. The default is 100 ms. */
        public Builder backoff(Duration first) {
            backoff = first;
            return this;
        }

        /** The longest Retry-After that is waited for; a longer one is thrown at once. The default is 30 s. */
        public Builder maxWait(Duration wait) {
            maxWait = wait;
            return this;
        }

        /**
         * Bounds the bytes of an answer, and of one event of a stream. A longer one is a
         * {@link ApiException.ServerError}. The default is 64 MiB.
         */
        public Builder maxAnswer(int bytes) {
            maxAnswer = bytes;
            return this;
        }

        /** A client of your own, for TLS or a proxy. It must not follow redirects. */
        public Builder httpClient(HttpClient client) {
            this.client = client;
            return this;
        }

        public WaterclockClient build() {
            if (retries < 0 || timeout.isNegative() || timeout.isZero() || backoff.isNegative()
                    || maxWait.isNegative() || maxAnswer <= 0) {
                throw new IllegalArgumentException("WaterclockClient: retries, timeout, backoff and maxWait must not "
                        + "be negative, and a timeout and maxAnswer are more than 0");
            }
            return new WaterclockClient(this);
        }
    }
}
