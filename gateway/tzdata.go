package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TZData says which release of the tz database plans triggers, and what the one that this
// program carries would change.
type TZData struct {
	Active   TZRelease  `json:"active" doc:"The release in force"`
	Embedded TZRelease  `json:"embedded" doc:"The release that the program carries which answers"`
	Same     bool       `json:"same" doc:"The two are one release"`
	Ahead    bool       `json:"ahead" doc:"embedded is newer than active: waterclock tzdata apply embedded puts it in force"`
	Changes  []TZChange `json:"changes" doc:"Zones whose clocks embedded changes within ten years from now, by name"`

	ClockChanges []ClockChange `json:"clock_changes" doc:"When clocks are put forward or back within 14 days, by the release in force, in order. All zones of the release: which ones triggers use is not known"`
}

// ClockChange is an instant at which clocks of some zones are put forward or back.
type ClockChange struct {
	At           string   `json:"at" format:"date-time"`
	ShiftSeconds int64    `json:"shift_seconds" doc:"So much clocks are put forward; back if it is negative" example:"3600"`
	Zones        []string `json:"zones" doc:"By name"`
}

// TZRelease is a release of the tz database.
type TZRelease struct {
	Label   string   `json:"label" doc:"As IANA names it"`
	SHA256  string   `json:"sha256"`
	Zones   int      `json:"zones" doc:"How many it has"`
	Since   string   `json:"since,omitempty" format:"date-time" doc:"When it was applied; absent if none was, and each engine uses the one that it carries"`
	Carried []string `json:"carried,omitempty" doc:"Zones that it lacks, with the rules of the release before it"`
}

// TZChange is a zone whose clocks differ between two releases.
type TZChange struct {
	Zone string `json:"zone"`
	What string `json:"what" enum:"changed,added,removed"`
	From string `json:"from" format:"date-time" doc:"The first instant at which clocks differ"`
}

// clocksAhead is how far ahead changes of clocks are listed.
const clocksAhead = 14 * 24 * time.Hour

// ClockChanges are the changes of clocks within 14 days of now.
func ClockChanges(z *calendar.Zones, now time.Time) []ClockChange {
	all := []ClockChange{}
	for _, c := range z.ClockChanges(now.UnixMilli(), now.Add(clocksAhead).UnixMilli()) {
		all = append(all, ClockChange{trigger.Instant(c.At).String(), int64(c.Shift / time.Second), c.Zones})
	}
	return all
}

// comparedAhead is how far ahead two releases are compared, and comparedEvery how long a
// comparison is kept.
const (
	comparedAhead = 10 * 366 * 24 * time.Hour
	comparedEvery = time.Hour
)

// tzReleases reads the release in force from topic control, and keeps it: it is large. The next
// question reads what was appended since.
type tzReleases struct {
	control    *topicReader
	readWithin time.Duration
	now        func() time.Time

	mu   sync.Mutex
	kept tzKept
}

// tzKept is what was read, and what was compared.
type tzKept struct {
	next     int64               // offset of topic control
	active   *tzApplied          // nil: none was applied
	compared ofRelease[TZChange] // active with the embedded one
	clocks   ofRelease[ClockChange]
}

// ofRelease is a list that was computed of a release, as of then.
type ofRelease[T any] struct {
	list    []T
	release string
	at      time.Time
}

// get computes the list anew if it is of another release, or was computed so long ago.
func (k *ofRelease[T]) get(release string, now time.Time, every time.Duration, compute func() []T) []T {
	if k.release != release || now.Sub(k.at) >= every {
		k.list, k.release, k.at = compute(), release, now
	}
	return k.list
}

// tzApplied is a release that was applied.
type tzApplied struct {
	zones   *calendar.Zones
	carried []string
	since   trigger.Instant
}

func (s *tzReleases) getTZData(w http.ResponseWriter, r *request) error {
	active, err := s.inForce(r.Context())
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	own := calendar.Embedded()
	answer := TZData{Active: tzRelease(own), Embedded: tzRelease(own), Same: true, Changes: []TZChange{}}
	if active != nil {
		answer.Active = tzRelease(active.zones)
		answer.Active.Since, answer.Active.Carried = active.since.String(), active.carried
		answer.Same = active.zones.ID() == own.ID()
		answer.Ahead = own.Release() > active.zones.Release() // 2025c, 2026a: IANA's names are in order
	}
	if !answer.Same {
		answer.Changes = s.changes(active.zones, own)
	}
	inForce := own
	if active != nil {
		inForce = active.zones
	}
	answer.ClockChanges = s.clockChanges(inForce)
	return sendJSON(w, http.StatusOK, answer)
}

func tzRelease(z *calendar.Zones) TZRelease {
	return TZRelease{Label: z.Release(), SHA256: z.ID(), Zones: len(z.Names())}
}

// inForce is the last release that was applied; nil if there is none. As in the engine, a
// record that is damaged, or of a later version, changes nothing.
func (s *tzReleases) inForce(ctx context.Context) (*tzApplied, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readWithin)
	defer cancel()
	end, err := stableEnd(ctx, s.control.kafka.Client(), s.control.topic, 0)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	from, active := s.kept.next, s.kept.active
	s.mu.Unlock()
	if end < from { // another topic of the same name
		from, active = 0, nil
	}
	err = s.control.read(ctx, 0, from, end, func(r *kgo.Record) error {
		if string(r.Key) != topics.ControlTZData {
			return nil
		}
		if r.Value == nil {
			active = nil
		} else if applied := appliedRelease(r); applied != nil {
			active = applied
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.next, s.kept.active = end, active
	return active, nil
}

// appliedRelease decodes a record; nil if it is no release.
func appliedRelease(r *kgo.Record) *tzApplied {
	set, err := topics.DecodeSetting(kafkarec.Of(r))
	if err != nil {
		return nil
	}
	zones, err := calendar.LoadZones(set.TZData.Zip, set.TZData.Label)
	if err != nil {
		return nil
	}
	return &tzApplied{zones: zones, carried: set.TZData.Carried, since: trigger.At(r.Timestamp)}
}

// clockChanges are those within 14 days. They are computed once a minute: each time all zones are parsed.
func (s *tzReleases) clockChanges(z *calendar.Zones) []ClockChange {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.clocks.get(z.ID(), now, clocksEvery, func() []ClockChange { return ClockChanges(z, now) })
}

// clocksEvery is how long a list of changes is kept.
const clocksEvery = time.Minute

// changes are what a release changes, within ten years from now.
func (s *tzReleases) changes(active, next *calendar.Zones) []TZChange {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.compared.get(active.ID(), now, comparedEvery, func() []TZChange { return compare(active, next, now) })
}

func compare(active, next *calendar.Zones, now time.Time) []TZChange {
	all := []TZChange{}
	for _, d := range calendar.Diff(active, next, now.UnixMilli(), now.Add(comparedAhead).UnixMilli()) {
		what := "changed"
		if d.Added {
			what = "added"
		} else if d.Removed {
			what = "removed"
		}
		all = append(all, TZChange{Zone: d.Zone, What: what, From: trigger.Instant(d.At).String()})
	}
	return all
}
