package dev.waterclock.worker;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A worker as a process, which can be killed: {@code WorkerProcess BROKERS PREFIX CHANNEL FILE SESSION_MS [die]}. FILE
 * gets a line for each call, and FILE.ready is made once it has partitions. With die it ends at once in its tenth call,
 * between work and receipt.
 */
final class WorkerProcess {
    private WorkerProcess() {}

    public static void main(String[] args) {
        Path file = Path.of(args[3]);
        Path ready = Path.of(args[3] + ".ready");
        boolean die = args.length > 5;
        AtomicInteger calls = new AtomicInteger();
        Worker[] self = new Worker[1];
        Metrics whenReady = new Metrics() {
            @Override
            public void load(Load load) {
                if (load.assigned() > 0 && load.held() == 0 && !Files.exists(ready)) {
                    try {
                        Files.createFile(ready);
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                }
            }
        };
        self[0] = Worker.builder(args[2], e -> {
            synchronized (calls) {
                Files.writeString(file, e.id() + " " + e.attempt() + "\n", StandardOpenOption.APPEND);
                if (calls.incrementAndGet() == 10 && die) {
                    long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
                    while (self[0].stats().get("pending") > 0 && System.nanoTime() - end < 0) {
                        Thread.sleep(10); // until the receipts of those before stand
                    }
                    Runtime.getRuntime().halt(137);
                }
            }
            return Result.delivered();
        }).brokers(args[0]).prefix(args[1]).group(args[1].replace(".", "")).concurrency(4)
                .commitInterval(Duration.ofMillis(200)).metrics(whenReady)
                .kafka(Map.of("session.timeout.ms", Integer.parseInt(args[4]))).build();
        self[0].run();
    }
}
