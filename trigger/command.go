package trigger

import "time"

// Op is the kind of change that a command asks for.
type Op uint8

// Every op there is (docs/formats/commands.md).
const (
	OpRegister Op = iota + 1
	OpCancel
	OpReschedule
	OpSnooze
	OpSkip
	OpPause
	OpResume
	OpRunNow
	OpRezone
	OpAck
	OpRedrive
	OpErase
)

var opNames = [...]string{
	OpRegister: "register", OpCancel: "cancel", OpReschedule: "reschedule", OpSnooze: "snooze",
	OpSkip: "skip", OpPause: "pause", OpResume: "resume", OpRunNow: "run_now", OpRezone: "rezone",
	OpAck: "ack", OpRedrive: "redrive", OpErase: "erase",
}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// ParseOp finds an op by its contract name.
func ParseOp(s string) (Op, bool) {
	for o, n := range opNames {
		if n != "" && n == s {
			return Op(o), true
		}
	}
	return 0, false
}

// OpNames lists the ops by name, for suggestions and shell completion.
func OpNames() []string { return opNames[OpRegister:] }

// Command asks for one change of one trigger. Package topics has decoded and checked it.
type Command struct {
	Op   Op
	Key  Key
	From Origin

	Spec *Spec // register: all of it; reschedule: only When
	Dead *Fire // redrive: the due event that could not be delivered
	Hash Hash  // content of a register (docs/SEMANTICS.md)

	Patch bool // register: made from the present trigger (PATCH); what it does not change goes on

	IdempotencyKey string
	IfRevision     int64 // 0: no condition
	IfAbsent       bool

	For        time.Duration // snooze
	Until      Instant       // snooze
	UntilLocal string        // snooze until a wall time; resolved in the trigger's zone
	Occurrence string        // skip, ack
	Note       string        // why; the detail of the fact about the command
	Zone       string        // rezone; beside an instant or a delay it has no effect
	Actor      string        // who asked, if the gateway said so
}

// Hash is the hash of a register's content, after decoding (topics.contentHash).
type Hash [16]byte

// Origin says where and when a command was first appended. For a forwarded command that is
// the original, not the copy.
type Origin struct {
	Partition int32
	Offset    int64
	Append    Instant
	Forwarded bool
}
