package dev.waterclock.worker;

import java.time.Duration;
import java.util.Objects;

/**
 * What became of a due event. Code is for machines (128 bytes), detail for people (1,024 bytes); more is cut. Both end
 * up in the event log: put no secret into them.
 */
public record Result(Outcome outcome, Duration after, String code, String detail) {
    private static final Duration MAX_AFTER = Duration.ofDays(30);

    /** The outcomes of a receipt. */
    public enum Outcome {
        DELIVERED, ACCEPTED, FAILED, RETRY, POSTPONED, SUPPRESSED;

        final String text = name().toLowerCase(java.util.Locale.ROOT);

        /** After these an event is not handled again. */
        boolean isFinal() {
            return this == DELIVERED || this == ACCEPTED || this == SUPPRESSED;
        }

        static Outcome of(String text) {
            for (Outcome o : values()) {
                if (o.text.equals(text)) {
                    return o;
                }
            }
            return null;
        }
    }

    public Result {
        Objects.requireNonNull(outcome);
        code = code == null ? "" : code;
        detail = detail == null ? "" : detail;
        after = after == null || after.isNegative() ? Duration.ZERO : after;
        after = after.compareTo(MAX_AFTER) > 0 ? MAX_AFTER : after;
    }

    private static final Result DELIVERED = new Result(Outcome.DELIVERED, Duration.ZERO, "", "");
    private static final Result ACCEPTED = new Result(Outcome.ACCEPTED, Duration.ZERO, "", "");

    /** The receiver has it. It ends an escalation. */
    public static Result delivered() {
        return DELIVERED;
    }

    /** A provider has taken it over. */
    public static Result accepted() {
        return ACCEPTED;
    }

    /** Another attempt, after the profile of the channel. */
    public static Result retry() {
        return retry(Duration.ZERO);
    }

    /** Another attempt, after so long; zero is the profile of the channel. */
    public static Result retry(Duration after) {
        return new Result(Outcome.RETRY, after, "", "");
    }

    /** No attempt can succeed: a dead letter. */
    public static Result fail(String code, String detail) {
        return new Result(Outcome.FAILED, Duration.ZERO, code, detail);
    }

    /** Not now: the same attempt after so long. */
    public static Result postpone(Duration after, String code) {
        return new Result(Outcome.POSTPONED, after, code, "");
    }

    /** It is not to be delivered, such as after an opt-out. */
    public static Result suppress(String code) {
        return new Result(Outcome.SUPPRESSED, Duration.ZERO, code, "");
    }

    public Result withCode(String code) {
        return new Result(outcome, after, code, detail);
    }

    public Result withDetail(String detail) {
        return new Result(outcome, after, code, detail);
    }

    static Result noResult() {
        return retry().withCode("no_result")
                .withDetail("the handler returned null: return Result.delivered() or another one");
    }
}
