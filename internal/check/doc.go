// Package check verifies a history of Waterclock against its contract. It replays what producers
// wrote, and lists where the engine's output differs. Every chaos, kill and simulator run ends
// with it.
//
// # Source of truth
//
// The source of truth is the commands. All commands of a trigger are in one partition, so their
// offsets are the order in which they must be applied, and no search is needed. A reference model
// (model*.go) applies them one by one. The engine's output (events, due events, rejected records,
// dead letters, topic state) must agree with the model. Sometimes the contract permits several
// outcomes, for example in a race between a cancel and a firing. Then the output chooses one, and
// all parts of it must agree.
//
// # Independence
//
// The model is written from the contract and from docs/formats. It imports nothing of trigger,
// calendar, pipeline, topics or statestore; TestIndependent checks this with go list. So a bug
// stays hidden only if it is made twice, in two different implementations. The oracle of
// recurrence (oracle*.go) is a plain search: day by day over local time for rules of FREQ DAILY
// and above and for cron, step by step for elapsed time. Tests compare it with 395 cases of other
// projects and with python-dateutil.
//
// # Two passes
//
//	scan     every file in the order of its offsets: which transaction committed,
//	         manifests of turns, terms, event_us; 16 bytes of index per record
//	replay   trigger by trigger: its records of all topics, through the model
//
// Only the index grows with a history. If it exceeds Options.Memory, the history is replayed in
// parts, by hash of the key, and is read once more for each part.
//
// # What it does not see
//
// Clients (unless Options.Acks has their acknowledgements), the engine's own disk, history
// tables, and whatever expired or was compacted before it was recorded. It counts such triggers,
// and never guesses.
package check
