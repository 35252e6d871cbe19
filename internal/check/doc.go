// Package check holds a history of Waterclock against its contract: it replays
// what producers wrote, and lists where what the engine wrote differs. It is
// what every chaos, kill and simulator run ends with.
//
// # Who is right
//
// The commands are. All commands of a trigger stand in one partition, so their
// offsets are the order in which they must be applied, and no search is needed:
// a reference model (model*.go) applies them one by one. The engine's account (its
// events, due events, rejected records, dead letters, topic state) must agree
// with the model. Where the contract leaves an outcome open, a race between a
// cancel and a firing say, the account chooses; then all of it must tell the
// same.
//
// # Independence
//
// The model is written from the contract and from docs/formats, and imports
// nothing of trigger, calendar, pipeline, topics or statestore; TestIndependent
// asks go list. A bug would have to be made twice, in two ways of writing it, to
// pass. The oracle of recurrence (oracle*.go) is a plain search: day by day over
// wall time for rules of FREQ DAILY and above and for cron, step by step for
// elapsed time. It is held to the 395 cases of other projects and to python-dateutil.
//
// # Two passes
//
//	scan     every file in the order of its offsets: which transaction committed,
//	         manifests of turns, terms, event_us; 16 bytes of index per record
//	replay   trigger by trigger: its records of all topics, through the model
//
// The index is all that grows with a history. Beyond Options.Memory the history
// is replayed in shares by hash of the key, and read once more for each.
//
// # What it does not see
//
// Clients (unless their acknowledgements are given, Options.Acks), the engine's
// own disk, history tables, and whatever has expired or was compacted before it
// was recorded: such triggers are counted, never guessed at.
package check
