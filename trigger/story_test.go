package trigger

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/waterclock/waterclock/calendar"
)

// story runs one file of testdata/life. Its words:
//
//	new at=T                  forget everything, set the clock
//	clock to=T|by=D           the clock goes and every timer lets go at its instant
//	outage to=T|by=D          the clock goes while no engine runs; then what is overdue goes
//	tzdata 2023c|2025c        another release of the tz database is in force; late: no trigger is planned anew yet
//	forbid [key=K] url=U      the settings allow the tenant of K every callback but U
//	topic refuses|silent|takes  whether the due topic takes records
//	receipt OUTCOME […]       about the last due event, or occ= step= attempt= echo=; appended now, or at=
//	OP […]                    a command of the contract, by its op
//	repeat n=N by=D           the command in the line below, every D
//	closed dates=D,…          the dates of calendar closed; late: no trigger is planned anew yet
//	restart format=N          what that format of topic state does not hold is forgotten
//	show                      the state, its keys and firings
//	upcoming n=N              what is listed as the next N occurrences
//
// All take key=K (default k), brief (leave the states out) and sum (only how
// many of what). Commands take
// at=T (first append; default now), and forwarded=partition-offset.
type story struct {
	w          *world
	out        strings.Builder
	stamped    bool
	brief      bool
	sum        *summary
	receivable map[Key]*Fire // the last due event of each trigger
	dead       map[Key]*Fire // the last dead letter of each
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.w.t = t
	s.out.Reset()
	s.brief, s.stamped, s.sum = d.HasArg("brief"), false, nil
	if d.HasArg("sum") {
		s.sum = &summary{facts: map[FactType]int{}}
	}
	a := args{t, d}
	switch d.Cmd {
	case "new":
		s.begin(t)
		s.w.now = a.instant("at", s.w.now)
	case "clock":
		s.stamped = true
		s.w.advance(s.target(a))
	case "outage":
		s.stamped = true
		s.w.outage(s.target(a))
	case "fire": // only the first of what is due
		s.stamped = true
		if k, timer, ok := s.w.due(s.w.now); ok {
			s.w.fire(k, timer)
		}
	case "stopped": // no engine runs, and what is overdue is still to fire
		s.w.now = s.target(a)
	case "topic":
		s.w.refuse, s.w.silent = a.has("refuses"), a.has("silent")
	case "closed":
		s.w.put(append([]string{}, a.list("dates")...))
		if !a.has("late") {
			s.w.replan("calendar")
		}
	case "tzdata":
		s.w.retime(a.zones())
		if !a.has("late") {
			s.w.replan("tzdata")
		}
	case "forbid":
		s.w.machine.CallbackURL = forbid(a)
	case "receipt":
		s.receipt(a)
	case "repeat":
		s.repeat(a)
	case "restart":
		st := *s.w.states[a.key()]
		if n := a.number("format"); n < 6 {
			st.Series.Decided, st.Series.Begun = nil, nil
			if n < 3 {
				st.Erasure = Erasure{}
			}
		}
		s.w.states[a.key()] = &st
	case "show":
		s.show(a.key())
	case "upcoming":
		for _, p := range s.w.machine.Timetable.Upcoming(s.w.states[a.key()], int(a.number("n")), 0) {
			fmt.Fprintf(&s.out, "%s %s\n", p.Occurrence, text(p.At))
		}
	default:
		s.w.command(s.command(a))
	}
	if s.sum != nil {
		return s.sum.String()
	}
	return s.out.String()
}

// forbid is a policy by which one tenant may not call one URL.
func forbid(a args) func(tenant, url string) *Error {
	tenant, forbidden := a.key().Tenant(), a.text("url")
	return func(t, url string) *Error {
		if t == tenant && url == forbidden {
			return &Error{Code: CodeForbiddenURL, Field: "callback"}
		}
		return nil
	}
}

func (s *story) target(a args) Instant {
	return a.instant("to", s.w.now.Add(a.duration("by")))
}

// repeat runs the command in its input n times, %d in it being the turn.
func (s *story) repeat(a args) {
	for i := range int(a.number("n")) {
		cmd, cmdArgs, err := datadriven.ParseLine(strings.ReplaceAll(a.d.Input, "%d", strconv.Itoa(i)))
		if err != nil {
			a.t.Fatalf("%s: %v", a.d.Pos, err)
		}
		s.w.command(s.command(args{a.t, &datadriven.TestData{Pos: a.d.Pos, Cmd: cmd, CmdArgs: cmdArgs}}))
		s.w.advance(s.w.now.Add(a.duration("by")))
	}
}

func (s *story) show(k Key) {
	st := s.w.states[k]
	s.out.WriteString(stateLine(st))
	if st == nil {
		return
	}
	for _, key := range st.Keys {
		fmt.Fprintf(&s.out, "key %s\n", key.Key)
	}
	for _, f := range st.Done {
		fmt.Fprintf(&s.out, "fired %s %s %s/%d\n", f.Occurrence, text(f.Nominal), f.Topic, f.Partition)
	}
	for _, x := range st.Series.Skip {
		fmt.Fprintf(&s.out, "skips %s\n", x)
	}
}

func (s *story) receipt(a args) {
	k := a.key()
	outcome, ok := ParseReceiptOutcome(a.d.CmdArgs[0].Key)
	if !ok {
		a.t.Fatalf("%s: outcome %q", a.d.Pos, a.d.CmdArgs[0].Key)
	}
	r := &Receipt{
		Postponed: -1, Outcome: outcome, Code: a.text("code"), Detail: a.text("detail"),
		RetryAfter: a.duration("retry_after"), At: a.instant("at", s.w.now),
	}
	if f := s.receivable[k]; f != nil {
		r.Occurrence, r.Step, r.Attempt, r.Channel = f.Occurrence, f.Step, f.Attempt, f.Channel
	}
	if a.has("occ") {
		r.Occurrence = a.text("occ")
	}
	if a.has("attempt") {
		r.Attempt = int(a.number("attempt"))
	}
	if a.has("echo") { // of ce_wcpostponed
		r.Postponed = int(a.number("echo"))
	}
	if a.has("step") {
		r.Step = int(a.number("step"))
	}
	s.w.receive(k, r)
}

// deadLetter is the last dead letter of a trigger, as a redrive carries it, or
// that of occ= attempt= with the content given.
func (s *story) deadLetter(a args) *Fire {
	if f := s.dead[a.key()]; f != nil && !a.has("occ") {
		return f
	}
	spec, revision := a.spec(), int64(1)
	if a.has("revision") {
		revision = a.number("revision")
	}
	return &Fire{
		Key: a.key(), Spec: spec, Channel: spec.Channel, Occurrence: a.text("occ"), Attempt: int(a.number("attempt")),
		Step: int(a.number("step")), Revision: revision, Nominal: a.instant("nominal", s.w.now),
	}
}

// command reads a command of the contract.
func (s *story) command(a args) *Command {
	op, ok := ParseOp(a.d.Cmd)
	if !ok {
		a.t.Fatalf("%s: no word of a story: %q", a.d.Pos, a.d.Cmd)
	}
	c := &Command{
		Op: op, Key: a.key(), From: s.w.origin(), IfRevision: a.number("if_revision"), IfAbsent: a.has("if_absent"),
		Patch: a.has("patch"),
		For:   a.duration("for"), Occurrence: a.text("occ"), Note: a.text("note"), IdempotencyKey: a.text("idem"),
	}
	c.From.Append = a.instant("at", c.From.Append)
	if f := a.text("forwarded"); f != "" {
		if _, err := fmt.Sscanf(f, "%d-%d", &c.From.Partition, &c.From.Offset); err != nil {
			a.t.Fatalf("%s: forwarded=%s: %v", a.d.Pos, f, err)
		}
		c.From.Forwarded = true
	}
	switch op {
	case OpRegister:
		c.Spec = a.spec()
		c.Hash = contentOf(c.Spec)
	case OpReschedule:
		c.Spec = &Spec{When: a.when(), Priority: Normal}
	case OpRezone:
		c.Zone = a.text("zone")
	case OpSnooze:
		c.Until, c.UntilLocal = a.moment("until")
	case OpRedrive:
		c.Dead = s.deadLetter(a)
	}
	return c
}

// args reads the arguments of one line.
type args struct {
	t testing.TB
	d *datadriven.TestData
}

func (a args) has(name string) bool { return a.d.HasArg(name) }

func (a args) text(name string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == name {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

func (a args) list(name string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == name {
			return arg.Vals
		}
	}
	return nil
}

func (a args) key() Key {
	if k := a.text("key"); k != "" {
		return Key(k)
	}
	return "k"
}

func (a args) number(name string) int64 {
	if !a.has(name) {
		return 0
	}
	n, err := strconv.ParseInt(a.text(name), 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.d.Pos, name, err)
	}
	return n
}

func (a args) zones() *calendar.Zones {
	if a.has("2023c") {
		return zones2023c(a.t)
	}
	return calendar.Embedded()
}

func (a args) duration(name string) time.Duration {
	if !a.has(name) {
		return 0
	}
	v, err := calendar.ParseDuration(a.text(name))
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.d.Pos, name, err)
	}
	return v
}

func (a args) instant(name string, otherwise Instant) Instant {
	if !a.has(name) {
		return otherwise
	}
	return instant(a.text(name))
}

// moment is an instant, or a wall time.
func (a args) moment(name string) (Instant, string) {
	v := a.text(name)
	if v == "" || strings.HasSuffix(v, "Z") {
		return a.instant(name, 0), ""
	}
	return 0, v
}

func (a args) spec() *Spec {
	sp := &Spec{
		When: a.when(), Channel: "default", UserID: a.text("user"), Payload: []byte(a.text("payload")),
		Priority: Normal, Jitter: a.duration("jitter"), Expires: a.duration("expires_after"),
		CorrelationID: a.text("correlation"),
	}
	if a.has("channel") {
		sp.Channel = a.text("channel")
	}
	switch a.text("priority") {
	case "high":
		sp.Priority = High
	case "low":
		sp.Priority = Low
	}
	switch a.text("misfire") {
	case "fire_all":
		sp.Misfire = FireAll
	case "skip":
		sp.Misfire = SkipMissed
	}
	sp.Escalation = a.steps(sp.Channel)
	if a.has("url") {
		sp.Callback = &Callback{URL: a.text("url")}
	}
	if a.has("retry") {
		if sp.Callback == nil {
			sp.Callback = &Callback{URL: "https://example.com/hook"}
		}
		for _, r := range a.list("retry") {
			d, err := calendar.ParseDuration(r)
			if err != nil {
				a.t.Fatalf("%s: retry: %v", a.d.Pos, err)
			}
			sp.Callback.Retry = append(sp.Callback.Retry, d)
		}
	}
	return sp
}

// steps reads escalation=(5m:sms,10m:email): what comes after the trigger's channel.
func (a args) steps(first string) (steps []Step) {
	for _, text := range a.list("escalation") {
		if steps == nil {
			steps = []Step{{Channel: first}}
		}
		after, channel, _ := strings.Cut(text, ":")
		d, err := calendar.ParseDuration(after)
		if err != nil {
			a.t.Fatalf("%s: escalation: %v", a.d.Pos, err)
		}
		steps = append(steps, Step{Channel: channel, After: d})
	}
	return steps
}

func (a args) when() When {
	w := When{
		Zone: a.text("zone"), Recurrence: a.text("rule"), Start: a.text("start"), Until: a.text("until"),
		Count: int(a.number("count")), Include: a.list("include"), Exclude: a.list("exclude"),
		DST: DST{Gap: a.text("gap"), Overlap: a.text("overlap")},
	}
	w.FireAt, w.Local = a.moment("fire_at")
	if a.has("calendar") {
		w.Calendars = &Calendars{Names: a.list("calendar"), On: cmp.Or(a.text("on"), "skip")}
	}
	switch {
	case w.Recurrence != "" || len(w.Include) > 0:
		w.Kind = WhenRecurrence
	case w.Local != "":
		w.Kind = WhenLocal
	case w.FireAt != 0:
		w.Kind = WhenInstant
	case a.has("delay"):
		w.Kind, w.DelayText, w.Delay = WhenDelay, a.text("delay"), a.duration("delay")
	}
	return w
}

func instant(s string) Instant {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return At(t)
}
