package dev.waterclock;

import dev.waterclock.internal.Json;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The server of one case of kind wire. */
final class Script implements AutoCloseable {
    private final List<Object> steps;
    private final Map<String, Object> names;
    private final ServerSocket server;
    final List<String> wrong = new ArrayList<>();
    int played;

    Script(List<Object> steps, Map<String, Object> names) throws IOException {
        this.steps = steps;
        this.names = names;
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    private static void daemon(Runnable r) {
        Thread t = new Thread(r);
        t.setDaemon(true);
        t.start();
    }

    String url() {
        return "http://127.0.0.1:" + server.getLocalPort();
    }

    private void accept() {
        try {
            while (true) {
                Socket s = server.accept();
                daemon(() -> serve(s));
            }
        } catch (IOException e) {
            // closed
        }
    }

    private void serve(Socket s) {
        try (s) {
            while (one(s)) {
                // the next request of this connection
            }
        } catch (IOException e) {
            // the client has gone
        }
    }

    /** One request; false ends the connection. */
    private boolean one(Socket s) throws IOException {
        InputStream in = s.getInputStream();
        String first = line(in);
        if (first == null) {
            return false;
        }
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String h = line(in); h != null && !h.isEmpty(); h = line(in)) {
            headers.put(h.substring(0, h.indexOf(':')), h.substring(h.indexOf(':') + 1).strip());
        }
        byte[] body = in.readNBytes(Integer.parseInt(headers.getOrDefault("Content-Length", "0")));
        Map<String, Object> step;
        synchronized (this) {
            if (played >= steps.size()) {
                wrong.add("one request too many: " + first);
                return false;
            }
            step = Json.object(steps.get(played++));
            try {
                check(Json.object(step.get("request")), first.split(" "), headers, body);
            } catch (RuntimeException | AssertionError e) {
                wrong.add(e.toString());
            }
        }
        return answer(Json.object(step.get("answer")), s);
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                return null;
            }
            b.write(c);
        }
        return b.toString(StandardCharsets.UTF_8).stripTrailing();
    }

    private void check(Map<String, Object> raw, String[] first, Map<String, String> headers, byte[] body) {
        Cases.known(raw, "method", "path", "query", "headers", "absent_headers", "body", "lines", "save_headers",
                "save_lines");
        object(raw, "save_headers").forEach((name, h) -> names.put("saved." + name, headers.get(h.toString())));
        Map<String, Object> want = Json.object(Cases.fill(raw, names));
        String[] target = first[1].split("\\?", 2);
        same("method", want.get("method"), first[0]);
        same("path", want.get("path"), target[0]);
        object(want, "headers").forEach((name, v) -> same(name, v, headers.get(name)));
        if (want.get("absent_headers") != null) {
            Json.list(want.get("absent_headers")).forEach(name -> same(name.toString(), null, headers.get(name)));
        }
        if (want.containsKey("query")) {
            Map<String, Object> query = query(target.length > 1 ? target[1] : "");
            same("names of the query", object(want, "query").keySet(), query.keySet());
            same("query", want.get("query"), query);
        }
        String text = new String(body, StandardCharsets.UTF_8);
        if (want.containsKey("body")) {
            if (!want.get("body").equals(Json.read(text))) {
                throw new AssertionError("body is " + text);
            }
        }
        if (want.containsKey("lines")) {
            List<Object> lines = text.lines().map(Json::read).toList();
            same("lines", want.get("lines"), lines);
            object(raw, "save_lines").forEach((name, at) -> names.put("saved." + name,
                    Json.object(lines.get(((Number) Json.list(at).get(0)).intValue())).get(Json.list(at).get(1))));
        }
    }

    private static Map<String, Object> object(Map<String, Object> of, String name) {
        return of.get(name) == null ? Map.of() : Json.object(of.get(name));
    }

    private static void same(String what, Object want, Object got) {
        String wrong = want instanceof java.util.Set<?> && !want.equals(got) ? what + " are " + got
                : want instanceof java.util.Set<?> ? null : Cases.mismatch(want, got, what);
        if (wrong != null) {
            throw new AssertionError(wrong);
        }
    }

    private static Map<String, Object> query(String text) {
        Map<String, Object> all = new LinkedHashMap<>();
        for (String part : text.split("&")) {
            if (!part.isEmpty()) {
                String[] kv = part.split("=", 2);
                String name = URLDecoder.decode(kv[0], StandardCharsets.UTF_8);
                all.putIfAbsent(name, new ArrayList<>());
                Json.list(all.get(name)).add(URLDecoder.decode(kv[1], StandardCharsets.UTF_8));
            }
        }
        return all;
    }

    private static boolean answer(Map<String, Object> answer, Socket s) throws IOException {
        Cases.known(answer, "status", "headers", "body", "text", "close", "content_length");
        if (!answer.containsKey("status")) {
            return false;
        }
        String text = answer.containsKey("body") ? Json.write(answer.get("body")) : Json.text(answer, "text");
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        StringBuilder head = new StringBuilder("HTTP/1.1 " + answer.get("status") + " Scripted\r\n");
        object(answer, "headers").forEach((name, v) -> head.append(name).append(": ").append(v).append("\r\n"));
        Object length = answer.getOrDefault("content_length", body.length);
        head.append("Content-Length: ").append(length).append("\r\n\r\n");
        s.getOutputStream().write(head.toString().getBytes(StandardCharsets.UTF_8));
        s.getOutputStream().write(body);
        s.getOutputStream().flush();
        return !Boolean.TRUE.equals(answer.get("close"));
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
