package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Notifications is what a gateway asks of the history of notifications.
type Notifications interface {
	// Notifications lists those of one user, the newest first.
	Notifications(ctx context.Context, q topics.NotificationQuery) (topics.NotificationPage, error)
	// Notification is one of a tenant, with its content.
	Notification(ctx context.Context, tenant, id string) (n topics.Notification, ok bool, err error)
	// EventsNext is, by partition of topic events, the offset of the first record that is not
	// in the history yet.
	EventsNext(ctx context.Context) (map[int32]int64, error)
}

// Notification is an item of a list, and the answer about one.
type Notification struct {
	NotificationID string            `json:"notification_id" doc:"The ce_id without the step"`
	TriggerID      string            `json:"trigger_id"`
	UserID         string            `json:"user_id,omitempty" doc:"Absent once the trigger was erased"`
	Type           string            `json:"type,omitempty" doc:"Its tag type"`
	CreatedAt      string            `json:"created_at" format:"date-time" doc:"When it first went out"`
	ChannelStatus  map[string]string `json:"channel_status" doc:"By channel: PENDING, SENT, DELIVERED, FAILED, SUPPRESSED or POSTPONED"`
	AckedAt        string            `json:"acked_at,omitempty" format:"date-time" doc:"When the user acknowledged it"`
	Content        *Content          `json:"content,omitempty" doc:"What it said; in lists with content=1"`

	ContentHidden bool `json:"content_hidden,omitempty" doc:"What it said is asked for, and the caller's roles may not read it"`
}

// Content is what a notification said.
type Content struct {
	Title        string         `json:"title,omitempty"`
	Body         string         `json:"body,omitempty"`
	DeepLink     string         `json:"deep_link,omitempty"`
	TemplateID   string         `json:"template_id,omitempty"`
	TemplateData jsontext.Value `json:"template_data,omitempty" doc:"An object"`
}

// NotificationList is a page of notifications, the newest first.
type NotificationList struct {
	Items      []Notification `json:"items"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"Absent on the last page"`
}

func notificationRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodGet, pattern: "/v1/users/{user}/notifications", right: auth.Read,
			handle: p.notifications.listNotifications, costly: true, doc: operation{
				id:      "listNotifications",
				summary: "List the outcomes of a user's notifications, the newest first",
				query: []parameter{
					{name: "from", doc: "Created at or after this instant", kind: of[string]()},
					{name: "to", doc: "Created before this instant", kind: of[string]()},
					{name: "content", doc: "1 adds their content", kind: of[string](), oneOf: flags},
					{name: "cursor", doc: "next_cursor of the page before, with the same bounds", kind: of[string]()},
					limitParameter,
				},
				answers: answers{200: of[NotificationList]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/notifications/{notification}", right: auth.Read,
			handle: p.notifications.getNotification, costly: true, doc: operation{
				id:      "getNotification",
				summary: "Read the outcome of one occurrence on each channel, and its content",
				answers: answers{200: of[Notification]()},
			},
		},
	}
}

// notifications answers what became of users' notifications.
type notifications struct {
	history *historyWait

	cursors    *cursorSeal
	names      topics.Names
	readWithin time.Duration
	rows       Notifications // of the history; nil: there is none
}

func (s *notifications) notificationsThere() error {
	if s.rows == nil {
		return noHistory(errNoHistory)
	}
	return nil
}

func (s *notifications) listNotifications(w http.ResponseWriter, r *request) error {
	q, sealed, err := s.notificationQuery(r)
	if err != nil {
		return err
	}
	if err := s.notificationsThere(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	if q.After.IsZero() {
		s.awaitNotifications(ctx, "") // a user's triggers are on all partitions
	}
	hidden := q.Content && !r.who.May(auth.ReadPayloads)
	q.Content = q.Content && !hidden
	var page topics.NotificationPage
	if err := r.read.gather(ctx, func() (err error) {
		page, err = s.notificationPage(ctx, r.read, q)
		if r.read.chargePage(len(page.Items), q.Limit, err); err != nil {
			return problem.Unavailable(err, "the history does not answer")
		}
		return nil
	}); err != nil {
		return err
	}
	answer := NotificationList{Items: make([]Notification, 0, len(page.Items))}
	for i := range page.Items {
		one := notificationJSON(&page.Items[i])
		one.ContentHidden = hidden
		answer.Items = append(answer.Items, one)
	}
	if next := page.Next; !next.IsZero() {
		answer.NextCursor = s.cursors.seal(sealed, peer.UserCursor{Due: next.CreatedAt, Key: trigger.Key(next.ID)})
	}
	return sendJSON(w, http.StatusOK, answer)
}

// awaitNotifications waits as lists of dead letters do, so that who has just seen an event
// finds it in the answer. What notifications said is not waited for.
func (s *notifications) awaitNotifications(ctx context.Context, key trigger.Key) {
	all := s.history.partitionsOf(s.names.Events(), key)
	s.history.awaitHistory(ctx, all, func(ctx context.Context) (map[kafkapart.TopicPartition]int64, error) {
		happened, err := s.rows.EventsNext(ctx)
		next := make(map[kafkapart.TopicPartition]int64, len(all))
		for _, at := range all {
			next[at] = happened[at.Partition]
		}
		return next, err
	})
}

// contentsAtOnce is how many contents are read before their bytes are counted.
const contentsAtOnce = 16

// notificationPage reads a page. One with contents ends where these have the bytes that a page may
// have, however few they are.
func (s *notifications) notificationPage(ctx context.Context, one *read, q topics.NotificationQuery) (
	page topics.NotificationPage, err error,
) {
	if !q.Content {
		return s.rows.Notifications(ctx, q)
	}
	limit, held := q.Limit, int64(0)
	for {
		q.Limit = min(contentsAtOnce, limit-len(page.Items))
		part, err := s.rows.Notifications(ctx, q)
		if err != nil {
			return page, err
		}
		for i := range part.Items {
			n := &part.Items[i]
			if c := n.Content; c != nil {
				size := int64(len(c.Title) + len(c.Body) + len(c.DeepLink) + len(c.TemplateID) + len(c.TemplateData))
				one.taken(size)
				held += size
			}
			page.Items = append(page.Items, *n)
			if held >= one.cost.Bytes && i < len(part.Items)-1 {
				page.Next = n.Cursor()
				return page, nil
			}
		}
		page.Next = part.Next
		if part.Next.IsZero() || len(page.Items) >= limit || held >= one.cost.Bytes {
			return page, nil
		}
		q.After = part.Next
	}
}

// ofNotifications stands in the sealed question, so that no cursor of another list fits.
const ofNotifications = "\x00notifications"

// notificationQuery reads the parameters of a list, and to what its cursors are sealed.
func (s *notifications) notificationQuery(r *request) (q topics.NotificationQuery, sealed *peer.Query, err error) {
	u := preferences.User{Tenant: r.who.Tenant, ID: r.names["user"]}
	if err := u.Check(); err != nil {
		return q, nil, err
	}
	v := r.query
	if v.Has("cursor") && v.Get("cursor") == "" {
		return q, nil, problem.BadParameter("cursor", "cursor is empty: omit it, or give it a value")
	}
	of, err := r.listRange()
	if err != nil {
		return q, nil, err
	}
	q = topics.NotificationQuery{
		Tenant: u.Tenant, User: u.ID, Limit: of.limit, From: of.from, To: of.to, Content: r.flag("content"),
	}
	sealed = &peer.Query{Tenant: q.Tenant, User: q.User, Channel: ofNotifications, From: q.From, To: q.To}
	if text := v.Get("cursor"); v.Has("cursor") {
		at, err := s.cursors.open(sealed, text)
		if err != nil {
			return q, nil, err
		}
		q.After = topics.NotificationCursor{CreatedAt: at.Due, ID: string(at.Key)}
	}
	return q, sealed, nil
}

func (s *notifications) getNotification(w http.ResponseWriter, r *request) error {
	if err := s.notificationsThere(); err != nil {
		return err
	}
	unknown := problem.New(http.StatusNotFound, "not_found", "",
		"no notification has this id: it may be too new, or older than history.retention")
	of, ok := topics.TriggerOfNotification(r.names["notification"])
	if !ok {
		return unknown
	}
	key, err := r.key(of)
	if err != nil {
		return unknown
	}
	id := topics.NotificationID(string(key), r.names["notification"][len(of)+1:])
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	s.awaitNotifications(ctx, key)
	var n topics.Notification
	if err := r.read.gather(ctx, func() (err error) {
		n, ok, err = s.rows.Notification(ctx, r.who.Tenant, id)
		if r.read.charge(1); err != nil {
			return problem.Unavailable(err, "the history does not answer")
		}
		return nil
	}); err != nil {
		return err
	}
	if !ok {
		return unknown
	}
	answer := notificationJSON(&n)
	if !r.who.May(auth.ReadPayloads) && answer.Content != nil {
		answer.Content, answer.ContentHidden = nil, true
	}
	return sendJSON(w, http.StatusOK, answer)
}

func notificationJSON(n *topics.Notification) Notification {
	id := trigger.Key(n.Trigger).ID()
	answer := Notification{
		NotificationID: id + n.ID[len(n.Trigger):], TriggerID: id, UserID: n.User, Type: n.Type,
		CreatedAt: n.CreatedAt.String(), ChannelStatus: n.Channels,
	}
	if n.AckedAt != 0 {
		answer.AckedAt = n.AckedAt.String()
	}
	if c := n.Content; c != nil {
		answer.Content = &Content{c.Title, c.Body, c.DeepLink, c.TemplateID, c.TemplateData}
	}
	return answer
}
