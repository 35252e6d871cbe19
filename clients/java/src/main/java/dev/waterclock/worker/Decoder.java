package dev.waterclock.worker;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** The due event of a record. */
final class Decoder {
    /** Attempts and postponements are kept in 24 bits. */
    static final int MAX_COUNT = (1 << 24) - 1;

    private static final int MAX_ID = 1024;
    private static final String TYPE = "waterclock.due.v1";
    private static final Pattern RFC3339 =
            Pattern.compile("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?(Z|[+-]\\d\\d:\\d\\d)");

    // The headers that are known; the first of each counts, the second of a name is the user's.
    private static final int HAS_TYPE = 1;
    private static final int HAS_ID = 1 << 1;
    private static final int HAS_SUBJECT = 1 << 2;
    private static final int HAS_TIME = 1 << 3;
    private static final int HAS_ATTEMPT = 1 << 4;
    private static final int HAS_MORE = 1 << 5;

    private static final String[] REQUIRED = {"ce_type", "ce_id", "ce_subject", "ce_time", "ce_wcattempt"};

    /** A record that is not a due event. */
    static final class Garbled extends Exception {
        private static final long serialVersionUID = 1L;

        final String header;

        Garbled(String header, String reason) {
            super("header " + header + " " + reason);
            this.header = header;
        }
    }

    private final DueEvent e = new DueEvent();
    private int seen;
    private Garbled fault; // the first

    private Decoder() {}

    static DueEvent decode(ConsumerRecord<byte[], byte[]> r, boolean high) throws Garbled {
        Decoder d = new Decoder();
        DueEvent e = d.e;
        e.topic = r.topic();
        e.partition = r.partition();
        e.offset = r.offset();
        e.high = high;
        e.payload = r.value() == null ? new byte[0] : r.value();
        List<DueEvent.Header> others = new ArrayList<>(4);
        for (Header h : r.headers()) {
            byte[] value = h.value() == null ? new byte[0] : h.value();
            if (!d.header(h.key(), value)) {
                others.add(new DueEvent.Header(h.key(), value));
            }
        }
        e.headers = others;
        d.finish();
        e.recordKey = r.key() == null ? e.key.getBytes(StandardCharsets.UTF_8) : r.key();
        return e;
    }

    /** False for one that is not known. */
    private boolean header(String name, byte[] v) {
        switch (name) {
            case "ce_type":
                return first(HAS_TYPE) && exact(name, v, TYPE);
            case "ce_specversion":
                return first(HAS_MORE) && exact(name, v, "1.0");
            case "ce_id":
                return first(HAS_ID) && (e.id = required(name, v)) != null;
            case "ce_subject":
                return first(HAS_SUBJECT) && (e.key = required(name, v)) != null;
            case "ce_time":
                if (!first(HAS_TIME)) {
                    return false;
                }
                e.scheduled = time(name, v);
                return true;
            case "ce_wcattempt":
                return first(HAS_ATTEMPT) && (e.attempt = (int) number(name, v, 1, MAX_COUNT)) >= 0;
            default:
                return optional(name, v);
        }
    }

    private boolean optional(String name, byte[] v) {
        switch (name) {
            case "ce_source":
                return first(HAS_MORE << 1) && (e.source = lenient(v)) != null;
            case "ce_wcfired":
                if (!first(HAS_MORE << 2)) {
                    return false;
                }
                e.fired = time(name, v);
                return true;
            case "ce_wcrevision":
                return first(HAS_MORE << 3) && (e.revision = number(name, v, 0, Long.MAX_VALUE)) >= 0;
            case "ce_wcstep":
                return first(HAS_MORE << 4) && (e.step = (int) number(name, v, 0, MAX_COUNT)) >= 0;
            case "ce_wcpostponed":
                return first(HAS_MORE << 5) && (e.postponed = (int) number(name, v, 0, MAX_COUNT)) >= 0;
            case "ce_wclocaltime":
                return first(HAS_MORE << 6) && (e.localTime = text(name, v)) != null;
            case "ce_wcuser":
                return first(HAS_MORE << 7) && (e.user = text(name, v)) != null;
            case "ce_expirytime":
                if (!first(HAS_MORE << 8)) {
                    return false;
                }
                e.expires = time(name, v);
                return true;
            case "ce_wcreceiptby":
                if (!first(HAS_MORE << 9)) {
                    return false;
                }
                e.receiptBy = time(name, v);
                return true;
            case "ce_wcbasis":
                return first(HAS_MORE << 10) && (e.basis = text(name, v)) != null;
            case "content-type":
                return first(HAS_MORE << 11) && (e.contentType = lenient(v)) != null;
            case "traceparent":
                return first(HAS_MORE << 12) && (e.traceparent = lenient(v)) != null;
            case "tracestate":
                return first(HAS_MORE << 13) && (e.tracestate = lenient(v)) != null;
            default:
                return false;
        }
    }

    private boolean first(int bit) {
        boolean isFirst = (seen & bit) == 0;
        seen |= bit;
        return isFirst;
    }

    /** Keeps the first fault. What a stranger wrote is quoted, and cut. */
    private void fail(String name, byte[] v, String want) {
        if (fault == null) {
            StringBuilder quoted = new StringBuilder();
            for (int i = 0; i < Math.min(v.length, 64); i++) {
                quoted.append(v[i] >= ' ' && v[i] < 0x7f ? (char) v[i] : '?');
            }
            fault = new Garbled(name, "is \"" + quoted + "\", want " + want);
        }
    }

    private boolean exact(String name, byte[] v, String want) {
        if (!text(name, v).equals(want)) {
            fail(name, v, want);
        }
        return true;
    }

    private String required(String name, byte[] v) {
        if (v.length == 0) {
            fail(name, v, "some text");
        }
        return text(name, v);
    }

    private String text(String name, byte[] v) {
        for (byte b : v) {
            if (b < 0) {
                return unicode(name, v);
            }
        }
        return new String(v, StandardCharsets.ISO_8859_1);
    }

    /** For people and tracing. The engine passes a tracestate on unchanged, whatever bytes a producer wrote. */
    private static String lenient(byte[] v) {
        return new String(v, StandardCharsets.UTF_8);
    }

    private String unicode(String name, byte[] v) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(v)).toString();
        } catch (CharacterCodingException ex) {
            fail(name, v, "UTF-8");
            return "";
        }
    }

    private long number(String name, byte[] v, long least, long most) {
        long n = v.length == 0 || v.length > 19 ? -1 : 0;
        for (int i = 0; i < v.length && n >= 0; i++) {
            int digit = v[i] - '0';
            n = digit < 0 || digit > 9 || n > (Long.MAX_VALUE - digit) / 10 ? -1 : n * 10 + digit;
        }
        if (n < least || n > most) {
            fail(name, v, "a number from " + least + " to " + most);
            return least;
        }
        return n;
    }

    private Instant time(String name, byte[] v) {
        Instant quick = plain(v);
        if (quick != null) {
            return quick;
        }
        String text = text(name, v);
        try {
            if (RFC3339.matcher(text).matches()) {
                return OffsetDateTime.parse(text).toInstant();
            }
        } catch (DateTimeException ex) {
            // said below
        }
        fail(name, v, "an RFC 3339 instant");
        return Instant.EPOCH;
    }

    /** 2026-11-20T14:00:00.000Z, as the engine writes it; null for other spellings. */
    private static Instant plain(byte[] v) {
        if (v.length != 24 || v[4] != '-' || v[7] != '-' || v[10] != 'T' || v[13] != ':' || v[16] != ':'
                || v[19] != '.' || v[23] != 'Z') {
            return null;
        }
        int year = digits(v, 0, 4);
        int month = digits(v, 5, 2);
        int day = digits(v, 8, 2);
        int hour = digits(v, 11, 2);
        int minute = digits(v, 14, 2);
        int second = digits(v, 17, 2);
        int milli = digits(v, 20, 3);
        if (year < 0 || month < 1 || month > 12 || day < 1 || day > 28 || hour < 0 || hour > 23 || minute < 0
                || minute > 59 || second < 0 || second > 59 || milli < 0) {
            return null;
        }
        long days = LocalDate.of(year, month, day).toEpochDay();
        return Instant.ofEpochMilli(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000L + milli);
    }

    private static int digits(byte[] v, int from, int n) {
        int value = 0;
        for (int i = from; i < from + n; i++) {
            int digit = v[i] - '0';
            if (digit < 0 || digit > 9) {
                return -1;
            }
            value = value * 10 + digit;
        }
        return value;
    }

    private void finish() throws Garbled {
        for (int i = 0; i < REQUIRED.length; i++) {
            if ((seen & 1 << i) == 0) {
                throw new Garbled(REQUIRED[i], "is missing");
            }
        }
        if (fault != null) {
            throw fault;
        }
        identity();
    }

    /** ce_id is {@code <trigger key>@<occurrence>#<step>}: a receipt whose key is not that of its due_id is garbled. */
    private void identity() throws Garbled {
        String id = e.id;
        int at = e.key.length();
        if (!id.startsWith(e.key) || id.length() <= at || id.charAt(at) != '@'
                || id.length() * 3 > MAX_ID && id.getBytes(StandardCharsets.UTF_8).length > MAX_ID) {
            throw new Garbled("ce_id", "is not <ce_subject>@<occurrence>#<step> of at most " + MAX_ID + " bytes");
        }
        int hash = id.lastIndexOf('#');
        e.occurrence = hash > at ? id.substring(at + 1, hash) : id.substring(at + 1);
        e.expiresMs = e.expires == null ? DueEvent.NONE : e.expires.toEpochMilli();
        e.receiptByMs = e.receiptBy == null ? DueEvent.NONE : e.receiptBy.toEpochMilli();
    }
}
