package dev.waterclock.worker;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;

/** The bytes of receipts: docs/formats/receipts.md. */
final class Receipts {
    static final int MAX_CODE = 128;
    static final int MAX_DETAIL = 1024;
    private static final DateTimeFormatter MILLIS =
            DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);

    private Receipts() {}

    /** The receipt of a result. */
    static byte[] write(DueEvent e, String channel, Result r, Instant now) {
        StringBuilder b = new StringBuilder(200);
        text(b.append("{\"due_id\":"), e.id());
        text(b.append(",\"channel\":"), channel);
        b.append(",\"outcome\":\"").append(r.outcome().text);
        // The emission is named always: a receipt that comes twice must not decide the one after it.
        b.append("\",\"attempt\":").append(e.attempt()).append(",\"postponed\":").append(e.postponed());
        if (!r.code().isEmpty()) {
            text(b.append(",\"code\":"), clip(r.code(), MAX_CODE));
        }
        if (!r.detail().isEmpty()) {
            text(b.append(",\"detail\":"), clip(r.detail(), MAX_DETAIL));
        }
        if (!r.after().isZero()) {
            long ms = r.after().toMillis() + (r.after().toNanosPart() % 1_000_000 > 0 ? 1 : 0); // 0 is the profile
            b.append(",\"retry_after\":\"").append(ms).append("ms\"");
        }
        return b.append(",\"at\":\"").append(stamp(now)).append("\"}").toString().getBytes(StandardCharsets.UTF_8);
    }

    /** The last instant that was written: most receipts of a busy worker are of the same millisecond. */
    private record Stamp(long ms, String text) {}

    private static volatile Stamp last = new Stamp(0, MILLIS.format(Instant.EPOCH));

    private static String stamp(Instant at) {
        Stamp s = last;
        if (s.ms != at.toEpochMilli()) {
            s = new Stamp(at.toEpochMilli(), MILLIS.format(at));
            last = s;
        }
        return s.text;
    }

    private static void text(StringBuilder b, String v) {
        b.append('"');
        for (int i = 0; i < v.length(); i++) {
            char c = v.charAt(i);
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        b.append('"');
    }

    /** At most so many bytes, between characters. */
    static String clip(String text, int most) {
        if (text.length() * 3 <= most) {
            return text;
        }
        int bytes = 0;
        for (int i = 0; i < text.length();) {
            int c = text.codePointAt(i);
            bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
            if (bytes > most) {
                return text.substring(0, i);
            }
            i += Character.charCount(c);
        }
        return text;
    }

    /** What a receipt says of an emission. */
    record Seen(String dueId, Result.Outcome outcome, int attempt, int postponed) {}

    /** What a record of the receipts topic says; null for what is no receipt of this channel. */
    static Seen read(String channel, byte[] key, byte[] value) {
        if (key == null || value == null) {
            return null;
        }
        String text = new String(value, StandardCharsets.UTF_8);
        if (text.contains("\"channel\"") && !text.contains("\"" + channel + "\"") && !text.contains("null")
                && !text.contains("\"\"")) {
            return null; // of another channel, and most of them are
        }
        try {
            JsonReader in = new JsonReader(new StringReader(text));
            in.setStrictness(Strictness.STRICT);
            JsonElement all = JsonParser.parseReader(in);
            if (in.peek() != JsonToken.END_DOCUMENT || !(all instanceof JsonObject o)) {
                return null;
            }
            return seen(channel, new String(key, StandardCharsets.UTF_8), o);
        } catch (JsonParseException | IOException | NumberFormatException e) {
            return null;
        }
    }

    private static Seen seen(String channel, String key, JsonObject o) {
        String dueId = string(o, "due_id");
        Result.Outcome outcome = Result.Outcome.of(string(o, "outcome"));
        String named = string(o, "channel");
        int attempt = count(o, "attempt");
        int postponed = count(o, "postponed");
        if (dueId == null || !dueId.startsWith(key + "@") || outcome == null || attempt < 0 || postponed < 0
                || named == null || !named.isEmpty() && !named.equals(channel)) {
            return null;
        }
        return new Seen(dueId, outcome, attempt, postponed);
    }

    /** A text; empty if there is none, null if it is no text. JSON's null is none, as the engine reads it. */
    private static String string(JsonObject o, String name) {
        JsonElement v = o.get(name);
        if (v == null || v.isJsonNull()) {
            return "";
        }
        return v instanceof JsonPrimitive p && p.isString() ? p.getAsString() : null;
    }

    /** A whole number; 0 if there is none, -1 if it is no such number. */
    private static int count(JsonObject o, String name) {
        JsonElement v = o.get(name);
        if (v == null || v.isJsonNull()) {
            return 0;
        }
        if (!(v instanceof JsonPrimitive p) || !p.isNumber() || !p.getAsString().matches("[0-9]{1,18}")) {
            return -1;
        }
        return (int) Math.min(p.getAsLong(), Decoder.MAX_COUNT);
    }
}
