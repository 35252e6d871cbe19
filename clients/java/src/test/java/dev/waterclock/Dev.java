package dev.waterclock;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * A {@code waterclock dev}, which can be killed and started again, or an engine on real brokers. WATERCLOCK_BIN names
 * the binary.
 */
public final class Dev implements AutoCloseable {
    private static Dev shared;

    public final String http = "127.0.0.1:" + freePort();
    public final String kafka;
    private final Path data;
    private final List<String> command = new ArrayList<>();
    private final List<String> settings = new ArrayList<>();
    private Process process;

    public Dev(String... settings) {
        this("127.0.0.1:" + freePort(), settings);
        command.addAll(List.of("dev", "--kafka-listen", kafka));
    }

    private Dev(String kafka, String... settings) {
        this.kafka = kafka;
        Arrays.asList(settings).forEach(s -> this.settings.addAll(List.of("--set", s)));
        try {
            data = Files.createTempDirectory("waterclock-java-");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** An engine on these brokers, on topics of its own. It is started. */
    public static Dev serve(String brokers, String prefix, String... settings) throws Exception {
        Dev dev = new Dev(brokers, settings);
        dev.settings.addAll(List.of("--set", "topics.prefix=" + prefix, "--set", "topics.partitions=4", "--set",
                "group=" + prefix.replace(".", "")));
        List<String> apply = new ArrayList<>(List.of(binary(), "topics", "apply", "--brokers", brokers));
        apply.addAll(dev.settings);
        // Brokers that have much else to do may answer too late for one run of it.
        for (int tries = 1; run(apply) != 0; tries++) {
            if (tries == 10) {
                throw new AssertionError("topics apply failed");
            }
        }
        dev.command.addAll(List.of("serve", "--roles", "engine,api", "--brokers", brokers, "--admin-listen",
                "127.0.0.1:" + freePort()));
        dev.start();
        return dev;
    }

    private static int run(List<String> command) throws Exception {
        Process p = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        return p.waitFor(2, TimeUnit.MINUTES) ? p.exitValue() : -1;
    }

    private static String binary() {
        return System.getenv().getOrDefault("WATERCLOCK_BIN", "waterclock");
    }

    /** The one that tests share. It ends with the JVM. */
    public static synchronized Dev shared() {
        if (shared == null) {
            List<String> settings = new ArrayList<>();
            for (String channel : List.of("confirmed", "print", "work", "urgent", "kill", "two", "batch", "full",
                    "bulk", "meter")) {
                settings.add("channels." + channel + ".receipts=true");
            }
            settings.add("channels.urgent.high_lane=true");
            Dev dev = new Dev(settings.toArray(String[]::new));
            Runtime.getRuntime().addShutdownHook(new Thread(dev::close));
            dev.start();
            shared = dev;
        }
        return shared;
    }

    public String url() {
        return "http://" + http;
    }

    static int freePort() {
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return s.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public void start() {
        List<String> all = new ArrayList<>(List.of(binary()));
        all.addAll(command);
        all.addAll(List.of("--listen", http, "--data-dir", data.resolve("data").toString()));
        all.addAll(settings);
        File log = data.resolve("log").toFile();
        ProcessBuilder b = new ProcessBuilder(all).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log));
        b.environment().keySet().removeIf(name -> name.startsWith("WATERCLOCK_"));
        try {
            process = b.start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        await("dev is ready, see " + log, this::isReady);
    }

    private boolean isReady() {
        if (!process.isAlive()) {
            throw new AssertionError("dev has ended");
        }
        try {
            HttpRequest r = HttpRequest.newBuilder(URI.create(url() + "/readyz"))
                    .timeout(Duration.ofSeconds(5)).build();
            return HttpClient.newHttpClient().send(r, HttpResponse.BodyHandlers.discarding()).statusCode() == 200;
        } catch (IOException e) {
            return false;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * SIGSTOP, and wait until the last thread has stopped: until then it may still answer a request. What it has in
     * its hands stays there.
     */
    public void freeze() throws IOException, InterruptedException {
        int code = new ProcessBuilder("kill", "-STOP", Long.toString(process.pid())).inheritIO().start().waitFor();
        if (code != 0) {
            throw new IOException("kill -STOP ended with " + code);
        }
        Path threads = Path.of("/proc", Long.toString(process.pid()), "task");
        for (int i = 0; Files.exists(threads) && !allStopped(threads); i++) {
            if (i == 1_000) {
                throw new IOException("not all threads have stopped");
            }
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    /** Whether the state of each thread is T. It comes after the name, which is in parentheses: proc_pid_stat(5). */
    private static boolean allStopped(Path threads) throws IOException {
        try (Stream<Path> all = Files.list(threads)) {
            for (Path thread : all.toList()) {
                String stat = Files.readString(thread.resolve("stat"));
                if (stat.charAt(stat.lastIndexOf(')') + 2) != 'T') {
                    return false;
                }
            }
        } catch (NoSuchFileException e) {
            return false; // a thread has ended meanwhile
        }
        return true;
    }

    public void kill() {
        process.destroyForcibly();
        waitFor();
    }

    private void waitFor() {
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        if (process != null) {
            process.destroy();
            waitFor();
        }
        delete(data.toFile());
    }

    private static void delete(File f) {
        File[] children = f.listFiles();
        if (children != null) {
            Arrays.stream(children).forEach(Dev::delete);
        }
        f.delete();
    }

    /** Waits a minute at most. */
    public static void await(String what, BooleanSupplier done) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!done.getAsBoolean()) {
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("not within a minute: " + what);
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** A process of this JVM's kind with a main class of the tests. */
    public static ProcessBuilder java(Class<?> main, String... args) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m",
                "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(args));
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD);
    }

    static final Map<String, Object> NAMES = Map.of("tenant", "default");
}
