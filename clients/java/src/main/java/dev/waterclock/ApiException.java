package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Duration;
import java.util.Map;
import java.util.Set;

/**
 * A request that was refused, or had no answer. The subclass follows from {@link #code}; for a code of a newer server,
 * from {@link #status}.
 */
public class ApiException extends WaterclockException {
    private static final long serialVersionUID = 1L;

    private final int status;
    private final transient Map<String, Object> problem;
    private final Duration retryAfter;
    private final String requestId;
    private int attempts;
    private boolean maybeApplied;

    ApiException(Info info) {
        super(message(info), info.cause);
        status = info.status;
        problem = info.problem;
        retryAfter = info.retryAfter;
        requestId = info.requestId;
    }

    /** What all of them are made of. */
    record Info(int status, Map<String, Object> problem, Duration retryAfter, String requestId, Throwable cause) {}

    private static String message(Info info) {
        String code = Json.text(info.problem, "code");
        String field = Json.text(info.problem, "field");
        String detail = Json.text(info.problem, "detail");
        String head = (code.isEmpty() ? "status " + info.status : code) + (field.isEmpty() ? "" : " (" + field + ")");
        return detail.isEmpty() ? head : head + ": " + detail;
    }

    /** The status of the answer; 0 if there was none, or if the client itself refused. */
    public int status() {
        return status;
    }

    /** The problem's code, such as {@code unknown_zone}; "" if it has none. */
    public String code() {
        return Json.text(problem, "code");
    }

    /** The field at fault; "" if it is not about one. */
    public String field() {
        return Json.text(problem, "field");
    }

    public String detail() {
        return Json.text(problem, "detail");
    }

    /** The trigger, where one was named or made. */
    public String triggerId() {
        return Json.text(problem, "trigger_id");
    }

    /** The trigger's state, where that is the reason. */
    public String state() {
        return Json.text(problem, "state");
    }

    /** All of the problem (RFC 9457). */
    public Map<String, Object> problem() {
        return problem;
    }

    /** From header Retry-After; zero without one. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Header X-Request-Id of the answer. */
    public String requestId() {
        return requestId;
    }

    /** How many requests were sent. */
    public int attempts() {
        return attempts;
    }

    /** Whether the write may have been applied: an answer was lost, or was 5xx or 408, in any of the attempts. */
    public boolean maybeApplied() {
        return maybeApplied;
    }

    ApiException noted(int attempts, boolean maybeApplied) {
        this.attempts = attempts;
        this.maybeApplied = maybeApplied;
        return this;
    }

    /** The request has to be written otherwise. A repeat cannot help. */
    public static class InvalidRequest extends ApiException {
        private static final long serialVersionUID = 1L;

        InvalidRequest(Info info) {
            super(info);
        }
    }

    /** No such trigger, or it has ended: {@link #state} says how. */
    public static class NotFound extends ApiException {
        private static final long serialVersionUID = 1L;

        NotFound(Info info) {
            super(info);
        }
    }

    /** Too late. */
    public static class AlreadyFired extends ApiException {
        private static final long serialVersionUID = 1L;

        AlreadyFired(Info info) {
            super(info);
        }
    }

    /** A condition does not hold. With {@link #maybeApplied} this may be the request's own effect. */
    public static class Conflict extends ApiException {
        private static final long serialVersionUID = 1L;

        Conflict(Info info) {
            super(info);
        }
    }

    /** Payload, headers or body are over a limit. */
    public static class TooLarge extends ApiException {
        private static final long serialVersionUID = 1L;

        TooLarge(Info info) {
            super(info);
        }
    }

    /** No credential, or a bad one. */
    public static class Unauthenticated extends ApiException {
        private static final long serialVersionUID = 1L;

        Unauthenticated(Info info) {
            super(info);
        }
    }

    /** The caller may not: role, channel or callback. */
    public static class Forbidden extends ApiException {
        private static final long serialVersionUID = 1L;

        Forbidden(Info info) {
            super(info);
        }
    }

    /** A limit of the tenant; {@link #retryAfter} says when there is room. */
    public static class QuotaExceeded extends ApiException {
        private static final long serialVersionUID = 1L;

        QuotaExceeded(Info info) {
            super(info);
        }
    }

    /** Not accepted, or not known to be; with status 0 no answer came. */
    public static class Unavailable extends ApiException {
        private static final long serialVersionUID = 1L;

        Unavailable(Info info) {
            super(info);
        }
    }

    /** A fault of the server, or an answer that is none of its API's. */
    public static class ServerError extends ApiException {
        private static final long serialVersionUID = 1L;

        ServerError(Info info) {
            super(info);
        }
    }

    // The codes of an invalid request, for which the status does not count.
    private static final Set<String> INVALID = Set.of(
            "invalid", "invalid_key", "not_a_command", "ambiguous_tombstone", "unknown_field", "unknown_op",
            "unknown_zone", "unknown_channel", "invalid_rule", "disputed_rule", "period_too_short", "no_occurrences",
            "conflicting_time", "in_the_past", "beyond_horizon", "unsupported", "malformed", "method_not_allowed");

    static ApiException of(Info info) {
        String code = Json.text(info.problem, "code");
        if (INVALID.contains(code)) {
            return new InvalidRequest(info);
        }
        return switch (code) {
            case "not_found" -> new NotFound(info);
            case "already_fired" -> new AlreadyFired(info);
            case "conflict", "idempotency_conflict", "superseded" -> new Conflict(info);
            case "too_large" -> new TooLarge(info);
            case "unauthenticated" -> new Unauthenticated(info);
            case "forbidden", "forbidden_url", "forbidden_channel" -> new Forbidden(info);
            case "quota_exceeded" -> new QuotaExceeded(info);
            case "unavailable", "overloaded", "not_owner", "misrouted" -> new Unavailable(info);
            case "internal" -> new ServerError(info);
            default -> byStatus(info);
        };
    }

    private static ApiException byStatus(Info info) {
        return switch (info.status) {
            case 0, 502, 503, 504 -> new Unavailable(info);
            case 401 -> new Unauthenticated(info);
            case 403 -> new Forbidden(info);
            case 404 -> new NotFound(info);
            case 409, 412 -> new Conflict(info);
            case 413 -> new TooLarge(info);
            case 429 -> new QuotaExceeded(info);
            default -> info.status >= 400 && info.status < 500 ? new InvalidRequest(info) : new ServerError(info);
        };
    }

    /** What the client itself refuses. */
    static ApiException refuse(String code, String field, String detail) {
        return of(new Info(0, Map.of("code", code, "field", field, "detail", detail), Duration.ZERO, "", null));
    }

    /** A problem of the client's own. */
    static ApiException of(int status, String detail, Throwable cause) {
        return of(status, "", detail, cause);
    }

    static ApiException of(int status, String code, String detail, Throwable cause) {
        return of(new Info(status, Map.of("code", code, "detail", detail), Duration.ZERO, "", cause));
    }
}
