package dev.waterclock;

/**
 * The commands, which {@link WaterclockClient} sends by HTTP and {@link KafkaClient} by Kafka.
 *
 * @param <R> what a call returns
 */
public interface Commands<R> {
    /** Sends a command. The methods below are all made of it. */
    R send(Command command);

    /** Creates or replaces a trigger. */
    default R schedule(String id, Register trigger) {
        return schedule(id, trigger, Options.NONE);
    }

    default R schedule(String id, Register trigger, Options options) {
        return send(Command.schedule(id, trigger, options));
    }

    /** Ends a trigger. A second cancel succeeds too. */
    default R cancel(String id) {
        return cancel(id, Options.NONE);
    }

    default R cancel(String id, Options options) {
        return send(Command.cancel(id, options));
    }

    /** Replaces all of when, and nothing else: what is not set is not kept. A pause stays. */
    default R reschedule(String id, When when) {
        return reschedule(id, when, Options.NONE);
    }

    default R reschedule(String id, When when, Options options) {
        return send(Command.reschedule(id, when, options));
    }

    /** Moves a one-shot; adds an occurrence to a series. */
    default R snooze(String id, Snooze snooze) {
        return snooze(id, snooze, Options.NONE);
    }

    default R snooze(String id, Snooze snooze, Options options) {
        return send(Command.snooze(id, snooze, options));
    }

    /** Leaves out one occurrence of a series: a local date, a wall time or an instant; null is the next one. */
    default R skip(String id, String occurrence) {
        return skip(id, occurrence, Options.NONE);
    }

    default R skip(String id, String occurrence, Options options) {
        return send(Command.skip(id, occurrence, options));
    }

    /** No occurrences until resume. The note may be null. */
    default R pause(String id, String note) {
        return pause(id, note, Options.NONE);
    }

    default R pause(String id, String note, Options options) {
        return send(Command.pause(id, note, options));
    }

    /** Goes on; the misfire policy decides on what was missed. The note may be null. */
    default R resume(String id, String note) {
        return resume(id, note, Options.NONE);
    }

    default R resume(String id, String note, Options options) {
        return send(Command.resume(id, note, options));
    }

    /** Fires once now, off schedule. A second one fires a second time. */
    default R run(String id) {
        return run(id, Options.NONE);
    }

    default R run(String id, Options options) {
        return send(Command.run(id, options));
    }

    /** Moves a trigger with wall times to another zone. */
    default R rezone(String id, String timezone) {
        return rezone(id, timezone, Options.NONE);
    }

    default R rezone(String id, String timezone, Options options) {
        return send(Command.rezone(id, timezone, options));
    }

    /** The user reacted to an occurrence; null is whatever is in flight. It stops retries and escalation. */
    default R ack(String id, String occurrence) {
        return ack(id, occurrence, Options.NONE);
    }

    default R ack(String id, String occurrence, Options options) {
        return send(Command.ack(id, occurrence, options));
    }

    /** Cancels it and forgets its content. */
    default R erase(String id) {
        return erase(id, Options.NONE);
    }

    default R erase(String id, Options options) {
        return send(Command.erase(id, options));
    }
}
