package dev.waterclock;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** One command: a line of {@link WaterclockClient#batch}, or a record of {@link KafkaClient#send}. */
public final class Command {
    private static final int MAX_KEY = 255;
    // What is asked for a second time changes nothing.
    private static final Set<String> SAFE = Set.of("register", "cancel", "pause", "resume", "rezone", "erase");

    final String op;
    final String id;
    final Map<String, Object> fields;
    final Options options;

    private Command(String op, String id, Map<String, ?> fields, Options options) {
        this.op = op;
        this.id = id;
        this.fields = new LinkedHashMap<>(fields);
        this.options = options;
        if (options.correlationId != null) {
            this.fields.put("correlation_id", options.correlationId);
        }
        if (options.note != null) {
            this.fields.put("note", options.note);
        }
        if (!op.equals("register")) {
            check(options.idempotencyKey == null, "idempotency_key", "it is for schedule; here ifRevision does it");
            check(!options.ifAbsent, "if_absent", "it is for schedule");
        }
        check(options.ifRevision == null || options.ifRevision >= 1, "if_revision",
                "it must be 1 or more: a write that was not decided has no revision yet");
    }

    private static void check(boolean ok, String field, String detail) {
        if (!ok) {
            throw ApiException.refuse("invalid", field, detail);
        }
    }

    /** Creates or replaces a trigger. An id of null is for HTTP, where the server makes one. */
    public static Command schedule(String id, Register trigger, Options options) {
        return new Command("register", id, trigger.fields, options);
    }

    public static Command cancel(String id, Options options) {
        return new Command("cancel", id, Map.of(), options);
    }

    public static Command reschedule(String id, When when, Options options) {
        return new Command("reschedule", id, when.fields, options);
    }

    public static Command snooze(String id, Snooze snooze, Options options) {
        return new Command("snooze", id, snooze.fields(), options);
    }

    /** Occurrence: a local date, a wall time or an instant; null is the next one. */
    public static Command skip(String id, String occurrence, Options options) {
        return new Command("skip", id, optional("occurrence", occurrence), options);
    }

    public static Command pause(String id, String note, Options options) {
        return new Command("pause", id, Map.of(), noted(options, note));
    }

    public static Command resume(String id, String note, Options options) {
        return new Command("resume", id, Map.of(), noted(options, note));
    }

    private static Options noted(Options options, String note) {
        return note == null || note.isEmpty() ? options : options.note(note);
    }

    public static Command run(String id, Options options) {
        return new Command("run_now", id, Map.of(), options);
    }

    public static Command rezone(String id, String timezone, Options options) {
        return new Command("rezone", id, Map.of("timezone", timezone), options);
    }

    /** Occurrence: null is whatever is in flight. */
    public static Command ack(String id, String occurrence, Options options) {
        return new Command("ack", id, optional("occurrence", occurrence), options);
    }

    public static Command erase(String id, Options options) {
        return new Command("erase", id, Map.of(), options);
    }

    /** A line as the API reads it: its fields, with {@code op} (register is the default) and {@code id}. */
    public static Command of(Map<String, ?> line) {
        return of(line, Options.NONE);
    }

    /** The same with conditions and the like. */
    public static Command of(Map<String, ?> line, Options options) {
        Map<String, Object> fields = new LinkedHashMap<>(line);
        Object op = fields.remove("op");
        Object id = fields.remove("id");
        return new Command(op == null ? "register" : op.toString(), id == null ? null : id.toString(), fields, options);
    }

    private static Map<String, Object> optional(String name, String value) {
        return value == null || value.isEmpty() ? Map.of() : Map.of(name, value);
    }

    /** The command as a JSON object, with its conditions as fields. */
    Map<String, Object> object(boolean withOp) {
        Map<String, Object> o = new LinkedHashMap<>();
        if (withOp) {
            o.put("op", op);
        }
        o.putAll(fields);
        if (options.ifRevision != null) {
            o.put("if_revision", options.ifRevision);
        }
        if (options.ifAbsent) {
            o.put("if_absent", true);
        }
        if (options.idempotencyKey != null) {
            o.put("idempotency_key", options.idempotencyKey);
        }
        return o;
    }

    /**
     * Whether a second one does no harm. A run and an ack change no revision, so a condition does not help: a second
     * run fires twice, and a second ack that names no occurrence may be about the next one.
     */
    boolean repeatable() {
        if (op.equals("ack")) {
            return fields.containsKey("occurrence");
        }
        boolean conditional = options.ifRevision != null || fields.containsKey("if_revision");
        return SAFE.contains(op) || conditional && !op.equals("run_now");
    }

    /** The record key: the id, or tenant/id. */
    byte[] key(String tenant) {
        boolean own = tenant != null && !tenant.isEmpty() && !tenant.equals("default");
        String text = id == null ? "" : id;
        keyIs(!text.isEmpty(), "id", "the id is empty");
        keyIs(own || text.indexOf('/') < 0, "id", "an id of the default tenant must not contain '/'; set the tenant");
        keyIs(!text.endsWith("/") && !text.startsWith("/"), "id", "the id begins or ends with '/'");
        keyIs(!own || tenant.indexOf('/') < 0, "tenant", "a tenant must not contain '/'");
        String key = own ? tenant + "/" + text : text;
        keyIs(key.chars().noneMatch(c -> Character.isISOControl((char) c)), "id", "the id has a control character");
        byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
        keyIs(bytes.length <= MAX_KEY, "id", "the key has over " + MAX_KEY + " bytes");
        return bytes;
    }

    private static void keyIs(boolean ok, String field, String detail) {
        if (!ok) {
            throw ApiException.refuse("invalid_key", field, detail);
        }
    }

    /** Refuses what there is not by Kafka. */
    void checkRecord() {
        check(!options.async, "", "async is for HTTP: a command over Kafka never waits");
        for (Options.Header h : options.headers) {
            String name = h.name().toLowerCase(Locale.ROOT);
            check(!name.startsWith("wc-") && !name.startsWith("wcx-") && !name.startsWith("ce_"), h.name(),
                    "the header is Waterclock's own");
        }
    }

    /** Refuses what a command of a batch cannot have: all of the batch waits, or nothing does. */
    void checkBatch(boolean async) {
        checkHttp();
        check(options.async == async, "async", "give async to all commands of a batch, or to none");
    }

    /** Refuses what there is not by HTTP. */
    void checkHttp() {
        check(options.headers.isEmpty(), "record_headers", "HTTP has no record headers; set headers of the trigger");
    }
}
