package topics

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/schemas/statepb"
	"github.com/waterclock/waterclock/trigger"
)

// filler sets every field of a value at random, by reflection: a field that is
// added to the domain and forgotten here comes back zero and fails the test.
type filler struct{ *rand.Rand }

func (r filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i))
		}
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem())
		}
	case reflect.Slice:
		r.fillSlice(v)
	case reflect.Map:
		for range r.IntN(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.fill(key)
			r.fill(value)
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			v.SetMapIndex(key, value)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(r.IntN(256)))
		}
	default:
		r.fillScalar(v)
	}
}

func (r filler) fillSlice(v reflect.Value) {
	n := r.IntN(4)
	if n == 0 && v.Type() != reflect.TypeFor[[]time.Duration]() {
		return // nil: only a callback's retries tell empty from none
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		r.fill(v.Index(i))
	}
}

// enums are the types of which not every number means something.
var enums = map[reflect.Type]int{
	reflect.TypeFor[trigger.Status]():   int(trigger.Erased) + 1,
	reflect.TypeFor[trigger.WhenKind](): int(trigger.WhenRecurrence) + 1,
	reflect.TypeFor[trigger.Priority](): int(trigger.Low) + 1,
	reflect.TypeFor[trigger.Misfire]():  int(trigger.SkipMissed) + 1,
	reflect.TypeFor[trigger.LiveKind](): int(trigger.LiveEscalating) + 1,
}

func (r filler) fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{
			"", "a", "Wünsche", "2026-11-20T09:00:00",
			string(bytes.Repeat([]byte("x"), 200)),
		}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint8:
		if n, ok := enums[v.Type()]; ok {
			v.SetUint(uint64(r.IntN(n)))
			return
		}
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	default:
		v.SetInt([]int64{0, 1, 127, 128, 1 << 30, r.Int64N(1 << 31), -r.Int64N(1 << 31)}[r.IntN(7)])
	}
}

func randomState(r *rand.Rand) *trigger.State {
	s := new(trigger.State)
	filler{r}.fill(reflect.ValueOf(s).Elem())
	s.Key = "k"
	return s
}

func TestStateSurvivesTheWire(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		want := randomState(r)
		b, err := AppendStateAs(nil, want, Newest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeState(want.Key, b)
		if err != nil {
			t.Fatalf("%v\nstate %+v", err, want)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("came back as\n%+v\nwas\n%+v", got, want)
		}
	}
}

// What is written by hand must be what the schema's generated code writes and
// reads, byte for byte: the schema is the truth.
func TestStateEqualsTheSchema(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		s := randomState(r)
		byHand, err := AppendStateAs(nil, s, Newest)
		if err != nil {
			t.Fatal(err)
		}
		generated, err := proto.MarshalOptions{Deterministic: true}.Marshal(pbState(s))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(byHand, generated) {
			t.Fatalf("by hand   %x\ngenerated %x\nof %+v", byHand, generated, s)
		}
		back := new(statepb.State)
		if err := (proto.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(byHand, back); err != nil {
			t.Fatal(err)
		}
		if len(back.ProtoReflect().GetUnknown()) > 0 || !proto.Equal(back, pbState(s)) {
			t.Fatalf("the generated code reads %v", back)
		}
	}
}

func TestStateOfANewerVersion(t *testing.T) {
	old, err := AppendState(nil, &trigger.State{
		Key: "k", Status: trigger.Pending, Revision: 1,
		Spec: trigger.Spec{Priority: trigger.Normal},
	})
	if err != nil {
		t.Fatal(err)
	}
	add := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(bytes.Clone(old), n, protowire.VarintType), v)
	}
	nest := func(n protowire.Number, inner ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(bytes.Clone(old), n, protowire.BytesType), inner)
	}
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"format", add(1, uint64(Newest)+1)},
		{"field of state", add(99, 1)},
		{"field of state by another type", nest(3, 1)},
		{"status", add(2, uint64(trigger.Erased)+1)},
		{"kind of time", nest(6, 0x0a, 2, 0x08, 9)},
		{"priority", nest(6, 0x48, 3)},
		{"misfire", nest(6, 0x60, 9)},
		{"kind of live", nest(9, 0x08, 9)},
		{"field of series", nest(8, 0xf8, 0x01, 1)},
		{"field of life", nest(5, 0x78, 1)},
		{"field of spec", nest(6, 0xf8, 0x01, 1)},
		{"part of spec", nest(6, 0xfa, 0x01, 0)},
		{"spec by a fixed number", nest(6, 0x0d, 1, 0, 0, 0)},
		{"field of when", nest(6, 0x0a, 3, 0xf8, 0x01, 1)},
		{"part of when", nest(6, 0x0a, 3, 0xfa, 0x01, 0)},
		{"when by a fixed number", nest(6, 0x0a, 5, 0x0d, 1, 0, 0, 0)},
		{"field of calendars", nest(6, 0x0a, 4, 0x7a, 2, 0x78, 1)},
		{"field of callback", nest(6, 0x72, 2, 0x78, 1)},
		{"field of header", nest(6, 0x3a, 2, 0x78, 1)},
		{"field of tag", nest(6, 0x42, 2, 0x78, 1)},
		{"field of live", nest(9, 0xf8, 0x01, 1)},
		{"field of key", nest(10, 0x78, 1)},
		{"field of firing", nest(11, 0x78, 1)},
		{"field of redrive", nest(18, 0x78, 1)},
		{"field of step", nest(6, 0x8a, 0x01, 2, 0x78, 1)},
	} {
		if _, err := DecodeState("k", c.b); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %v, want ErrNewer", c.name, err)
		}
	}
}

func TestStateRefusesGarbage(t *testing.T) {
	good, _ := AppendState(nil, &trigger.State{Key: "k", Status: trigger.Pending, Hash: trigger.Hash{1}})
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"empty", nil},
		{"no format", []byte{0x10, 1}},
		{"cut short", good[:len(good)-1]},
		{"retries cut short", append(bytes.Clone(good), 0x32, 5, 0x72, 3, 0x1a, 1, 0x80)},
		{"a hash of 3 bytes", append(bytes.Clone(good), 0x3a, 3, 1, 2, 3)},
		{"content of an occurrence before the first", append(bytes.Clone(good), 0x4a, 2, 0x60, 1)},
		{"a string that is not UTF-8", append(bytes.Clone(good), 0x82, 0x01, 1, 0xff)},
	} {
		if s, err := DecodeState("k", c.b); err == nil || errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %+v, %v, want an error that is not ErrNewer", c.name, s, err)
		}
	}
}

func TestAppendStateRefusesWhatTheSchemaCannotSay(t *testing.T) {
	for _, c := range []struct {
		name  string
		state trigger.State
	}{
		{"status", trigger.State{Status: 200}},
		{"priority", trigger.State{Spec: trigger.Spec{Priority: 9}}},
		{"misfire", trigger.State{Spec: trigger.Spec{Misfire: 9}}},
		{"kind of time", trigger.State{Spec: trigger.Spec{When: trigger.When{Kind: 9}}}},
		{"kind of live", trigger.State{Live: []trigger.Live{{Kind: 9}}}},
		{"was", trigger.State{Live: []trigger.Live{{Was: &trigger.Spec{Priority: 9}}}}},
		{"a note that is not UTF-8", trigger.State{Note: "\xff"}},
	} {
		prefix := []byte("kept")
		b, err := AppendState(prefix, &c.state)
		if err == nil || string(b) != "kept" {
			t.Errorf("%s: got %q, %v, want an error and the buffer as it was", c.name, b, err)
		}
	}
}

func TestDecodedStateSharesNothing(t *testing.T) {
	want := &trigger.State{
		Key: "k", Status: trigger.Pending, Note: "note",
		Spec: trigger.Spec{Payload: []byte("payload"), Headers: []trigger.Header{{Key: "h", Value: []byte("v")}}},
	}
	b, err := AppendState(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState("k", b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the buffer was reused: %+v", got)
	}
	if grown := append(got.Spec.Payload, 'x'); got.Spec.Headers[0].Key != "h" || len(grown) != 8 {
		t.Errorf("appending to the payload wrote over the header: %+v", got.Spec.Headers)
	}
}

// All that were in flight when a trigger was replaced share one content: it
// stands once in the record, and once in memory after it is read.
func TestLiveShareTheirContent(t *testing.T) {
	was, other := &trigger.Spec{Payload: bytes.Repeat([]byte("x"), 4096), Priority: trigger.Normal},
		&trigger.Spec{UserID: "u", Priority: trigger.Normal}
	want := &trigger.State{Key: "k", Status: trigger.Pending, Spec: trigger.Spec{Priority: trigger.Normal}}
	for i := range trigger.MaxLive {
		want.Live = append(want.Live, trigger.Live{
			Kind: trigger.LiveInFlight, Attempt: i,
			Was: []*trigger.Spec{was, other, nil}[i%3],
		})
	}
	b, err := AppendState(nil, want)
	if err != nil || len(b) > 8192 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := DecodeState("k", b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	if got.Live[3].Was != got.Live[0].Was || got.Live[4].Was != got.Live[1].Was || got.Live[0].Was == got.Live[1].Was {
		t.Error("the contents are not shared as they were")
	}
	if err := proto.Unmarshal(b, new(statepb.State)); err != nil {
		t.Error(err)
	}
}

func pbNameSteps(steps []trigger.NameStep) (out []*statepb.NameStep) {
	for _, s := range steps {
		out = append(out, &statepb.NameStep{Until: int64(s.Until), Day: int64(s.Day)})
	}
	return out
}

// pbState is the schema's message for a State, written down independently of
// AppendState.
func pbState(s *trigger.State) *statepb.State {
	m := &statepb.State{
		Format: uint32(Newest), Status: statepb.Status(s.Status), Revision: s.Revision, Seq: s.Seq,
		Life: absentIfEmpty(&statepb.Life{
			Partition: s.Life.Partition, Offset: s.Life.Offset,
			Later: s.Life.Later,
		}),
		Spec:       absentIfEmpty(pbSpec(&s.Spec)),
		Hash:       pbID(s.Hash),
		LastAppend: int64(s.LastAppend), CreatedAt: int64(s.CreatedAt), UpdatedAt: int64(s.UpdatedAt),
		ForgetAt: int64(s.ForgetAt),
		Note:     s.Note, Trimmed: s.Trimmed,
		Series: absentIfEmpty(&statepb.Series{
			At: int64(s.Series.At), Occurrence: s.Series.Occurrence,
			Local: s.Series.Local,
			Start: s.Series.Start, After: int64(s.Series.After), Tzdata: s.Series.TZData, Skip: s.Series.Skip,
			Retry:  int64(s.Series.Retry),
			Jitter: s.Series.Jitter, Told: int64(s.Series.MissedUntil), RetryAt: int64(s.Series.RetryAt),
			Decided: pbNameSteps(s.Series.Decided), Begun: pbNameSteps(s.Series.Begun),
		}),
	}
	for _, l := range s.Live {
		p := &statepb.Live{
			Kind: statepb.LiveKind(l.Kind), Occurrence: l.Occurrence, Nominal: int64(l.Nominal),
			Local: l.Local, Due: int64(l.Due),
			Step: int64(l.Step), Attempt: int64(l.Attempt), Revision: l.Revision, Accepted: l.Accepted,
			EmitRetry: int64(l.EmitRetry), Postponed: int64(l.Postponed), FirstSent: int64(l.FirstSent),
			AttemptsBefore: int64(l.AttemptsBeforeRedrive), NextStep: int64(l.NextStep),
			FirstFired: int64(l.FirstFired), Note: l.Note,
		}
		if l.Was != nil {
			p.Was = pbSpec(l.Was)
		}
		m.Live = append(m.Live, p)
	}
	for _, k := range s.Keys {
		m.Keys = append(m.Keys, &statepb.IdempotencyKey{Key: k.Key, Hash: pbID(k.Hash)})
	}
	for _, f := range s.Done {
		m.Done = append(m.Done, &statepb.Firing{
			Occurrence: f.Occurrence, At: int64(f.At), Nominal: int64(f.Nominal),
			Topic: f.Topic, Partition: f.Partition,
		})
	}
	for _, r := range s.Redriven {
		m.Redriven = append(m.Redriven, &statepb.Redrive{
			Occurrence: r.Occurrence, Step: int64(r.Step), Attempt: int64(r.Attempt),
		})
	}
	m.Erasure = absentIfEmpty(&statepb.Erasure{
		Revision: s.Erasure.Revision, Partition: s.Erasure.Partition, Offset: s.Erasure.Offset,
	})
	return m
}

// absentIfEmpty leaves out messages that have nothing to say.
func absentIfEmpty[M proto.Message](m M) (none M) {
	if proto.Size(m) == 0 {
		return none
	}
	return m
}

func pbID(id [16]byte) []byte {
	if id == [16]byte{} {
		return nil
	}
	return id[:]
}

func pbSpec(s *trigger.Spec) *statepb.Spec {
	priorities := map[trigger.Priority]statepb.Priority{
		trigger.High:   statepb.Priority_PRIORITY_HIGH,
		trigger.Normal: statepb.Priority_PRIORITY_NORMAL, trigger.Low: statepb.Priority_PRIORITY_LOW,
	}
	m := &statepb.Spec{
		Channel: s.Channel, UserId: s.UserID, Payload: s.Payload, ContentType: s.ContentType, TargetKey: s.TargetKey,
		Priority: priorities[s.Priority], Jitter: int64(s.Jitter), ExpiresAfter: int64(s.Expires),
		Misfire:    statepb.Misfire(s.Misfire),
		FollowUser: s.FollowUser, CorrelationId: s.CorrelationID, Traceparent: s.TraceParent,
		When: absentIfEmpty(pbWhen(&s.When)),
	}
	for _, h := range s.Headers {
		m.Headers = append(m.Headers, &statepb.Header{Key: h.Key, Value: h.Value})
	}
	for _, t := range s.Tags {
		m.Tags = append(m.Tags, &statepb.Tag{Key: t.Key, Value: t.Value})
	}
	for _, step := range s.Escalation {
		m.Escalation = append(m.Escalation, &statepb.Step{Channel: step.Channel, After: int64(step.After)})
	}
	if c := s.Callback; c != nil {
		m.Callback = &statepb.Callback{
			Url: c.URL, Timeout: int64(c.Timeout), NoRetry: c.Retry != nil && len(c.Retry) == 0,
			Raw: c.Raw, Recheck: c.Recheck,
		}
		for _, d := range c.Retry {
			m.Callback.Retry = append(m.Callback.Retry, int64(d))
		}
	}
	return m
}

func pbWhen(w *trigger.When) *statepb.When {
	m := &statepb.When{
		Kind: statepb.WhenKind(w.Kind), DelayText: w.DelayText, Delay: int64(w.Delay),
		FireAt: int64(w.FireAt), Local: w.Local,
		Zone: w.Zone, Recurrence: w.Recurrence, Start: w.Start, Include: w.Include, Exclude: w.Exclude, Until: w.Until,
		Count:  int64(w.Count),
		DstGap: w.DST.Gap, DstOverlap: w.DST.Overlap,
	}
	if w.Calendars != nil {
		m.Calendars = &statepb.Calendars{Names: w.Calendars.Names, On: w.Calendars.On}
	}
	return m
}

// What we accept the generated code must accept too, and writing it again must
// give a State that reads the same.
func FuzzDecodeState(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		if b, err := AppendStateAs(nil, randomState(r), Newest); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte{0x08, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeState("k", b)
		if err != nil {
			return
		}
		if err := proto.Unmarshal(b, new(statepb.State)); err != nil {
			t.Fatalf("we accept what the generated code does not: %v", err)
		}
		spelled, err := AppendStateAs(nil, s, Newest)
		if err != nil {
			t.Fatalf("decoded %+v, cannot encode it: %v", s, err)
		}
		back, err := DecodeState("k", spelled)
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Fatalf("%v\ncame back as %+v\nwas %+v", err, back, s)
		}
	})
}

func TestProgressSurvivesTheWire(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 1000 {
		want := new(Progress)
		filler{r}.fill(reflect.ValueOf(want).Elem())
		want.Format = Oldest + Format(r.IntN(int(Newest)))
		if want.FiredThrough == 0 {
			want.PutOff = nil // it goes with it
		}
		b, err := AppendProgress(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeProgress(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ncame back as %+v\nwas %+v", err, got, want)
		}
		generated := new(statepb.Progress)
		if err := proto.Unmarshal(b, generated); err != nil || len(generated.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("the generated code reads it as %v, %v", generated, err)
		}
		spelled, err := proto.MarshalOptions{Deterministic: true}.Marshal(generated)
		if err != nil || !bytes.Equal(spelled, b) {
			t.Fatalf("%v\nby hand   %x\ngenerated %x", err, b, spelled)
		}
	}
}

func TestNonceSurvivesTheWire(t *testing.T) {
	want := &Nonce{ID: [16]byte{1, 2, 3}, Member: "node-1", Term: 7, At: 1_790_000_000_000, Group: "waterclock"}
	b, err := AppendNonce(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeNonce(b); err != nil || *got != *want {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := proto.Unmarshal(b, new(statepb.Nonce)); err != nil {
		t.Error(err)
	}
	if _, err := DecodeNonce(append(b, 0x78, 1)); !errors.Is(err, ErrNewer) {
		t.Errorf("a field of a newer version: %v", err)
	}
}

func TestReservedKeysAreNoTriggers(t *testing.T) {
	for _, key := range [][]byte{KeyProgress, KeyNonce, KeyGuard} {
		if _, err := trigger.ParseKey(key); err == nil || !IsReserved(key) {
			t.Errorf("%q may be a trigger's key", key)
		}
	}
	if IsReserved([]byte("progress")) || IsReserved(nil) {
		t.Error("a trigger's key is taken for a reserved one")
	}
}

func FuzzDecodeProgress(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		p := new(Progress)
		filler{r}.fill(reflect.ValueOf(p).Elem())
		if b, err := AppendProgress(nil, p); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProgress(b)
		if err != nil {
			return
		}
		if err := proto.Unmarshal(b, new(statepb.Progress)); err != nil {
			t.Fatalf("we accept what the generated code does not: %v", err)
		}
		spelled, err := AppendProgress(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeProgress(spelled); err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("%v\ncame back as %+v\nwas %+v", err, back, p)
		}
	})
}

func BenchmarkAppendStateGenerated(b *testing.B) {
	m, buf := pbState(benchState(b)), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (proto.MarshalOptions{}).MarshalAppend(buf, m); err != nil {
			b.Fatal(err)
		}
	}
}
