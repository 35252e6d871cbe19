package dev.waterclock.worker;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A worker as a process, which can be killed: {@code WorkerProcess BROKERS CHANNEL FILE [die]}. The file gets a line
 * for each call. With die it ends at once in its tenth call, between work and receipt.
 */
final class WorkerProcess {
    private WorkerProcess() {}

    public static void main(String[] args) {
        Path file = Path.of(args[2]);
        boolean die = args.length > 3;
        AtomicInteger calls = new AtomicInteger();
        Worker.builder(args[1], e -> {
            synchronized (calls) {
                Files.writeString(file, e.id() + " " + e.attempt() + "\n", StandardOpenOption.APPEND);
                if (calls.incrementAndGet() == 10 && die) {
                    Thread.sleep(500); // the receipts of those before stand by now
                    Runtime.getRuntime().halt(137);
                }
            }
            return Result.delivered();
        }).brokers(args[0]).concurrency(4).kafka(Map.of("session.timeout.ms", 6000)).build().run();
    }
}
