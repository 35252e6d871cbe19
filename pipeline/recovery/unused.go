package recovery

import (
	"path/filepath"
	"strconv"
	"strings"
)

// These end the names of stores that are put aside: by statestore, or by PutAside.
const (
	quarantineSuffix = "quarantine"
	unusedSuffix     = "unused"
)

// Directory is the directory of one store.
type Directory struct {
	Name      string // below Config.Dir
	Partition int32
	Aside     bool // it is put aside: no partition opens it
}

// Directories lists the stores that are here, also those that are put aside.
func (c *Config) Directories() (all []Directory) {
	names, _ := c.fs().List(c.Dir) // an error means that there are none yet
	for _, name := range names {
		number, suffix, aside := strings.Cut(name, ".")
		id, err := strconv.ParseInt(number, 10, 32)
		if err != nil || id < 0 || id >= int64(c.Partitions) ||
			aside && suffix != quarantineSuffix && suffix != unusedSuffix {
			continue
		}
		all = append(all, Directory{Name: name, Partition: int32(id), Aside: aside})
	}
	return all
}

// PutAside renames the directory of a closed store, so that it can be removed while its
// partition opens a new one.
func (c *Config) PutAside(d Directory) (Directory, error) {
	aside := Directory{Name: d.Name + "." + unusedSuffix, Partition: d.Partition, Aside: true}
	return aside, c.fs().Rename(filepath.Join(c.Dir, d.Name), filepath.Join(c.Dir, aside.Name))
}

// Remove removes a directory that is put aside.
func (c *Config) Remove(aside Directory) error {
	return c.fs().RemoveAll(filepath.Join(c.Dir, aside.Name))
}
