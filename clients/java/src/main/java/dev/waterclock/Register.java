package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** What a trigger is made of. Only a time is required. */
public final class Register extends TimeFields<Register> {
    /** So long after the command's append. */
    public static Register in(Duration delay) {
        return new Register().delay(delay);
    }

    public static Register at(Instant at) {
        return new Register().fireAt(at);
    }

    /** A wall time, such as {@code 2026-11-20T09:00}, in an IANA zone. */
    public static Register atLocal(String wall, String zone) {
        return new Register().fireAt(wall).timezone(zone);
    }

    /** Such as {@code "cron:0 9 * * 1-5"}, {@code "FREQ=DAILY"} or {@code "every:15m"}, in an IANA zone. */
    public static Register every(String rule, String zone) {
        return new Register().recurrence(rule).timezone(zone);
    }

    /** The fields by their names in the API. */
    public static Register of(Map<String, ?> fields) {
        Register r = new Register();
        r.fields.putAll(fields);
        return r;
    }

    public Register channel(String channel) {
        return set("channel", channel);
    }

    public Register userId(String userId) {
        return set("user_id", userId);
    }

    /** As JSON: a Map, a List, a text, a number, a record or an object by its fields. */
    public Register payload(Object payload) {
        return set("payload", payload);
    }

    /** JSON text, which goes out byte for byte. */
    public Register payloadJson(String json) {
        try {
            Json.read(json);
        } catch (IllegalArgumentException e) {
            throw ApiException.refuse("invalid", "payload", e.getMessage());
        }
        return set("payload", new Json.Raw(json));
    }

    public Register payloadBytes(byte[] payload) {
        return set("payload_base64", Base64.getEncoder().encodeToString(payload));
    }

    /** The record key of the due event. */
    public Register targetKey(String key) {
        return set("target_key", key);
    }

    /** Headers travel to the due event. */
    public Register headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    public Register tags(Map<String, String> tags) {
        return set("tags", tags);
    }

    /** {@code high}, {@code normal} (the default) or {@code low}. */
    public Register priority(String priority) {
        return set("priority", priority);
    }

    public Register jitter(Duration jitter) {
        return set("jitter", jitter);
    }

    public Register expiresAfter(Duration d) {
        return set("expires_after", d);
    }

    /** {@code fire_once} (the default), {@code fire_all} or {@code skip}. */
    public Register misfire(String policy) {
        return set("misfire", policy);
    }

    public Register followUser(boolean follow) {
        return set("follow_user", follow);
    }

    /** A webhook; {@link #set} with a Map for its other fields. */
    public Register callback(String url) {
        return set("callback", Map.of("url", url));
    }

    /** The steps by the names of the API, such as {@code Map.of("after", "5m", "channel", "sms")}. */
    public Register escalation(List<Map<String, ?>> steps) {
        return set("escalation", steps);
    }

    public Register correlationId(String id) {
        return set("correlation_id", id);
    }
}
