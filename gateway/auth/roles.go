package auth

import (
	"math/bits"
	"slices"
	"strings"
)

// Rights is a set of what a caller may do. A route needs one right.
type Rights uint8

// The rights. None of them follows from another.
const (
	Read         Rights = 1 << iota // read triggers and what became of them, without payloads; preview
	ReadPayloads                    // read payloads, and what notifications said
	Act                             // change when one trigger fires: cancel, snooze, redrive and so on
	Write                           // register, change and erase; preferences, calendars of the tenant
	Operate                         // partitions, endpoints, other tenants' dead letters, calendars of all
)

var rightNames = [...]string{"read", "payloads", "act", "write", "operate"}

// Names lists the rights of the set, the least first.
func (r Rights) Names() []string { return namesOf(uint8(r), rightNames[:]) }

// Least names the role that has the rights and the fewest others.
func (r Rights) Least() string {
	least := ""
	fewest := 8
	for i, of := range roleRights {
		if n := bits.OnesCount8(uint8(of)); of&r == r && n < fewest {
			least, fewest = roleNames[i], n
		}
	}
	return least
}

// Role is a set of roles. A caller has the rights of each of them.
type Role uint8

// The roles.
const (
	Viewer   Role = 1 << iota // reads without payloads
	Support                   // viewer, and acts on one trigger
	Reader                    // reads with payloads
	Writer                    // reader, and acts and writes
	Operator                  // writer, and operates
)

var roleNames = [...]string{"viewer", "support", "reader", "writer", "operator"}

// roleRights are the rights of each role, in the order of roleNames.
var roleRights = [...]Rights{
	Read,
	Read | Act,
	Read | ReadPayloads,
	Read | ReadPayloads | Act | Write,
	Read | ReadPayloads | Act | Write | Operate,
}

// RoleNames lists all roles.
func RoleNames() []string { return slices.Clone(roleNames[:]) }

// ParseRole finds a role by its name.
func ParseRole(s string) (Role, bool) {
	i := slices.Index(roleNames[:], s)
	return 1 << max(i, 0), i >= 0
}

// Names lists the roles of the set.
func (r Role) Names() []string { return namesOf(uint8(r), roleNames[:]) }

func (r Role) String() string {
	if r == 0 {
		return "none"
	}
	return strings.Join(r.Names(), ", ")
}

// Rights are the rights of all roles of the set.
func (r Role) Rights() (all Rights) {
	for i, of := range roleRights {
		if r&(1<<i) != 0 {
			all |= of
		}
	}
	return all
}

// namesOf lists the names of the bits that are set.
func namesOf(set uint8, names []string) []string {
	list := make([]string, 0, bits.OnesCount8(set))
	for i, name := range names {
		if set&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}
