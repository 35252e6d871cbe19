package chaos

import "testing"

// TestDeck: four passes are every fault in every phase, once.
func TestDeck(t *testing.T) {
	d := &deck{faults: faults, phases: phases}
	met := map[*fault]map[*phase]bool{}
	for range len(faults) * len(phases) {
		f, p := d.next()
		if met[f] == nil {
			met[f] = map[*phase]bool{}
		}
		if met[f][p] {
			t.Errorf("%s meets %s twice", f.name, p.name)
		}
		met[f][p] = true
	}
	if len(met) != len(faults) {
		t.Errorf("%d of %d faults were drawn", len(met), len(faults))
	}
}

// TestFaultsHaveNames: the summary and ONLY go by them. What is healed later
// says how much later.
func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults {
		if f.name == "" || seen[f.name] || f.strike == nil || f.most < f.least {
			t.Errorf("%q is not whole, or there twice", f.name)
		}
		seen[f.name] = true
	}
	t.Logf("%d faults in %d phases", len(faults), len(phases))
}
