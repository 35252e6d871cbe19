package dev.waterclock.internal;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.JsonPrimitive;
import com.google.gson.JsonSerializer;
import com.google.gson.Strictness;
import com.google.gson.TypeAdapter;
import com.google.gson.TypeAdapterFactory;
import com.google.gson.reflect.TypeToken;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import java.io.IOException;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.temporal.TemporalAccessor;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;

/** JSON as plain objects: Map, List, String, Boolean, null, and Long, BigInteger or BigDecimal for numbers. */
public final class Json {
    /** JSON text that goes out as it is. */
    public record Raw(String text) {}

    private static final Gson GSON = new GsonBuilder()
            .disableHtmlEscaping()
            .serializeNulls()
            .setStrictness(Strictness.STRICT)
            .setObjectToNumberStrategy(Json::number)
            .registerTypeAdapter(Raw.class, new RawAdapter())
            .registerTypeAdapter(Duration.class, text(v -> Durations.text((Duration) v)))
            .registerTypeHierarchyAdapter(TemporalAccessor.class, text(Object::toString))
            .registerTypeHierarchyAdapter(ZoneId.class, text(Object::toString))
            .registerTypeAdapterFactory(new Ordering())
            .create();

    private static final int NESTING = 10_000;

    private Json() {}

    private interface Spelling {
        String of(Object v);
    }

    private static JsonSerializer<Object> text(Spelling spelling) {
        return (v, type, context) -> new JsonPrimitive(spelling.of(v));
    }

    private static final class RawAdapter extends TypeAdapter<Raw> {
        @Override
        public void write(JsonWriter out, Raw v) throws IOException {
            out.jsonValue(v.text());
        }

        @Override
        public Raw read(JsonReader in) {
            throw new UnsupportedOperationException();
        }
    }

    private static Number number(JsonReader in) throws IOException {
        String text = in.nextString();
        if (text.indexOf('.') < 0 && text.indexOf('e') < 0 && text.indexOf('E') < 0) {
            BigInteger n = new BigInteger(text);
            if (n.bitLength() < Long.SIZE) {
                return n.longValue();
            }
            return n;
        }
        try {
            return new BigDecimal(text); // 1.10 stays 1.10, and may have more digits than a double
        } catch (NumberFormatException e) { // its exponent is no int
            double d = Double.parseDouble(text);
            if (Double.isInfinite(d)) {
                throw e;
            }
            return d;
        }
    }

    /** Puts what has no order of its own into one, wherever it is: in a record, an array, another map. */
    private static final class Ordering implements TypeAdapterFactory {
        @Override
        public <T> TypeAdapter<T> create(Gson gson, TypeToken<T> type) {
            Class<?> raw = type.getRawType();
            if (!Map.class.isAssignableFrom(raw) && !Collection.class.isAssignableFrom(raw)) {
                return null;
            }
            TypeAdapter<T> plain = gson.getDelegateAdapter(this, type);
            return new TypeAdapter<T>() {
                @Override
                @SuppressWarnings("unchecked") // Gson's adapters write any map as any type of map, and lists as sets
                public void write(JsonWriter out, T v) throws IOException {
                    Object sorted = v instanceof Map<?, ?> map ? sorted(map)
                            : v instanceof Set<?> set ? sorted(gson, set) : v;
                    plain.write(out, (T) sorted);
                }

                @Override
                public T read(JsonReader in) throws IOException {
                    return plain.read(in);
                }
            };
        }
    }

    /** Maps without an order of their own, such as those of Map.of, are in that of their keys. */
    private static Map<?, ?> sorted(Map<?, ?> map) {
        if (map instanceof LinkedHashMap || map instanceof SortedMap) {
            return map;
        }
        List<Map.Entry<?, ?>> entries = new ArrayList<>(map.entrySet());
        entries.sort(Comparator.comparing(e -> String.valueOf(e.getKey())));
        Map<Object, Object> out = new LinkedHashMap<>();
        entries.forEach(e -> out.put(e.getKey(), e.getValue()));
        return out;
    }

    /** Sets without an order of their own, such as those of Set.of, are in that of their elements' text. */
    private static Collection<?> sorted(Gson gson, Set<?> set) {
        if (set instanceof LinkedHashSet || set instanceof SortedSet) {
            return set;
        }
        List<Map.Entry<String, Object>> texts = new ArrayList<>();
        set.forEach(e -> texts.add(new SimpleEntry<>(gson.toJson(e), e)));
        texts.sort(Map.Entry.comparingByKey());
        return texts.stream().map(Map.Entry::getValue).toList();
    }

    /** Maps as Gson writes them: it leaves out those of anonymous classes. */
    private static Object ordered(Object v) {
        if (v instanceof Map<?, ?> map) {
            Map<Object, Object> out = new LinkedHashMap<>();
            sorted(map).forEach((key, e) -> out.put(key, ordered(e)));
            return out;
        }
        if (v instanceof List<?> list) {
            List<Object> out = new ArrayList<>(list.size());
            list.forEach(e -> out.add(ordered(e)));
            return out;
        }
        return v;
    }

    /**
     * The value as JSON; IllegalArgumentException for what has none. The same value has the same text in every run of
     * the JVM, since a trigger's content is its text.
     */
    public static String write(Object v) {
        try {
            return GSON.toJson(ordered(v));
        } catch (JsonParseException | UnsupportedOperationException | StackOverflowError e) {
            throw new IllegalArgumentException("it cannot be encoded as JSON: " + e.getMessage(), e);
        }
    }

    /** The value of a text; IllegalArgumentException if it is no JSON. */
    public static Object read(String text) {
        return read(text, Object.class);
    }

    public static <T> T read(String text, Class<T> type) {
        JsonReader in = new JsonReader(new StringReader(text));
        in.setStrictness(Strictness.STRICT);
        in.setNestingLimit(NESTING);
        try {
            T v = GSON.fromJson(in, type);
            if (in.peek() != JsonToken.END_DOCUMENT) {
                throw new IllegalArgumentException("there is more behind the JSON");
            }
            return v;
        } catch (JsonParseException | NumberFormatException | IOException e) {
            throw new IllegalArgumentException("it is no JSON: " + e.getMessage(), e);
        }
    }

    public static Object read(byte[] text) {
        return read(new String(text, StandardCharsets.UTF_8));
    }

    /** The value as an object of a class, its fields by their names. */
    public static <T> T convert(Object v, Class<T> type) {
        return read(write(v), type);
    }

    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(Object v) {
        if (v instanceof Map<?, ?> m) {
            return (Map<String, Object>) m;
        }
        throw new IllegalArgumentException("it is no JSON object");
    }

    @SuppressWarnings("unchecked")
    public static List<Object> list(Object v) {
        if (v instanceof List<?> l) {
            return (List<Object>) l;
        }
        throw new IllegalArgumentException("it is no JSON list");
    }

    /** A text of an object; "" if it has none. */
    public static String text(Map<String, Object> object, String name) {
        return object.get(name) instanceof String s ? s : "";
    }

    public static long integer(Map<String, Object> object, String name) {
        return object.get(name) instanceof Number n ? n.longValue() : 0;
    }

    /** An instant of an object; null if it has none. */
    public static Instant instant(Map<String, Object> object, String name) {
        String text = Objects.toString(object.get(name), "");
        return text.isEmpty() ? null : OffsetDateTime.parse(text).toInstant();
    }
}
