package cassandra

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Replication is the number of copies in a keyspace: Factor in every data centre, or a number for
// each named data centre.
type Replication struct {
	Factor int
	DCs    map[string]int
}

// ParseReplication parses the setting cassandra.replication: "3", or "dc1:3,dc2:2" ('=' is
// accepted for ':').
func ParseReplication(s string) (r Replication, err error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil {
		r.Factor = n
		return r, r.Validate()
	}
	r.DCs = map[string]int{}
	for part := range strings.SplitSeq(strings.Trim(s, "{}"), ",") {
		name, number, ok := strings.Cut(strings.ReplaceAll(part, "=", ":"), ":")
		name = strings.Trim(strings.TrimSpace(name), `"'`)
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if !ok || err != nil {
			return Replication{}, fmt.Errorf("%q: want a number, or data centres as dc1:3,dc2:2", s)
		}
		if _, twice := r.DCs[name]; twice {
			return Replication{}, fmt.Errorf("data centre %q twice", name)
		}
		r.DCs[name] = n
	}
	return r, r.Validate()
}

func (r Replication) isZero() bool { return r.Factor == 0 && len(r.DCs) == 0 }

var dcName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Validate requires one of the two, 1 to 9 copies, and plain names, because they become part of a
// statement.
func (r Replication) Validate() error {
	if len(r.DCs) == 0 {
		return checkCopies("factor", r.Factor)
	}
	var errs []error
	if r.Factor != 0 {
		errs = append(errs, errors.New("both a factor and data centres"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.DCs)) {
		if !dcName.MatchString(name) || name == "class" || name == "replication_factor" {
			errs = append(errs, fmt.Errorf("%q is not the name of a data centre", name))
		}
		errs = append(errs, checkCopies(name, r.DCs[name]))
	}
	return errors.Join(errs...)
}

func checkCopies(name string, n int) error {
	if n < 1 || n > 9 {
		return fmt.Errorf("%s: %d copies are not within 1 and 9", name, n)
	}
	return nil
}

// cql returns the replication clause of CREATE KEYSPACE. With a factor, Cassandra (4.0 and later)
// expands the data centres itself.
func (r Replication) cql() string {
	dcs := r.DCs
	if len(dcs) == 0 {
		dcs = map[string]int{"replication_factor": r.Factor}
	}
	var b strings.Builder
	b.WriteString("{'class': 'NetworkTopologyStrategy'")
	for _, name := range slices.Sorted(maps.Keys(dcs)) {
		fmt.Fprintf(&b, ", '%s': %d", name, dcs[name])
	}
	return b.String() + "}"
}
