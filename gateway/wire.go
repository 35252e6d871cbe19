package gateway

import (
	"context"
	"log/slog"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/slots"
)

// parts answer the routes. Each has what it needs, and none has the server.
type parts struct {
	writes        *triggerWrites
	batches       *batches
	views         *triggerViews
	reminders     *reminders
	previews      *previews
	streams       *eventStreams
	explanations  *explanations
	searches      *searches
	letters       *deadLetters
	redrives      *redrives
	rejected      *rejections
	audit         *auditList
	reveals       *reveals
	lateness      *latenessViews
	forecasts     *forecasts
	live          *liveStreams
	notifications *notifications
	users         *users
	calendars     *calendars
	tzdata        *tzReleases
	channels      *channelAdmin
	settings      *settings
	endpoints     *endpoints
	cluster       *cluster
	watermarks    *watermarks
	ackLinks      *ackLinks
	optOuts       *optOutLinks
	twilio        *twilioStatus
	identity      *identity
	documents     *documents
	probes        *probes
}

// common is what several parts use.
type common struct {
	kafka   *producer.Producer
	router  *peer.Router // asks owners
	auditor *auditor
	acts    *acts // who did what
	log     *slog.Logger

	bodies   *bodies
	lookup   *lookup
	cursors  *cursorSeal
	rate     *writeRate
	commands *commandLog // writes
	decider  *decider    // what became of writes
	encoder  *encoder
	writer   *commandWriter
	prefs    *preferenceCalls
	moves    *mover
	erasures *eraser
	history  *historyWait
	reads    *reads
	answers  *sharedAnswers
	events   *eventLog
	ackRates *rateLimits // of links to acknowledge, by occurrence
	streams  *openStreams
	batches  *slots.Slots                    // one for each batch or redrive under way
	waiting  *undecided                      // commands; nil without log-in
	onStop   func(func()) (undo func() bool) // calls a function when the server stops
}

// wire makes the parts of a server: first what they have in common, then each with what it
// needs.
func (s *Server) wire() {
	o, kafka := &s.opts, s.kafka
	stopping, stop := context.WithCancel(context.Background())
	s.stop = stop
	c := &common{
		kafka: kafka, router: s.router, log: s.log,
		onStop: func(f func()) func() bool { return context.AfterFunc(stopping, f) },
	}
	if o.Auth != nil {
		c.waiting = newUndecided(o.CommandsBeside, o.CommandsAlone, o.Now)
	}
	c.batches = slots.New(o.Batches, o.Auth != nil)
	c.bodies = &bodies{limits: o.Limits, bodyRate: o.BodyRate, held: newPages(o.BodiesInFlight)}
	c.lookup = &lookup{router: s.router, readWithin: o.ReadWithin}
	c.cursors = newCursorSeal(sealSecrets(o.Peers))
	c.commands = &commandLog{
		kafka: kafka, topic: o.Names.Commands(), partitions: o.Partitions, within: o.ProduceWithin,
		tracing: o.Tracing, noRoom: o.NoRoom, throttled: o.Throttled,
	}
	c.auditor = newAuditor(o, c.commands)
	c.acts = &acts{
		log: &auditLog{
			kafka: kafka, listener: o.Listener, log: c.log, now: o.Now, topic: o.Names.Audit(), within: o.AuditWithin,
		},
		registers: o.AuditRegisters,
		refused:   newRateLimits(func(string) float64 { return o.AuditRate }, auditBurst, o.Now),
	}
	behind := newBehind(s.router.PartitionOf, o.Now)
	c.decider = &decider{router: s.router, behind: behind, within: o.AnswerWithin, log: s.log}
	c.rate = &writeRate{
		limits: newRateLimits(o.Rate, 1, o.Now), listener: o.Listener, undecided: c.waiting, behind: behind,
	}
	c.prefs = &preferenceCalls{store: o.Preferences, slots: preferencesAtOnce(o)}
	c.history = &historyWait{kafka: kafka, partitions: o.Partitions}
	c.reads, c.answers = s.reads, s.answers
	c.events = &eventLog{
		history: o.History, kafka: kafka, opts: o.Kafka, topic: o.Names.Events(), router: s.router,
		within: o.ReadWithin, fetch: o.StreamBytes, records: &topicReader{kafka: kafka, topic: o.Names.Events()},
	}
	c.encoder = &encoder{
		lookup: c.lookup, prefs: c.prefs, readers: &readers{kafka: kafka, except: o.Onlookers},
		channels: &channels{kafka: kafka, names: o.Names, known: o.KnownChannel, within: o.ReadWithin},
		admit:    o.Admit, awaits: o.Awaits, fixedChannels: o.FixedChannels, limits: o.Limits, now: o.Now,
	}
	c.writer = &commandWriter{
		encoder: c.encoder, rate: c.rate, commands: c.commands, decider: c.decider, answerWithin: o.AnswerWithin,
	}
	c.streams = &openStreams{
		slots: slots.New(o.Followers, o.Auth != nil), listener: o.Listener, onStop: c.onStop, admits: s.authenticate,
	}
	c.ackRates = newAckRates(o)
	send := &sender{commands: c.commands, decider: c.decider, undecided: c.waiting}
	c.moves = newMover(o, c.encoder, s.router, send)
	c.erasures = newEraser(o, c.encoder, s.router, send)
	s.auditor, s.acts, s.moves, s.erasures = c.auditor, c.acts, c.moves, c.erasures
	s.wireWrites(o, c)
	s.wireViews(o, c)
	s.wireLoad(o, c)
	s.live = &liveStreams{openStreams: c.streams, feeds: newLiveFeeds(o, c)}
	s.wireLetters(o, c)
	s.wireUsers(o, c)
	s.wireAdmin(o, c)
}

// wireWrites makes the parts that write commands.
func (p *parts) wireWrites(o *Options, c *common) {
	p.writes = &triggerWrites{
		auditor: c.auditor, bodies: c.bodies, encoder: c.encoder, lookup: c.lookup, writer: c.writer,
	}
	p.batches = &batches{
		admits: c.streams.admits, acts: c.acts, bodies: c.bodies, encoder: c.encoder, rate: c.rate,
		auditor: c.auditor, commands: c.commands, decider: c.decider, undecided: c.waiting, slots: c.batches,
		atOnce: o.BatchAtOnce, inFlight: newLineRoom(o.LinesInFlight, o.Auth != nil), answerWithin: o.AnswerWithin,
		log: c.log,
	}
	p.ackLinks = &ackLinks{
		writer: c.writer, rates: c.ackRates, secrets: o.AckSecrets, noRoom: o.NoRoom, now: o.Now,
	}
	p.twilio = &twilioStatus{
		bodies: c.bodies, callbacks: o.Twilio, commands: c.commands, kafka: c.kafka, names: o.Names,
		noRoom: o.NoRoom, now: o.Now, partitions: o.Partitions,
	}
}

// wireViews makes the parts that read triggers and what happened to them.
func (p *parts) wireViews(o *Options, c *common) {
	p.views = &triggerViews{
		lookup: c.lookup, events: c.events, reads: c.reads, cursors: c.cursors, router: c.router,
		listBudget: o.ListBudget, readWithin: o.ReadWithin, timetable: o.Timetable, now: o.Now,
	}
	p.reveals = &reveals{bodies: c.bodies, lookup: c.lookup}
	p.reminders = &reminders{bodies: c.bodies, cursors: c.cursors, lookup: c.lookup, views: p.views, writes: p.writes}
	p.streams = &eventStreams{
		openStreams: c.streams, lookup: c.lookup, reads: c.reads, log: c.log, events: c.events, cursors: c.cursors,
	}
	p.explanations = &explanations{
		lookup: c.lookup, events: c.events, now: o.Now, router: c.router, timetable: o.Timetable,
	}
	p.searches = &searches{
		events: c.events, kafka: c.kafka, listBudget: o.ListBudget, names: o.Names, readWithin: o.ReadWithin,
		router: c.router, batches: searchBatches(), notified: o.Notifications, explained: p.explanations,
	}
	p.notifications = &notifications{
		history: c.history, rows: o.Notifications, cursors: c.cursors, names: o.Names, readWithin: o.ReadWithin,
	}
}

// wireLoad makes the parts that show how owners keep up.
func (p *parts) wireLoad(o *Options, c *common) {
	p.lateness = &latenessViews{router: c.router, now: o.Now}
	p.forecasts = &forecasts{router: c.router, now: o.Now}
}

// wireLetters makes the parts for dead letters.
func (p *parts) wireLetters(o *Options, c *common) {
	p.letters = &deadLetters{
		history: c.history, cursors: c.cursors, rows: o.Letters, auditor: c.auditor,
		records: &topicReader{kafka: c.kafka, topic: o.Names.DeadLetter()},
		kafka:   c.kafka, names: o.Names, partitions: o.Partitions, readWithin: o.ReadWithin,
	}
	p.rejected = &rejections{
		auditor: c.auditor, cursors: c.cursors, records: &topicReader{kafka: c.kafka, topic: o.Names.Rejected()},
		partitions: o.Partitions, readWithin: o.ReadWithin,
	}
	p.audit = &auditList{
		cursors: c.cursors, records: &topicReader{kafka: c.kafka, topic: o.Names.Audit()},
		readWithin: o.ReadWithin,
	}
	p.redrives = &redrives{
		admits: c.streams.admits, auditor: c.auditor, letters: p.letters, bodies: c.bodies, encoder: c.encoder,
		rate: c.rate, reads: c.reads, commands: c.commands, decider: c.decider, slots: c.batches, onStop: c.onStop,
		horizon: o.Horizon, answerWithin: o.AnswerWithin, readWithin: o.ReadWithin, now: o.Now, log: c.log,
		ofTrigger: ofTrigger,
	}
}

// wireUsers makes the parts for users.
func (p *parts) wireUsers(o *Options, c *common) {
	p.users = &users{
		bodies: c.bodies, prefs: c.prefs, rate: c.rate, moves: c.moves, erasures: c.erasures, kafka: c.kafka,
		commands: c.commands, names: o.Names, partitions: o.Partitions, timetable: o.Timetable, now: o.Now, log: c.log,
	}
	p.optOuts = &optOutLinks{
		secrets: o.AckSecrets, store: o.Preferences, prefs: c.prefs, rates: c.ackRates, readWithin: o.ReadWithin,
		log: c.log,
	}
}

// wireAdmin makes the parts for calendars, channels, endpoints and the process itself.
func (p *parts) wireAdmin(o *Options, c *common) {
	p.calendars = &calendars{
		bodies: c.bodies, auditor: c.auditor, changes: &changeRate{every: o.CalendarInterval, now: o.Now},
		commands: c.commands, control: &topicReader{kafka: c.kafka, topic: o.Names.Control()}, kafka: c.kafka,
		router: c.router, names: o.Names, most: o.OwnCalendars, readWithin: o.ReadWithin, log: c.log,
	}
	p.previews = &previews{bodies: c.bodies, calendars: p.calendars, timetable: o.Timetable, now: o.Now}
	p.tzdata = &tzReleases{control: p.calendars.control, readWithin: o.ReadWithin, now: o.Now}
	marks := &watermarkLog{
		topic: &topicReader{kafka: c.kafka, topic: o.Names.Watermarks()}, partitions: o.Partitions,
	}
	p.channels = &channelAdmin{
		putOff: &putOffTopics{log: marks, known: &shared[map[string][]int32]{within: o.ReadWithin, now: o.Now}},
		kafka:  c.kafka, router: c.router, configured: o.Channels, names: o.Names, readWithin: o.ReadWithin,
		known: &shared[map[string]Channel]{within: o.ReadWithin, now: o.Now}, answers: c.answers,
		waiting: &waitingCounts{
			group: o.WorkerGroup, kafka: c.kafka, known: &shared[map[string]int64]{within: o.ReadWithin, now: o.Now},
		},
	}
	p.settings = &settings{o.Settings}
	p.endpoints = &endpoints{
		bodies: c.bodies, origins: &endpointLog{topic: &topicReader{kafka: c.kafka, topic: o.Names.Endpoints()}},
		probe: o.TestEndpoint, tests: slots.New(testsAtOnce, false), readWithin: o.ReadWithin, now: o.Now,
	}
	p.cluster = &cluster{
		admits: c.streams.admits, bodies: c.bodies, router: c.router, kafka: c.kafka, names: o.Names,
		partitions: o.Partitions, readWithin: o.ReadWithin, log: c.log,
	}
	p.watermarks = &watermarks{
		channels: p.channels, readWithin: o.ReadWithin, log: marks,
	}
	p.probes = &probes{auth: o.Auth, metrics: o.Metrics, ready: o.Ready, notes: func() []string {
		return append(o.Notes(), c.acts.log.notes()...)
	}}
	p.identity = &identity{
		history: o.History != nil, prefix: o.Names.Begin(), brokers: o.Brokers,
	}
	p.documents = &documents{schemas: o.Schemas, asyncAPI: o.AsyncAPI}
}
