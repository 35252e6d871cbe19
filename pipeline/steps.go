package pipeline

// Step is what a partition does at a moment. Listeners hear the steps of a turn; a
// partition's status shows all steps.
type Step string

// The steps of a turn, in order.
const (
	StepPoll      Step = "poll"
	StepBegin     Step = "begin"
	StepApply     Step = "apply"
	StepAdvance   Step = "advance"
	StepEmit      Step = "emit"
	StepFlush     Step = "flush"
	StepEnd       Step = "end"
	StepCommitted Step = "committed"
	StepStored    Step = "stored"
)

// StepRestore is heard for every batch that a restore has stored.
const StepRestore Step = "restore"

// No Listener hears these steps: they belong to opening a partition, or ask Kafka within a
// turn.
const (
	StepTaken         Step = "end the standby"
	StepWaitToOpen    Step = "wait for others to open"
	stepConnect       Step = "connect"
	stepOpenStore     Step = "open the store"
	stepTakeOwnership Step = "take ownership"
	stepResume        Step = "resume"
	StepWaitToReopen  Step = "wait before it is opened again"
	stepDueTopic      Step = "find a due topic"
	stepCompareClock  Step = "compare clocks"
	stepAlone         Step = "check for a second writer"
	stepAskGroup      Step = "read the owning group"
	StepRefused       Step = "refused"
)

// waitsForKafka lists every step, and whether it may wait for a broker, which may be away
// for hours. The other steps wait only for this machine: its processor, memory and disk. A
// partition that stays at one of those hangs (engine/watchdog.go).
var waitsForKafka = map[Step]bool{
	StepPoll:      true,
	StepBegin:     false,
	StepApply:     false,
	StepAdvance:   false,
	StepEmit:      false,
	StepFlush:     true,
	StepEnd:       true,
	StepCommitted: false,
	StepStored:    false,
	StepRestore:   true,

	StepTaken:         true,
	StepWaitToOpen:    true,
	stepConnect:       true,
	stepOpenStore:     false,
	stepTakeOwnership: true,
	stepResume:        true,
	StepWaitToReopen:  true,
	stepDueTopic:      true,
	stepCompareClock:  true,
	stepAlone:         true,
	stepAskGroup:      true,
	StepRefused:       true,
}

// Local reports whether a step waits for this machine alone.
func (s Step) Local() bool {
	waits, known := waitsForKafka[s]
	return known && !waits
}

// step notes what the turn does now, for the watchdog and for listeners.
func (p *Partition) step(s Step) {
	p.kept.Step(s)
	p.opts.Listener.Step(p.id, s)
}
