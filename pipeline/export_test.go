package pipeline

// Flaws are the broken engines that the suite must catch, by name.
var Flaws = map[string]func(*Options){}

func init() {
	for name, f := range flaws {
		Flaws[name] = func(o *Options) { o.flaw = f }
	}
}

// RestoreInChunks makes batches of a restore so small that a test has many.
func RestoreInChunks(o *Options, keys int) { o.restoreChunk = keys }
