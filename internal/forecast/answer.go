package forecast

// Query asks for N buckets of a frame from FirstMS on, which begins one.
type Query struct {
	Frame   int // place in Frames
	FirstMS int64
	N       int
	Tenant  string // "": of all
	By      string // channel, priority, tenant, or "" for none
}

// Groups are what Query.By may be.
var Groups = []string{"channel", "priority", "tenant"}

// Answer is what is expected in the buckets of a Query.
type Answer struct {
	AtMS       int64              `json:"at"` // when the oldest picture was made; 0: of none
	Counts     []Count            `json:"counts"`
	By         map[string][]int64 `json:"by,omitempty"` // due in each bucket
	Incomplete bool               `json:"incomplete,omitempty"`
}

func newAnswer(n int) Answer { return Answer{Counts: make([]Count, n), By: map[string][]int64{}} }

// Answer reads the picture.
func (p *Picture) Answer(q Query) Answer {
	out := newAnswer(q.N)
	out.AtMS = p.atMS
	shift := int32((p.firstMS - q.FirstMS) / p.width) //nolint:gosec // within a frame
	if q.Tenant == "" {
		for i, c := range p.all {
			if at := int(shift) + i; at >= 0 && at < q.N {
				out.Counts[at].add(c)
			}
		}
	}
	out.Incomplete = p.full && (q.Tenant != "" || q.By != "")
	for k, of := range p.by {
		if q.Tenant != "" && k.Tenant != q.Tenant {
			continue
		}
		group := k.group(q.By)
		for _, c := range of.cells {
			at := int(shift + c.bucket)
			if at < 0 || at >= q.N {
				continue
			}
			if q.Tenant != "" {
				out.Counts[at].add(c.Count)
			}
			if q.By != "" {
				out.due(group)[at] += c.Due
			}
		}
	}
	return out
}

func (k Key) group(by string) string {
	switch by {
	case "channel":
		return k.Channel
	case "priority":
		return k.Priority
	case "tenant":
		return k.Tenant
	}
	return ""
}

func (a *Answer) due(group string) []int64 {
	due := a.By[group]
	if due == nil {
		due = make([]int64, len(a.Counts))
		a.By[group] = due
	}
	return due
}

// Join adds up the answers of several partitions to one query. Those that are empty do not
// count.
func Join(n int, all []Answer) Answer {
	sum := newAnswer(n)
	for i := range all {
		a := &all[i]
		if a.AtMS != 0 && (sum.AtMS == 0 || a.AtMS < sum.AtMS) {
			sum.AtMS = a.AtMS
		}
		sum.Incomplete = sum.Incomplete || a.Incomplete
		for j, c := range a.Counts[:min(n, len(a.Counts))] {
			sum.Counts[j].add(c)
		}
		for group, due := range a.By {
			into := sum.due(group)
			for j, d := range due[:min(n, len(due))] {
				into[j] += d
			}
		}
	}
	return sum
}
