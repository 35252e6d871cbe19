package check

// receipt is a record of topic receipts.
type receipt struct {
	at       location
	first    location // where it was appended first, if it says that it was forwarded
	claims   bool     // it says so
	append   int64
	dueID    string
	outcome  string
	attempt  int
	garbled  bool
	answered bool // an event tells of it
}

func decodeReceipt(r *Record, partition int32) receipt {
	out := receipt{at: location{partition, r.Offset}, append: r.Timestamp}
	out.first, _, out.claims = forwardedFrom(r)
	err := members(r.Value, func(name, raw []byte) error {
		switch string(name) {
		case "due_id":
			out.dueID = string(unquoted(raw))
		case "outcome":
			out.outcome = string(unquoted(raw))
		case "attempt":
			out.attempt, _ = small(raw)
		}
		return nil
	})
	out.garbled = err != nil || out.dueID == ""
	return out
}

// refusal is a record of topic rejected.
type refusal struct {
	at     location
	append int64
	code   string
	source string
	value  []byte
	cut    bool
	used   bool
}

func decodeRefusal(r *Record, partition int32) refusal {
	out := refusal{at: location{partition, r.Offset}, append: r.Timestamp, value: r.Value}
	out.code, _ = r.header("wc-error-code")
	out.source, _ = r.header("wc-source")
	_, out.cut = r.header("wc-error-truncated")
	return out
}
