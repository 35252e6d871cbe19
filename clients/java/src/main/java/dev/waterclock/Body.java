package dev.waterclock;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The body of an answer, piece by piece, as it comes. It may take as long as it likes, but it must not be silent. What
 * is held of it is bounded.
 */
final class Body implements Flow.Subscriber<List<ByteBuffer>> {
    private static final Duration QUIET = Duration.ofSeconds(60); // streams of the server speak more often
    private static final Object END = new Object();

    private final int most;
    private final BlockingQueue<Object> pieces = new LinkedBlockingQueue<>();
    private volatile Flow.Subscription subscription;
    private ByteArrayOutputStream rest = new ByteArrayOutputStream(); // of a line that has not ended
    private int held; // bytes of the lines since the last release

    Body(int most) {
        this.most = most;
    }

    @Override
    public void onSubscribe(Flow.Subscription s) {
        subscription = s;
        s.request(1);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        byte[] piece = new byte[buffers.stream().mapToInt(ByteBuffer::remaining).sum()];
        int at = 0;
        for (ByteBuffer b : buffers) {
            int n = b.remaining();
            b.get(piece, at, n);
            at += n;
        }
        pieces.add(piece);
    }

    @Override
    public void onError(Throwable e) {
        pieces.add(e);
    }

    @Override
    public void onComplete() {
        pieces.add(END);
    }

    void cancel() {
        if (subscription != null) {
            subscription.cancel();
        }
        pieces.add(END);
    }

    /**
     * Passes on the lines that end in the next piece. False at the end. A line that cannot be read says that the answer
     * is none of the API's, and so does one of which too much would be held.
     */
    boolean lines(Http.Attempts attempts, Consumer<String> to) throws IOException {
        byte[] piece = next(QUIET);
        if (piece == null) {
            return false;
        }
        return attempts.read(() -> {
            int from = 0;
            for (int i = 0; i < piece.length; i++) {
                if (piece[i] == '\n') {
                    rest.write(piece, from, i - from);
                    from = i + 1;
                    to.accept(line());
                }
            }
            rest.write(piece, from, piece.length - from);
            check(rest.size());
            return true;
        });
    }

    private String line() {
        check(rest.size() + 1);
        held += rest.size() + 1;
        byte[] line = rest.toByteArray();
        rest = new ByteArrayOutputStream();
        int end = line.length > 0 && line[line.length - 1] == '\r' ? line.length - 1 : line.length;
        return new String(line, 0, end, StandardCharsets.UTF_8);
    }

    private void check(int more) {
        if (more > most - held) {
            throw Http.tooLong(most);
        }
    }

    /** The lines so far are the caller's, and held no more. */
    void release() {
        held = 0;
    }

    /** Whether it ended, or was cut off, within a line. */
    boolean withinLine() {
        return rest.size() > 0;
    }

    /** All of it: an error's body, or as much as came of it in that time. Null if it is longer than may be. */
    byte[] all(Duration within) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        long end = System.nanoTime() + within.toNanos();
        try {
            for (byte[] piece = nextBy(end); piece != null; piece = nextBy(end)) {
                if (piece.length > most - out.size()) {
                    return null;
                }
                out.writeBytes(piece);
            }
        } catch (IOException e) {
            return out.toByteArray();
        }
        return out.toByteArray();
    }

    /** Waits a moment for the end, so that the connection serves the next request too. */
    void finish() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
        try {
            while (nextBy(end) != null) {
                // What follows the last line is of no use.
            }
        } catch (IOException e) {
            cancel();
        }
    }

    private byte[] nextBy(long end) throws IOException {
        long left = end - System.nanoTime();
        if (left <= 0) {
            throw new IOException("it has not ended");
        }
        return next(Duration.ofNanos(left));
    }

    /** The next piece; null at the end. */
    private byte[] next(Duration quiet) throws IOException {
        Object piece;
        try {
            piece = pieces.poll(quiet.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
        if (piece instanceof byte[] bytes) {
            subscription.request(1);
            return bytes;
        }
        if (piece instanceof Throwable e) {
            throw new IOException("the stream ended", e);
        }
        if (piece == null) {
            cancel();
            throw new IOException("the stream was silent for " + quiet);
        }
        return null;
    }
}
