package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The programs of the documents, as they are printed there but for addresses. */
@Timeout(120)
class DocsTest {
    private static final Path GUIDE = Path.of("../../docs/api/java.md");
    private static final Path TASKS = Path.of("../../docs/api/tasks.md");
    private static final Dev DEV = Dev.shared();

    @TempDir
    Path dir;

    private static String block(Path page, String kind, String with) throws IOException {
        return blocks(page, kind).stream().filter(text -> text.contains(with)).findFirst()
                .orElseThrow(() -> new AssertionError(page + " has no block with " + with));
    }

    private static List<String> blocks(Path page, String kind) throws IOException {
        List<String> all = new ArrayList<>();
        String opened = null; // the kind of the block that we are in
        StringBuilder text = new StringBuilder();
        for (String line : Files.readAllLines(page)) {
            if (opened == null && line.startsWith("```")) {
                opened = line.substring(3);
                text.setLength(0);
            } else if (opened != null && line.equals("```")) {
                if (opened.equals(kind)) {
                    all.add(text.toString());
                }
                opened = null;
            } else {
                text.append(line).append('\n');
            }
        }
        return all;
    }

    private Process start(Path page, String name, String port) throws IOException {
        return run(name, block(page, "java", "class " + name), port);
    }

    private Process run(String name, String program, String port) throws IOException {
        Path file = dir.resolve(name + ".java");
        Files.writeString(file, program.replace("127.0.0.1:8080", DEV.http)
                .replace("127.0.0.1:9092", DEV.kafka).replace("9000", port));
        List<String> command = new ArrayList<>(Dev.java(Object.class).command());
        command.set(command.size() - 1, file.toString());
        ProcessBuilder b = new ProcessBuilder(command).redirectOutput(out().toFile())
                .redirectError(ProcessBuilder.Redirect.DISCARD);
        b.environment().put("WEBHOOK_SECRET", "whsec_" + Base64.getEncoder().encodeToString(KEY));
        return b.start();
    }

    private Path out() {
        return dir.resolve("out");
    }

    private boolean printed(String text) {
        try {
            return Files.readString(out()).contains(text);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static final byte[] KEY = "0123456789abcdef01234567".getBytes(StandardCharsets.US_ASCII);

    @Test
    void readme() throws Exception {
        Process p = start(Path.of("README.md"), "Example", "");
        try {
            Dev.await("it prints", () -> printed("hello: Take pills\n"));
        } finally {
            p.destroy();
            assertTrue(p.waitFor(40, TimeUnit.SECONDS));
        }
    }

    @Test
    void calls() throws Exception {
        Process p = start(GUIDE, "Calls", "");
        assertTrue(p.waitFor(100, TimeUnit.SECONDS));
        assertEquals(block(GUIDE, "", "unknown_zone"), Files.readString(out()));
        assertEquals(0, p.exitValue());
    }

    /** The blocks of the page of tasks are one program, which prints what its lines promise, in order. */
    @Test
    void tasks() throws Exception {
        List<String> blocks = blocks(TASKS, "java");
        assertEquals(6, blocks.size());
        String program = String.join("\n", blocks).replace("hold-8c4", "hold-java").replace("pills-u81", "pills-java")
                .replace("u_81", "u_java");
        Process p = run("Tasks", program + "}}\n", "");
        assertTrue(p.waitFor(100, TimeUnit.SECONDS));
        String printed = Files.readString(out());
        int at = 0;
        for (String line : program.split("\n")) {
            int promise = line.indexOf(" //= ");
            if (promise >= 0) {
                String want = line.substring(promise + " //= ".length());
                int found = printed.indexOf(want, at);
                assertTrue(found >= 0, want + " is not behind byte " + at + " of " + printed);
                at = found + want.length();
            }
        }
        assertTrue(at > 0);
        assertEquals(0, p.exitValue());
    }

    @Test
    void worker() throws Exception {
        WaterclockClient.of(DEV.url()).schedule("java-print", Register.in(Duration.ZERO).channel("print")
                .payload("hello"));
        Process p = start(GUIDE, "Print", "");
        try {
            Dev.await("it prints", () -> printed(" attempt 1: \"hello\"\n"));
        } finally {
            p.destroy();
            assertTrue(p.waitFor(40, TimeUnit.SECONDS));
        }
    }

    @Test
    void receiver() throws Exception {
        int port = Dev.freePort();
        Process p = start(GUIDE, "Receiver", Integer.toString(port));
        try {
            String body = "{\"triggerId\":\"hold-1\",\"payload\":\"ä\"}";
            Dev.await("it listens", () -> post(port, body, body) > 0);
            assertEquals(204, post(port, body, body));
            assertEquals(401, post(port, body, body + " "));
            Dev.await("it prints", () -> printed("hold-1 ä\n"));
        } finally {
            p.destroyForcibly();
            assertTrue(p.waitFor(40, TimeUnit.SECONDS));
        }
    }

    /** The status of a request with a signature; 0 if nobody is there. */
    private static int post(int port, String signed, String sent) {
        try {
            long now = Instant.now().getEpochSecond();
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
            byte[] sum = mac.doFinal(("m1." + now + "." + signed).getBytes(StandardCharsets.UTF_8));
            HttpRequest r = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/"))
                    .header("webhook-id", "m1").header("webhook-timestamp", Long.toString(now))
                    .header("webhook-signature", "v1," + Base64.getEncoder().encodeToString(sum))
                    .POST(HttpRequest.BodyPublishers.ofString(sent)).build();
            return HttpClient.newHttpClient().send(r, HttpResponse.BodyHandlers.discarding()).statusCode();
        } catch (IOException e) {
            return 0;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }
}
