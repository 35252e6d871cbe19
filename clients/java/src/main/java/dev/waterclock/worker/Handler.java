package dev.waterclock.worker;

/** Does the work of one due event. It tries once and returns: the waiting is the engine's. */
@FunctionalInterface
public interface Handler {
    /** Whatever it throws becomes a retry; null is a retry too, code {@code no_result}. */
    Result handle(DueEvent event) throws Exception;
}
