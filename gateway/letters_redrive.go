package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// RedriveProgress is a line of the answer: what became of the letters so far.
type RedriveProgress struct {
	Visited   int64  `json:"looked_at"`
	Matched   int64  `json:"matched"`
	Redriven  int64  `json:"redriven"`
	Duplicate int64  `json:"duplicate"`
	Expired   int64  `json:"expired"`
	Refused   int64  `json:"refused"`
	Pending   int64  `json:"pending"`
	DryRun    bool   `json:"dry_run,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
	Done      bool   `json:"done"`
}

// Bounds of a redrive: the rate, and how many letters are under way at a time.
const (
	defaultRedriveRate = 100
	minRedriveRate     = 0.01
	maxRedriveRate     = 100_000
	maxRedriveChunk    = 1000
)

// redrive is one request to try dead letters again.
type redrive struct {
	s        *redrives
	r        *request
	q        topics.LetterQuery
	sealed   letterQuestion  // to which its cursors belong: with the bounds as they were asked for
	id, ceID string          // of a trigger, and of one occurrence; "" for all that the query finds
	list     []topics.Letter // of a trigger: those that are to be sent
	more     bool            // the trigger has further ones
	scan     letterScan      // where those are, without a history
	alone    bool            // it has one letter to send: if that is refused, the refusal is the whole answer
	expired  bool            // send those too
	dry      bool
	note     string // of the events
	pace     *rate.Limiter
	paced    bool // its rate has let the next letter through; the tenant's has not yet
	chunk    int
	content  letterContents
	inFlight *flight // nil: all that was sent is counted

	w      http.ResponseWriter
	out    *http.ResponseController
	begun  bool
	only   error     // why the only letter of a trigger was refused
	asked  time.Time // when it began with the letters …
	spoke  time.Time // … and last said how far it is
	totals RedriveProgress
}

// redrives tries dead letters again.
type redrives struct {
	admits  admits
	auditor *auditor
	bodies  *bodies
	encoder *encoder
	letters *deadLetters
	rate    *writeRate

	reads        *reads // a dry run is one
	answerWithin time.Duration
	commands     *commandLog
	decider      *decider
	horizon      time.Duration
	log          *slog.Logger
	now          func() time.Time
	onStop       func(func()) (undo func() bool) // calls a function when the server stops
	readWithin   time.Duration
	slots        *slots.Slots // shared with batches
	ofTrigger    int          // bounds the dead letters of one trigger that are in memory
}

// postRedrive tries dead letters again and streams how far it is. The engine
// decides about each: one that is live or was redriven before is a duplicate, so
// a request that was cut off is simply sent again.
func (s *redrives) postRedrive(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	if !s.slots.Take(r.who.Tenant) { // before it looks for the letters of a trigger, which may read a topic
		return problem.Unavailable(nil, "too many batches and redrives are under way")
	}
	defer s.slots.Release(r.who.Tenant)
	job, err := s.redrive(r, fs)
	if err != nil {
		return err
	}
	if job.dry {
		return s.reads.costly(w, r, job.answer)
	}
	return job.answer(w, r)
}

// answer runs the redrive and streams how far it is.
func (j *redrive) answer(w http.ResponseWriter, r *request) error {
	if j.id != "" {
		if err := j.findFirst(); err != nil {
			return err
		}
	}
	ctx, stop := j.s.admits.during(r)
	defer stop()
	defer j.s.onStop(stop)()
	j.w, j.out = w, http.NewResponseController(w)
	_ = j.out.SetReadDeadline(time.Time{}) // it is not the body that takes long
	err := j.run(ctx)
	if p := withdrawn(ctx); p != nil && err != nil {
		err = p
	}
	if err == nil && j.only != nil {
		return j.only
	}
	if err == nil {
		j.totals.Done, j.totals.Cursor = true, ""
		j.say(&j.totals)
		return nil
	}
	if !j.begun {
		return err
	}
	j.say(&j.totals)
	p := *problem.Of(err)
	if p.Status == http.StatusInternalServerError {
		j.s.log.Error("redrive failed", "error", p.Unwrap())
	}
	j.say(&p)
	return nil
}

// findFirst lists the first letters of a trigger.
func (j *redrive) findFirst() error {
	missing := problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "no dead letter of this trigger").About(j.id)
	tenant, key, err := j.r.letterTrigger(j.q.Tenant, j.id)
	if err != nil {
		return missing
	}
	j.q = topics.LetterQuery{
		Tenant: tenant, Trigger: key, Status: topics.LetterAny, Limit: min(maxPage, j.s.ofTrigger), Newest: true,
	}
	ctx := j.r.Context()
	if j.s.letters.rows != nil {
		if err := j.awaitHistory(ctx); err != nil {
			return err
		}
	}
	if err := j.find(ctx); err != nil {
		return err
	}
	if len(j.list) == 0 && j.totals.Visited == 0 {
		return missing
	}
	j.alone = len(j.list) == 1 && !j.more
	return nil
}

// awaitHistory waits until the history has all that the topics have. It says what was redriven before: one that is
// behind would have letters sent again that the engine has forgotten. A dry run sends none, and takes what is there.
func (j *redrive) awaitHistory(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.s.readWithin)
	defer cancel()
	if j.dry {
		j.s.letters.awaitLetters(ctx, j.q)
		return nil
	}
	return j.s.letters.requireLetters(ctx, j.q)
}

// ofTrigger bounds the dead letters of one trigger that are in memory.
const ofTrigger = 20_000

// find lists of each occurrence of a trigger, or of one, the newest letter: as many as may be in memory, the oldest
// first. What was redriven or delivered is counted, and not sent: the engine knows only the last redrives of a trigger.
func (j *redrive) find(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.s.readWithin)
	defer cancel()
	in := j.findInHistory
	if j.s.letters.rows == nil {
		in = j.findInTopic
	}
	if err := j.reporting(func() error { return in(ctx) }); err != nil {
		return err
	}
	found := len(j.list)
	j.list = slices.DeleteFunc(j.list, func(l topics.Letter) bool {
		return l.Status == topics.LetterRedriven || l.Status == topics.LetterResolved && j.ceID == ""
	})
	ended := int64(found - len(j.list))
	switch {
	case !j.dry:
		j.charge(int(ended))
	case j.s.letters.rows == nil: // pages of a history are charged as they are read
		j.charge(found)
	}
	j.totals.Visited += int64(found)
	j.totals.Matched += ended
	j.totals.Duplicate += ended
	return nil
}

func (j *redrive) findInTopic(ctx context.Context) (err error) {
	if j.scan == (letterScan{}) {
		j.scan, err = j.s.letters.scanOf(ctx, trigger.Key(j.q.Trigger), trigger.At(j.s.now().Add(-j.s.horizon)))
	}
	if err == nil {
		j.list, j.more, err = j.s.letters.scanLetters(ctx, &j.scan, j.ceID, j.s.ofTrigger)
	}
	if err != nil {
		return problem.Unavailable(err, "topic dead-letter could not be read in time; a history knows the "+
			"offsets of a trigger's dead letters")
	}
	return nil
}

func (j *redrive) findInHistory(ctx context.Context) error {
	j.list = nil
	seen := map[string]bool{}
	for {
		page, err := j.s.letters.letterPage(ctx, j.q)
		if err != nil {
			if j.charge(page.Visited); !j.dry {
				j.charge(len(j.list)) // which are not sent
			}
			return err
		}
		had := len(j.list)
		for _, l := range page.Items {
			if !seen[l.DueID] && (j.ceID == "" || l.DueID == j.ceID) {
				seen[l.DueID] = true
				j.list = append(j.list, l)
			}
		}
		visited := page.Visited
		if !j.dry { // what is sent has a rate of its own
			visited -= len(j.list) - had
		}
		j.charge(visited)
		j.q.After = page.Next
		j.more = !page.Next.IsZero() && (j.ceID == "" || len(j.list) == 0)
		if !j.more || len(j.list) >= j.s.ofTrigger {
			slices.SortFunc(j.list, byPosition)
			return nil
		}
	}
}

// run goes through the letters, a chunk at a time. While the engine decides about one chunk, the
// next is read and written.
func (j *redrive) run(ctx context.Context) error {
	if j.id != "" {
		j.asked = time.Now()
		return j.runTrigger(ctx)
	}
	if err := j.awaitHistory(ctx); err != nil {
		return err
	}
	j.asked = time.Now()
	ctx, stop := context.WithCancel(ctx)
	next := j.readPage(ctx, j.q)
	defer func() {
		stop()
		unused := <-next
		j.charge(unused.page.Visited)
	}()
	for {
		var read letterPageRead
		_ = j.reporting(func() error { read = <-next; return nil })
		if read.err != nil {
			j.charge(read.page.Visited)
			return errors.Join(j.land(), read.err)
		}
		page := &read.page
		if j.q.After = page.Next; !page.Next.IsZero() { // read while these are decided
			next = j.readPage(ctx, j.q)
		}
		j.totals.Visited += int64(page.Visited)
		expired := j.totals.Expired
		if err := j.take(ctx, page.Items); err != nil {
			j.charge(page.Visited) // how many of it were sent is not counted
			return err
		}
		sent := len(page.Items) - int(j.totals.Expired-expired)
		if err := j.reporting(func() error { return j.pay(ctx, page.Visited, sent) }); err != nil {
			return errors.Join(j.land(), err)
		}
		if page.Next.IsZero() {
			return j.land()
		}
		if j.inFlight == nil {
			j.totals.Cursor = j.cursor(page.Next)
		} else {
			j.inFlight.cursor = j.cursor(page.Next)
		}
		j.report()
	}
}

// charge charges the caller's tenant for letters that were visited. A dry run pays when it ends, as a read.
func (j *redrive) charge(visited int) {
	if j.r.read != nil {
		j.r.read.charge(visited)
		return
	}
	j.s.reads.quota.charge(j.r.who.Tenant, int64(visited))
}

// pay charges the caller's tenant for letters that were visited in vain: what is sent has a rate of its own. A dry run
// pays for all when it ends.
func (j *redrive) pay(ctx context.Context, visited, sent int) error {
	switch {
	case j.r.read != nil:
		j.charge(visited)
		return nil
	case visited <= sent:
		return nil
	}
	return j.s.reads.quota.pay(ctx, j.r.who.Tenant, visited-sent)
}

// runTrigger goes through the letters of a trigger.
func (j *redrive) runTrigger(ctx context.Context) error {
	for {
		for rest := j.list; len(rest) > 0; {
			n := min(j.chunk, len(rest))
			if err := j.take(ctx, rest[:n]); err != nil {
				return err
			}
			if rest = rest[n:]; len(rest) > 0 || j.more { // an only letter that is refused is the whole answer
				j.report()
			}
		}
		if !j.more {
			return j.land()
		}
		if err := j.find(ctx); err != nil {
			return errors.Join(j.land(), err)
		}
	}
}

// cursor is where a request with the same filters goes on.
func (j *redrive) cursor(at topics.LetterCursor) string {
	return j.s.letters.cursors.sealLetter(&j.sealed, at)
}

type letterPageRead struct {
	page topics.LetterPage
	err  error
}

// readPage reads a page beside the caller. The channel is closed behind it.
func (j *redrive) readPage(ctx context.Context, q topics.LetterQuery) <-chan letterPageRead {
	read := make(chan letterPageRead, 1)
	go func() {
		defer close(read)
		ctx, cancel := context.WithTimeout(ctx, j.s.readWithin)
		defer cancel()
		page, err := j.s.letters.letterPage(ctx, q)
		read <- letterPageRead{page, err}
	}()
	return read
}

// flight is a chunk whose commands are on their way: they are written, or were refused, and
// nobody has counted yet what the engine decided about them.
type flight struct {
	chunk   *chunk
	letters []topics.Letter
	cursor  string // where the next page begins; "" within a page

	decided   chan struct{} // closed when these two are there
	locations []location
	answers   []*peer.Question
}

// take redrives some letters. Those of one flight may still be undecided when it returns.
func (j *redrive) take(ctx context.Context, letters []topics.Letter) error {
	j.totals.Matched += int64(len(letters))
	now := trigger.At(j.s.now())
	letters = slices.DeleteFunc(slices.Clone(letters), func(l topics.Letter) bool {
		over := l.ExpiresAt != 0 && l.ExpiresAt <= now && !j.expired
		if over {
			j.totals.Expired++
		}
		return over
	})
	if j.dry {
		return nil
	}
	slices.SortFunc(letters, byPosition)
	for len(letters) > 0 {
		read, cancel := context.WithTimeout(ctx, j.s.readWithin)
		var records []*kgo.Record
		err := j.reporting(func() (err error) {
			records, err = j.content.some(read, letters)
			return err
		})
		cancel()
		if err != nil {
			err = problem.Unavailable(err,
				"topic dead-letter cannot be read; send the request again, and it goes on")
			return errors.Join(j.land(), err)
		}
		for len(records) > 0 {
			f, n := j.write(ctx, letters, records)
			letters, records = letters[n:], records[n:]
			err = j.land()
			if j.inFlight = f; err != nil {
				return errors.Join(err, j.land())
			}
			if err := ctx.Err(); err != nil || j.chunk < maxRedriveChunk { // slow: progress is more than speed
				if err := errors.Join(j.land(), err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// write sends the commands of the first letters, of as many as there are records, as have room among
// the undecided of the caller's tenant, and as the rates let through within gatherWithin. n is how many of
// the letters it is done with; all, if the caller has hung up.
func (j *redrive) write(ctx context.Context, letters []topics.Letter, records []*kgo.Record) (_ *flight, n int) {
	c := &chunk{waiting: 1, durable: make(chan struct{})}
	letters = letters[:len(records)]
	gather, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	for ; n < len(letters); n++ {
		cmd, err := j.command(&letters[n], records[n])
		if err != nil {
			j.refuse(&letters[n], err)
			continue
		}
		room, err := j.room(ctx, c.lacking == 0)
		if err == nil && !room {
			break
		}
		if err == nil {
			until := gather
			if c.lacking == 0 {
				until = ctx
			}
			err = j.wait(until, letters[n].Tenant)
			if err != nil && ctx.Err() == nil { // for the next flight
				j.s.rate.undecided.done(j.r.who.Tenant, 1)
				break
			}
			c.lacking++
		}
		if err != nil { // what was sent is decided all the same
			n = len(letters)
			break
		}
		c.lines = append(c.lines, batchLine{n: n, command: cmd})
		c.locations = append(c.locations, location{err: errKafkaSilent})
	}
	for i := range c.lines {
		c.write(ctx, j.s.commands, i)
	}
	c.acknowledged()
	flown := &flight{chunk: c, letters: letters, decided: make(chan struct{})}
	before := j.inFlight
	go func() {
		defer j.s.rate.undecided.done(j.r.who.Tenant, c.lacking)
		flown.ask(context.WithoutCancel(ctx), j.s, before)
	}()
	return flown, n
}

// gatherWithin is how long commands wait to be written together. They hold room meanwhile, and progress does not count
// them. A page at a low rate takes about a second.
const gatherWithin = 2 * time.Second

// room takes room for one more command. Only the first of a flight waits for it: the others of the
// flight are not written yet, and hold room until they are decided. An operator's redrive takes the
// room of the operator's tenant, as it takes from no other tenant's rate.
func (j *redrive) room(ctx context.Context, first bool) (bool, error) {
	u, tenant := j.s.rate.undecided, j.r.who.Tenant
	u.writes(tenant)
	if u.try(tenant) {
		return true, nil
	}
	if !first {
		return false, nil
	}
	err := j.reporting(func() error { return u.wait(ctx, tenant) })
	return err == nil, err
}

// ask waits until the commands are durable, and asks what was decided about them. The engine decides
// about those of the flight before first, so the time for an answer begins when it has.
func (f *flight) ask(ctx context.Context, s *redrives, before *flight) {
	defer close(f.decided)
	_, late := acknowledged(s.commands, f.chunk.durable)
	if before != nil {
		<-before.decided
	}
	f.locations = f.chunk.knownAfter(late)
	f.answers = make([]*peer.Question, len(f.chunk.lines))
	ctx, cancel := context.WithTimeout(ctx, s.answerWithin)
	defer cancel()
	f.chunk.decide(ctx, s.decider, f.locations, f.answers)
}

// wait keeps to the rate, and to the caller's tenant's. An operator's redrive takes from no
// tenant's rate: the letters of one whose rate is used up would hold up those of all others.
func (j *redrive) wait(ctx context.Context, tenant string) error {
	if !j.paced && !j.pace.Allow() {
		if err := j.reporting(func() error { return j.pace.Wait(ctx) }); err != nil {
			return err
		}
	}
	j.paced = false
	if j.r.who.May(auth.Operate) || j.s.rate.limits.take(tenant) == nil {
		return nil
	}
	err := j.reporting(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tenantPause):
			}
			if j.s.rate.limits.take(tenant) == nil {
				return nil
			}
		}
	})
	j.paced = err != nil
	return err
}

// tenantPause is how soon a tenant's rate is looked at again.
const tenantPause = 20 * time.Millisecond

// command spells the redrive of a letter; rec is its record, nil where the topic
// has dropped it.
func (j *redrive) command(l *topics.Letter, rec *kgo.Record) (*command, error) {
	if rec == nil {
		return nil, &trigger.Error{Code: trigger.CodeNotFound, Msg: "the topic dead-letter no longer has its content"}
	}
	dead, err := topics.DecodeDeadLetter(kafkarec.Of(rec))
	switch {
	case err != nil:
		return nil, err
	case l.Cut:
		return nil, &trigger.Error{
			Code: trigger.CodeTooLarge,
			Msg:  "the dead letter was truncated to fit its topic: register it again",
		}
	case j.expired:
		dead.Fire.Expires = 0
	}
	value, err := topics.RedriveCommand(dead, j.note, recordable(j.r.who.Name))
	if err != nil {
		return nil, err
	}
	key := trigger.Key(l.Trigger)
	c := &command{op: trigger.OpRedrive, id: key.ID(), key: key, value: value, trace: j.r.span.Parent()}
	return c, j.s.encoder.check(l.Tenant, c)
}

// land waits for the decisions about the flight, if there is one, and counts them.
func (j *redrive) land() error {
	f := j.inFlight
	if j.inFlight = nil; f == nil {
		return nil
	}
	_ = j.reporting(func() error { <-f.decided; return nil })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.r.Context()), j.s.answerWithin)
	defer cancel()
	var failed error
	for i := range f.chunk.lines {
		line := &f.chunk.lines[i]
		if err := f.locations[i].err; err != nil {
			j.totals.Matched-- // it comes again
			failed = notWritten(err)
			continue
		}
		v, err := verdict{}, error(nil)
		if a := f.answers[i]; a != nil && a.Known {
			v, err = j.s.decider.judge(ctx, line.command, a)
		}
		switch {
		case err != nil:
			j.refuse(&f.letters[line.n], err)
		case v.has(trigger.Duplicate):
			j.totals.Duplicate++
		case v.decided:
			j.totals.Redriven++
		default:
			j.totals.Pending++
		}
	}
	if failed == nil && f.cursor != "" {
		j.totals.Cursor = f.cursor
	}
	return failed
}
