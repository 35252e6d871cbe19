//go:build failpoints || flaws

package pipeline

// Flaws are the broken engines that the suite must catch, by name.
var Flaws = map[string]func(*Options){}

func init() {
	for name, f := range flaws {
		Flaws[name] = func(o *Options) { o.hooks.flaw = f }
	}
}
