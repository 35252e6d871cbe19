package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** The neutral calls of the conformance file, and their results as JSON. */
final class Calls {
    private static final Map<String, Class<? extends ApiException>> TYPES = Map.of(
            "invalid", ApiException.InvalidRequest.class, "not_found", ApiException.NotFound.class,
            "already_fired", ApiException.AlreadyFired.class, "conflict", ApiException.Conflict.class,
            "too_large", ApiException.TooLarge.class, "unauthenticated", ApiException.Unauthenticated.class,
            "forbidden", ApiException.Forbidden.class, "quota_exceeded", ApiException.QuotaExceeded.class,
            "unavailable", ApiException.Unavailable.class, "server", ApiException.ServerError.class);

    private Calls() {}

    static Map<String, Object> error(ApiException e) {
        String type = TYPES.entrySet().stream().filter(t -> t.getValue() == e.getClass()).findFirst().orElseThrow()
                .getKey();
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("type", type);
        m.put("status", (long) e.status());
        m.put("code", e.code());
        m.put("field", e.field());
        m.put("detail", e.detail());
        m.put("trigger_id", e.triggerId());
        m.put("state", e.state());
        m.put("request_id", e.requestId());
        m.put("retry_after_ms", e.retryAfter().toMillis());
        m.put("attempts", (long) e.attempts());
        m.put("maybe_applied", e.maybeApplied());
        return m;
    }

    /** Arguments of a call; what nobody has asked for is a failure. */
    static final class Args {
        private final Map<String, Object> all;

        Args(Object args) {
            all = new LinkedHashMap<>(Json.object(args));
        }

        String text(String name) {
            Object v = all.remove(name);
            return v == null ? null : v.toString();
        }

        int number(String name) {
            return all.remove(name) instanceof Number n ? n.intValue() : 0;
        }

        Map<String, Object> object(String name) {
            return Json.object(all.remove(name));
        }

        Map<String, Object> rest() {
            Map<String, Object> rest = new LinkedHashMap<>(all);
            all.clear();
            return rest;
        }

        List<Object> list(String name) {
            Object v = all.remove(name);
            return v == null ? List.of() : Json.list(v);
        }

        Options options() {
            Options o = Options.NONE;
            if (all.remove("if_revision") instanceof Number n) {
                o = o.ifRevision(n.longValue());
            }
            if (Boolean.TRUE.equals(all.remove("if_absent"))) {
                o = o.ifAbsent();
            }
            if (all.remove("note") instanceof String s) {
                o = o.note(s);
            }
            if (all.remove("idempotency_key") instanceof String s) {
                o = o.idempotencyKey(s);
            }
            if (Boolean.TRUE.equals(all.remove("async"))) {
                o = o.async();
            }
            for (Object h : list("record_headers")) {
                o = o.recordHeader((String) Json.list(h).get(0), (String) Json.list(h).get(1));
            }
            return o;
        }

        void done() {
            if (!all.isEmpty()) {
                throw new AssertionError("unknown arguments " + all.keySet());
            }
        }
    }

    /** A command, by HTTP or Kafka; null if the call is none. */
    static <R> R command(Commands<R> c, String name, Args a) {
        Options o = a.options();
        String id = a.text("id");
        R r = switch (name) {
            case "schedule" -> c.schedule(id, Register.of(a.object("trigger")), o);
            case "cancel" -> c.cancel(id, o);
            case "reschedule" -> c.reschedule(id, When.of(a.object("time")), o);
            case "snooze" -> c.snooze(id, snooze(a), o);
            case "skip" -> c.skip(id, a.text("occurrence"), o);
            case "ack" -> c.ack(id, a.text("occurrence"), o);
            case "pause" -> c.pause(id, o.note, o);
            case "resume" -> c.resume(id, o.note, o);
            case "run" -> c.run(id, o);
            case "rezone" -> c.rezone(id, a.text("timezone"), o);
            case "erase" -> c.erase(id, o);
            default -> throw new AssertionError("no method " + name);
        };
        a.done();
        return r;
    }

    private static Snooze snooze(Args a) {
        String by = a.text("for");
        return by != null ? Snooze.by(by) : Snooze.until(a.text("until"));
    }

    /** The result of a call by HTTP, as JSON. */
    static Object http(WaterclockClient c, String name, Object args) {
        Args a = new Args(args);
        Object result = switch (name) {
            case "get" -> trigger(c.get(a.text("id")));
            case "list" -> page(c.list(filter(a)), Calls::trigger);
            case "list_all" -> items(c.listAll(filter(a)), Calls::trigger);
            case "update" -> {
                Options o = a.options();
                yield answer(c.update(a.text("id"), a.object("patch"), o));
            }
            case "events" -> page(c.events(a.text("id"), a.text("cursor"), a.number("limit")), Event::raw);
            case "events_all" -> items(c.events(a.text("id"), a.number("limit")), Event::raw);
            case "follow" -> follow(c, a.text("id"), a.number("take"));
            case "occurrences" -> items(c.occurrences(a.text("id"), a.number("n")), Occurrence::raw);
            case "batch" -> batch(c, a.list("lines"), a.options());
            case "preview" -> Map.of("occurrences",
                    c.preview(Preview.of(a.rest())).stream().map(Calls::previewed).toList());
            case "upcoming" -> Map.of("items", c.upcoming(duration(a.text("bucket")), a.number("n")));
            case "partitions" -> Map.of("items", c.partitions());
            case "channels" -> Map.of("items", c.channels());
            case "endpoints" -> Map.of("items", c.endpoints());
            case "dead_letters" -> page(c.deadLetters(letters(a)), DeadLetter::raw);
            case "dead_letters_all" -> items(c.allDeadLetters(letters(a)), DeadLetter::raw);
            case "count_dead_letters" -> {
                String by = a.text("by");
                yield Map.of("items", c.countDeadLetters(by, letters(a)).stream().map(DeadLetterCount::raw).toList());
            }
            case "redrive" -> c.redrive(a.text("id"), a.text("ce_id"), redriveOptions(a)).raw();
            case "redrive_all" -> redriveAll(c, a).raw();
            case "calendars" -> Map.of("items", c.calendars());
            case "put_calendar" -> c.putCalendar(a.text("name"),
                    a.list("dates").stream().map(Object::toString).toList());
            case "get_calendar" -> c.getCalendar(a.text("name"));
            case "delete_calendar" -> c.deleteCalendar(a.text("name"));
            default -> answer(command(c, name, a));
        };
        a.done();
        return result;
    }

    private static Duration duration(String text) {
        return Duration.parse("PT" + text);
    }

    private static Filter filter(Args a) {
        Filter f = new Filter().userId(a.text("user_id")).channel(a.text("channel")).cursor(a.text("cursor"));
        List<Object> states = a.list("state");
        if (!states.isEmpty()) {
            f.state(states.toArray(String[]::new));
        }
        int limit = a.number("limit");
        if (limit != 0) {
            f.limit(limit);
        }
        if (a.all.containsKey("tags")) {
            Map<String, String> tags = new LinkedHashMap<>();
            a.object("tags").forEach((k, v) -> tags.put(k, v.toString()));
            f.tags(tags);
        }
        String from = a.text("from");
        if (from != null) {
            f.from(Instant.parse(from));
        }
        String to = a.text("to");
        if (to != null) {
            f.to(Instant.parse(to));
        }
        return f;
    }

    private static DeadLetterFilter letters(Args a) {
        DeadLetterFilter f = new DeadLetterFilter().triggerId(a.text("id")).channel(a.text("channel"))
                .code(a.text("code")).endpoint(a.text("endpoint")).status(a.text("status")).cursor(a.text("cursor"));
        int limit = a.number("limit");
        if (limit != 0) {
            f.limit(limit);
        }
        String from = a.text("from");
        if (from != null) {
            f.from(Instant.parse(from));
        }
        return f;
    }

    private static Redrive redriveAll(WaterclockClient c, Args a) {
        if (Boolean.TRUE.equals(a.all.remove("dry_run"))) {
            return c.countRedrive(letters(a));
        }
        boolean all = Boolean.TRUE.equals(a.all.remove("all"));
        RedriveOptions o = redriveOptions(a);
        return all ? c.redriveAll(o) : c.redrive(letters(a), o);
    }

    private static RedriveOptions redriveOptions(Args a) {
        RedriveOptions o = RedriveOptions.NONE.note(a.text("note")).cursor(a.text("cursor"));
        if (a.all.remove("rate") instanceof Number rate) {
            o = o.rate(rate.doubleValue());
        }
        return Boolean.TRUE.equals(a.all.remove("include_expired")) ? o.includeExpired() : o;
    }

    private static Map<String, Object> follow(WaterclockClient c, String id, int take) {
        List<Object> found = new ArrayList<>();
        try (EventStream stream = c.follow(id)) {
            while (found.size() < take) {
                found.add(stream.next().raw());
            }
        }
        return Map.of("items", found);
    }

    private static Map<String, Object> batch(WaterclockClient c, List<Object> lines, Options o) {
        List<Command> commands = lines.stream().map(l -> Command.of(Json.object(l), o)).toList();
        List<Object> results = new ArrayList<>();
        for (BatchResult r : c.batch(commands)) {
            Map<String, Object> m = r.ok() ? answer(r.answer()) : new LinkedHashMap<>();
            m.put("id", r.id());
            if (!r.ok()) {
                m.put("line", (long) r.line());
                m.put("error", error(r.error()));
            }
            results.add(m);
        }
        return Map.of("items", results);
    }

    static Map<String, Object> answer(Answer a) {
        Map<String, Object> m = new LinkedHashMap<>(a.raw());
        m.put("status", (long) a.status());
        m.put("created", a.created());
        m.put("decided", a.decided());
        m.put("notes", a.notes());
        m.put("trigger_id", a.triggerId());
        if (a.fireAt() != null) {
            m.put("fire_at", a.fireAt().toString());
        }
        return m;
    }

    private static Map<String, Object> trigger(Trigger t) {
        Map<String, Object> m = new LinkedHashMap<>(t.raw());
        m.put("trigger_id", t.triggerId());
        m.put("state", t.state());
        m.put("revision", t.revision());
        m.put("attempt", (long) t.attempt());
        return m;
    }

    private static Map<String, Object> previewed(Occurrence o) {
        Map<String, Object> m = new LinkedHashMap<>(o.raw());
        m.put("at", o.at().toString());
        return m;
    }

    private static <T> Map<String, Object> page(Page<T> p, Function<T, Map<String, Object>> item) {
        Map<String, Object> m = items(p, item);
        m.put("next_cursor", p.nextCursor());
        return m;
    }

    private static <T> Map<String, Object> items(Iterable<T> all, Function<T, Map<String, Object>> item) {
        List<Object> items = new ArrayList<>();
        all.forEach(v -> items.add(item.apply(v)));
        return new LinkedHashMap<>(Map.of("items", items));
    }
}
