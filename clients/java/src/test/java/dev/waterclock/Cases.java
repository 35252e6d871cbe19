package dev.waterclock;

import dev.waterclock.internal.Json;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.DateTimeException;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** clients/conformance/cases.jsonl and its language of expectations; the README beside it is what this follows. */
public final class Cases {
    private static final Path FILE = Path.of("../conformance/cases.jsonl");
    private static final Set<String> KINDS =
            Set.of("http", "wire", "command", "signature", "receipt", "due", "memory");
    private static final Pattern PLACEHOLDER = Pattern.compile("\\{([a-z]+)(?::(.*))?}", Pattern.DOTALL);
    private static final Pattern INSTANT = Pattern.compile("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z");

    private Cases() {}

    /** A test for each case of a kind. It fails for a line of a kind that nobody runs, and for a kind without cases. */
    public static Stream<DynamicTest> of(String kind, Consumer<Map<String, Object>> run) {
        List<DynamicTest> tests = new ArrayList<>();
        try {
            for (String line : Files.readAllLines(FILE)) {
                Map<String, Object> c = Json.object(Json.read(line));
                if (!KINDS.contains(c.get("kind"))) {
                    throw new AssertionError("nobody runs kind " + c.get("kind"));
                }
                if (kind.equals(c.get("kind"))) {
                    tests.add(DynamicTest.dynamicTest((String) c.get("name"), () -> run.accept(c)));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        if (tests.isEmpty()) {
            throw new AssertionError("no case of kind " + kind);
        }
        return tests.stream();
    }

    /** Fails for a field that the runner does not know. */
    public static void known(Map<String, Object> object, String... names) {
        for (String name : object.keySet()) {
            if (!List.of(names).contains(name)) {
                throw new AssertionError("unknown field " + name);
            }
        }
    }

    /** The value with {run}, {tenant} and {saved.x} replaced in all its strings, names of fields too. */
    public static Object fill(Object value, Map<String, Object> names) {
        if (value instanceof String s) {
            for (Map.Entry<String, Object> e : names.entrySet()) {
                s = s.replace("{" + e.getKey() + "}", String.valueOf(e.getValue()));
            }
            return s;
        }
        if (value instanceof List<?> l) {
            List<Object> all = new ArrayList<>();
            l.forEach(v -> all.add(fill(v, names)));
            return all;
        }
        if (value instanceof Map<?, ?> m) {
            Map<String, Object> all = new LinkedHashMap<>();
            m.forEach((k, v) -> all.put((String) fill(k, names), fill(v, names)));
            return all;
        }
        return value;
    }

    /** Why got does not match; null if it does. */
    public static String mismatch(Object want, Object got, String at) {
        if (want instanceof String s) {
            return text(s, got) ? null : at + " is " + show(got) + ", want " + s;
        }
        if (want instanceof Map<?, ?> m) {
            if (!(got instanceof Map<?, ?> g)) {
                return at + " is " + show(got) + ", want an object";
            }
            for (Map.Entry<?, ?> e : m.entrySet()) {
                String wrong = mismatch(e.getValue(), g.get(e.getKey()), at + "." + e.getKey());
                if (wrong != null) {
                    return wrong;
                }
            }
            return null;
        }
        if (want instanceof List<?> l) {
            if (!(got instanceof List<?> g) || g.size() != l.size()) {
                return at + " is " + show(got) + ", want " + l.size() + " items";
            }
            for (int i = 0; i < l.size(); i++) {
                String wrong = mismatch(l.get(i), g.get(i), at + "[" + i + "]");
                if (wrong != null) {
                    return wrong;
                }
            }
            return null;
        }
        return same(want, got) ? null : at + " is " + show(got) + ", want " + show(want);
    }

    private static boolean same(Object want, Object got) {
        if (want instanceof Number a && got instanceof Number b) {
            return new BigDecimal(a.toString()).compareTo(new BigDecimal(b.toString())) == 0;
        }
        return Objects.equals(want, got);
    }

    private static String show(Object v) {
        String s = String.valueOf(v);
        return s.length() > 1000 ? s.substring(0, 1000) + "…" : s;
    }

    private static boolean text(String want, Object got) {
        Matcher m = PLACEHOLDER.matcher(want);
        if (!m.matches()) {
            return want.equals(got) || got instanceof String s && sameInstant(want, s);
        }
        String arg = m.group(2);
        return switch (m.group(1)) {
            case "any" -> got != null;
            case "absent" -> got == null;
            case "instant" -> got instanceof String s && INSTANT.matcher(s).matches();
            case "re" -> got instanceof String s && Pattern.compile(arg).matcher(s).find();
            case "len" -> got instanceof List<?> l && l.size() == Integer.parseInt(arg);
            case "has" -> got instanceof List<?> l && l.stream().anyMatch(v -> mismatch(Json.read(arg), v, "") == null);
            case "not" -> got instanceof String s && !s.equals(arg);
            default -> throw new AssertionError("unknown placeholder " + want);
        };
    }

    private static boolean sameInstant(String a, String b) {
        try {
            return OffsetDateTime.parse(a).toInstant().equals(OffsetDateTime.parse(b).toInstant());
        } catch (DateTimeException e) {
            return false;
        }
    }
}
