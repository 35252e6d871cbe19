package dev.waterclock;

import dev.waterclock.internal.Json;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** The answer to a redrive: lines of progress, as they come. A problem is of one letter, unless it is the last line. */
final class RedriveLines implements Http.Streamed<Redrive> {
    private final Consumer<Redrive> progress; // null: nobody listens
    private final List<ApiException> all; // refusals of all of it; null: a filter may leave a million
    private final Deque<Redrive> found = new ArrayDeque<>();
    private List<ApiException> refused = new ArrayList<>(); // since the last progress

    RedriveLines(Consumer<Redrive> progress, boolean keepRefusals) {
        this.progress = progress;
        all = keepRefusals ? new ArrayList<>() : null;
    }

    @Override
    public Redrive read(Body body, Http.Attempts attempts) {
        while (piece(body, attempts)) {
            while (!found.isEmpty()) {
                Redrive next = found.remove();
                if (progress != null) {
                    progress.accept(next);
                }
                if (next.done()) {
                    body.finish();
                    return all == null ? next : new Redrive(next.raw(), all);
                }
            }
        }
        if (refused.isEmpty() || body.withinLine()) {
            throw attempts.brokenOff(null);
        }
        return attempts.read(() -> {
            throw refused.get(refused.size() - 1);
        });
    }

    /** Reads one piece. False at the end. */
    private boolean piece(Body body, Http.Attempts attempts) {
        try {
            return body.lines(attempts, text -> line(text, body, attempts));
        } catch (IOException e) {
            throw attempts.brokenOff(e);
        }
    }

    private void line(String text, Body body, Http.Attempts attempts) {
        if (text.isBlank()) {
            return;
        }
        Map<String, Object> o = Json.object(Json.read(text));
        if (!o.containsKey("code")) {
            found.add(new Redrive(o, List.copyOf(refused)));
            refused = new ArrayList<>();
            if (all == null) { // else all of it is held until its end
                body.release();
            }
            return;
        }
        ApiException e = ApiException.of(new ApiException.Info((int) Json.integer(o, "status"), o, Duration.ZERO, "",
                null));
        attempts.note(e);
        refused.add(e);
        if (all != null) {
            all.add(e);
        }
    }
}
