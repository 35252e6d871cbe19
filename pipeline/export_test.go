package pipeline

// Flaws are the broken engines that the suite must catch, by name.
var Flaws = map[string]func(*Options){
	"apply before commit": func(o *Options) { o.flaw = applyBeforeCommit },
	"no fence":            func(o *Options) { o.flaw = noFence },
	"skip restore":        func(o *Options) { o.flaw = skipRestore },
	"read uncommitted":    func(o *Options) { o.flaw = readUncommittedLogs },
}
