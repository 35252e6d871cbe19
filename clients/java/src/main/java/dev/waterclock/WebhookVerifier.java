package dev.waterclock;

import dev.waterclock.internal.Json;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Checks the signatures of webhooks (Standard Webhooks), and reads them. Many threads may share it. */
public final class WebhookVerifier {
    private static final Pattern SECONDS = Pattern.compile("[0-9]{1,18}");
    private static final Pattern BASE64 =
            Pattern.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?");

    private final List<byte[]> keys = new ArrayList<>();
    private final Duration tolerance;
    private final Clock clock;

    /** One secret, or two while one replaces the other: {@code whsec_…}, also in one text with a comma. */
    public WebhookVerifier(String... secrets) {
        this(Duration.ofMinutes(5), Clock.systemUTC(), secrets);
    }

    /** The tolerance is how far a timestamp may be from now, on either side. It bounds replays. */
    public WebhookVerifier(Duration tolerance, Clock clock, String... secrets) {
        this.tolerance = tolerance;
        this.clock = clock;
        for (String text : secrets) {
            for (String secret : text.split(",", -1)) {
                keys.add(key(secret.strip()));
            }
        }
        if (keys.isEmpty()) {
            throw new BadSignatureException("bad_secret", "no secret was given");
        }
    }

    private static byte[] key(String secret) {
        String text = secret.startsWith("whsec_") ? secret.substring("whsec_".length()) : secret;
        if (text.isEmpty() || !BASE64.matcher(text).matches()) {
            throw new BadSignatureException("bad_secret", "a secret is whsec_ and base64"); // never with its text
        }
        return Base64.getDecoder().decode(text);
    }

    /**
     * The webhook-id of a request that one of the secrets has signed.
     *
     * @param headers finds a header by its name, such as {@code request::getHeader}
     * @param body the bytes as they came: JSON that was read and written anew has another signature
     * @throws BadSignatureException otherwise
     */
    public String verify(Function<String, String> headers, byte[] body) {
        String id = header(headers, "webhook-id");
        String at = header(headers, "webhook-timestamp");
        String signatures = header(headers, "webhook-signature");
        if (id.isEmpty() || at.isEmpty() || signatures.isEmpty()) {
            throw new BadSignatureException("missing_header",
                    "webhook-id, webhook-timestamp or webhook-signature is missing");
        }
        if (!SECONDS.matcher(at).matches()) {
            throw new BadSignatureException("timestamp", "webhook-timestamp is no number of seconds");
        }
        long age = clock.instant().getEpochSecond() - Long.parseLong(at);
        if (Math.abs(age) > tolerance.toSeconds()) {
            throw new BadSignatureException("timestamp", "webhook-timestamp is " + Math.abs(age) + " s "
                    + (age > 0 ? "ago" : "ahead") + "; at most " + tolerance.toSeconds() + " s are allowed");
        }
        byte[] head = (id + "." + at + ".").getBytes(StandardCharsets.UTF_8);
        boolean valid = false;
        for (byte[] key : keys) {
            byte[] want = Base64.getEncoder().encode(sign(key, head, body));
            for (String part : signatures.split(" ")) {
                // No early end: the time says nothing.
                valid |= part.startsWith("v1,")
                        && MessageDigest.isEqual(want, part.substring(3).getBytes(StandardCharsets.UTF_8));
            }
        }
        if (!valid) {
            throw new BadSignatureException("no_match", "no signature fits");
        }
        return id;
    }

    /** The same with headers by name; case does not count. */
    public String verify(Map<String, String> headers, byte[] body) {
        return verify(finder(headers), body);
    }

    /** Verifies a request and reads it. Answer 2xx once the work is durable. */
    public Webhook read(Function<String, String> headers, byte[] body) {
        String id = verify(headers, body);
        String attempt = header(headers, "X-Trigger-Attempt");
        int number = attempt.matches("[0-9]{1,9}") ? Integer.parseInt(attempt) : 1;
        String named = unescape(header(headers, "X-Trigger-Id"));
        try {
            // With callback.body raw the payload may have a member triggerId of its own, so the id has to be that of
            // the header.
            if (Json.read(body) instanceof Map<?, ?> m && m.get("triggerId") instanceof String triggerId
                    && (named.isEmpty() || named.equals(triggerId))) {
                if (m.get("payload_base64") instanceof String s) {
                    return new Webhook(id, triggerId, number, null, Base64.getDecoder().decode(s), body);
                }
                if (m.containsKey("payload")) {
                    return new Webhook(id, triggerId, number, m.get("payload"), null, body);
                }
            }
        } catch (IllegalArgumentException e) {
            // callback.body raw, and no JSON or no base64
        }
        return new Webhook(id, named, number, null, body, body);
    }

    public Webhook read(Map<String, String> headers, byte[] body) {
        return read(finder(headers), body);
    }

    private static String unescape(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            return text;
        }
    }

    private static Function<String, String> finder(Map<String, String> headers) {
        Map<String, String> found = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        found.putAll(headers);
        return found::get;
    }

    private static String header(Function<String, String> headers, String name) {
        String v = headers.apply(name);
        return v == null ? "" : v;
    }

    private static byte[] sign(byte[] key, byte[] head, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(head);
            return mac.doFinal(body);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * One verified request. Deduplicate by id: it is the same for every attempt. The attempt is not signed; nor is
     * the trigger id with callback.body raw.
     *
     * @param payload as JSON: Map, List, text, number; null if it is bytes
     * @param bytes   a payload that is not JSON; with callback.body raw the body; else null
     * @param body    the body as it came
     */
    public record Webhook(String id, String triggerId, int attempt, Object payload, byte[] bytes, byte[] body) {}
}
