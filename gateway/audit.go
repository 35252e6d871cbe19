package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// auditor records refused attempts. All go to the log, and to topic audit (act.go); attempts
// at a trigger of another tenant also go to topic events. Its rate is bounded, so that no caller can fill either.
type auditor struct {
	log      *slog.Logger
	listener Listener
	commands *commandLog
	now      func() time.Time

	// Those without a credential have a bound of their own: they cost nothing, and
	// must not hide what a tenant tries. Nor may a tenant hide another's attempts,
	// or an attempt at others' triggers behind refusals of other kinds.
	strangers *rate.Limiter
	callers   *rateLimits // by tenant, and by whether it is a trespass

	dropped atomic.Int64 // attempts dropped since the last recorded one
	tenants tenantNames
}

// auditBurst is how many seconds' worth of attempts are recorded at once.
const auditBurst = 10

func newAuditor(o *Options, commands *commandLog) *auditor {
	a := &auditor{
		log: o.Logger, listener: o.Listener, commands: commands, now: o.Now,
		strangers: rate.NewLimiter(rate.Limit(o.AuditRate), max(1, int(auditBurst*o.AuditRate))),
		callers:   newRateLimits(func(string) float64 { return o.AuditRate }, auditBurst, o.Now),
	}
	for _, name := range o.Tenants {
		a.tenants.add(name)
	}
	if known, ok := o.Auth.(interface{ Tenants() []string }); ok {
		for _, name := range known.Tenants() {
			a.tenants.add(name)
		}
	}
	return a
}

// audit records an attempt at something that is not the caller's. It returns false if the
// attempt was one of too many.
func (a *auditor) audit(r *http.Request, who auth.Caller, what string, args ...any) bool {
	limiter := a.strangers
	if who.Tenant != "" {
		limiter = a.callers.limiter(boundOf(who.Tenant, what))
	}
	if !limiter.AllowN(a.now(), 1) {
		a.dropped.Add(1)
		a.listener.Audited(false)
		return false
	}
	a.listener.Audited(true)
	args = append([]any{
		"event", what, "tenant", who.Tenant, "actor", who.Name, "remote", r.RemoteAddr, "method", r.Method, "path",
		r.URL.Path,
	}, args...)
	if n := a.dropped.Swap(0); n > 0 {
		args = append(args, "dropped_before", n)
	}
	a.log.Warn("audit", args...)
	return true
}

// forbid records that a caller lacks a right, and returns the refusal. what is its
// beginning, before the role.
func (a *auditor) forbid(r *request, right auth.Rights, what string) *problem.Problem {
	a.audit(r.Request, r.who, "role too low")
	return problem.New(http.StatusForbidden, problem.CodeForbidden, "",
		what+" the role "+right.Least()+"; yours is "+r.who.Role.String())
}

// boundOf names the bound under which a tenant's attempt goes on record. No tenant's
// name has a '/'.
func boundOf(tenant, what string) string {
	if what == anothersTrigger || what == anothersRecords {
		return tenant + "/"
	}
	return tenant
}

// The audit's names for what a tenant must not do.
const (
	anothersTrigger = "another tenant's trigger"
	anothersRecords = "another tenant's records"
)

// trespass checks why a request was refused. It records an attempt at the trigger of
// another tenant in the log, and as an event of the caller's own tenant. Only the engine
// writes to topic events, so trespass writes a refusal to commands, which the engine
// records. Its key belongs to the caller's tenant, because the other tenant's trigger must
// not change. It returns the trigger's id, and whether there was such an attempt: topic audit has a bound of its own.
func (a *auditor) trespass(r *request, err error) (id string, was bool) {
	p := &problem.Problem{}
	ok := errors.As(err, &p)
	if !ok || p.Status != http.StatusNotFound || !a.trespassing(r.who, p.TriggerID) {
		return "", false
	}
	if !a.audit(r.Request, r.who, anothersTrigger) {
		return p.TriggerID, true
	}
	refusal := topics.Refusal{
		Code: trigger.CodeNotFound, Actor: recordable(r.who.Name), Detail: anothersTrigger + ": " + r.Method + " " +
			r.route,
	}
	rec := refusal.Record(trespassKey(r.who.Tenant, p.TriggerID))
	a.commands.sendRefusal(r.Context(), &rec, func(err error) {
		if err != nil {
			a.log.Warn("an audit event was not written", "error", err)
		}
	})
	return p.TriggerID, true
}

// trespassKey is the id as the caller's tenant would have it, with a '/' appended. So it is
// no trigger's key, and no caller can ask for its events, which would show which names are
// tenants.
func trespassKey(tenant, id string) string {
	key := strings.TrimRight(recordable(tenant+"/"+id), "/")
	return strings.ToValidUTF8(key[:min(len(key), maxActor-1)], "") + "/"
}

// trespassing reports whether an id means the trigger of another tenant: its first part is
// the name of one. In the default tenant no id has a '/'.
func (a *auditor) trespassing(who auth.Caller, id string) bool {
	name, _, found := strings.Cut(id, "/")
	return found && name != who.Tenant && (who.Tenant == trigger.DefaultTenant || a.tenants.has(name))
}

// maxTenantNames bounds the tenants that are kept to recognise attempts.
const maxTenantNames = 10_000

// tenantNames are the tenants this process knows: those of the settings, of the API keys,
// and of past callers.
type tenantNames struct {
	names sync.Map
	n     atomic.Int64
}

func (t *tenantNames) has(name string) bool {
	_, ok := t.names.Load(name)
	return ok || name == trigger.DefaultTenant
}

func (t *tenantNames) add(name string) {
	if t.has(name) || t.n.Load() >= maxTenantNames {
		return
	}
	if _, had := t.names.LoadOrStore(name, true); !had {
		t.n.Add(1)
	}
}
