package check

// receipt is a record of topic receipts.
type receipt struct {
	at          location
	first       location // location of its first append, if it says that it was forwarded
	claims      bool     // it says that it was forwarded
	append      int64
	firstAppend int64 // time of its first append, if it was forwarded
	dueID       string
	outcome     string
	attempt     int
	postponed   int // postponed count of the emission that it names, if it echoes it
	echoes      bool
	retryAfter  int64 // ms
	code        string
	garbled     bool
	answered    bool // an event reports it
}

func decodeReceipt(r *Record, partition int32) receipt {
	out := receipt{at: location{partition, r.Offset}, append: r.Timestamp}
	out.first, out.firstAppend, out.claims = forwardedFrom(r)
	err := members(r.Value, func(name, raw []byte) error {
		switch string(name) {
		case "due_id":
			out.dueID = string(unquoted(raw))
		case "outcome":
			out.outcome = string(unquoted(raw))
		case "attempt":
			out.attempt, _ = small(raw)
		case "postponed":
			out.postponed, out.echoes = small(raw)
		case "retry_after":
			wait, _ := duration(string(unquoted(raw)))
			out.retryAfter = wait.Milliseconds()
		case "code":
			out.code = string(unquoted(raw))
		}
		return nil
	})
	out.garbled = err != nil || out.dueID == ""
	return out
}

// since returns the time from which its waiting counts: that of its first append.
func (r *receipt) since() int64 {
	if r.claims {
		return r.firstAppend
	}
	return r.append
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
