// Package broker is the Kafka broker inside `waterclock dev`: kfake with a
// data directory, and around it what kfake leaves out so that a kill -9 or a
// power cut loses nothing that was acknowledged. kfake is used as it is; we
// stand in its connections and its control hooks.
//
// # A request's way
//
//	client ─▶ conn.Read ──────────▶ kfake's reader ─▶ kfake's loop ─┐
//	           checks records;                         hooks: stamp  │
//	           EndTxn waits here                       append time,  │
//	           for outcome and data                    follow txns   │
//	           on disk                                               ▼
//	client ◀─ conn.Write ◀─────────────────────────── kfake's writer
//	           completes the answer;
//	           it leaves when what it vouches for is on disk
//
// # Who is right
//
// After a crash: segments, then the outcome log (txn.go), then kfake's own
// logs. repair.go turns them into what kfake would have left had it been
// closed with every transaction ended, and kfake's own recovery never runs.
package broker
