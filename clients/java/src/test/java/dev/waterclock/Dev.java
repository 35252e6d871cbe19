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
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** A {@code waterclock dev}, which can be killed and started again. WATERCLOCK_BIN names the binary. */
public final class Dev implements AutoCloseable {
    private static Dev shared;

    public final String http = "127.0.0.1:" + freePort();
    public final String kafka = "127.0.0.1:" + freePort();
    private final Path data;
    private final List<String> settings;
    private Process process;

    public Dev(String... settings) {
        this.settings = Arrays.asList(settings);
        try {
            data = Files.createTempDirectory("waterclock-java-");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
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
        String bin = System.getenv().getOrDefault("WATERCLOCK_BIN", "waterclock");
        List<String> command = new ArrayList<>(List.of(bin, "dev", "--listen", http, "--kafka-listen", kafka,
                "--data-dir", data.resolve("data").toString()));
        settings.forEach(s -> command.addAll(List.of("--set", s)));
        File log = data.resolve("log").toFile();
        ProcessBuilder b = new ProcessBuilder(command).redirectErrorStream(true)
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
