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

/** The body of an answer, piece by piece, as it comes. It may take as long as it likes, but it must not be silent. */
final class Body implements Flow.Subscriber<List<ByteBuffer>> {
    private static final Duration QUIET = Duration.ofSeconds(60); // streams of the server speak more often
    private static final Object END = new Object();

    private final BlockingQueue<Object> pieces = new LinkedBlockingQueue<>();
    private volatile Flow.Subscription subscription;
    private byte[] rest = new byte[0]; // of a line that has not ended

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

    /** Passes on the lines that end in the next piece. False at the end. */
    boolean lines(Consumer<String> to) throws IOException {
        byte[] piece = next(QUIET);
        if (piece == null) {
            return false;
        }
        byte[] all = new byte[rest.length + piece.length];
        System.arraycopy(rest, 0, all, 0, rest.length);
        System.arraycopy(piece, 0, all, rest.length, piece.length);
        int begun = rest.length;
        int from = 0;
        for (int i = begun; i < all.length; i++) {
            if (all[i] == '\n') {
                int end = i > from && all[i - 1] == '\r' ? i - 1 : i;
                to.accept(new String(all, from, end - from, StandardCharsets.UTF_8));
                from = i + 1;
            }
        }
        rest = java.util.Arrays.copyOfRange(all, from, all.length);
        return true;
    }

    /** Whether it ended, or was cut off, within a line. */
    boolean withinLine() {
        return rest.length > 0;
    }

    /** All of it: an error's body, or as much as came of it. */
    byte[] all() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try {
            for (byte[] piece = next(QUIET); piece != null; piece = next(QUIET)) {
                out.writeBytes(piece);
            }
        } catch (IOException e) {
            return out.toByteArray();
        }
        return out.toByteArray();
    }

    /** Waits a moment for the end, so that the connection serves the next request too. */
    void finish() {
        try {
            while (next(Duration.ofSeconds(1)) != null) {
                // What follows the last line is of no use.
            }
        } catch (IOException e) {
            cancel();
        }
    }

    /** The next piece; null at the end. */
    private byte[] next(Duration quiet) throws IOException {
        Object piece;
        try {
            piece = pieces.poll(quiet.toMillis(), TimeUnit.MILLISECONDS);
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
