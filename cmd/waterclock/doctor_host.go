package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waterclock/waterclock/internal/node"
)

// examineAPI checks whether the HTTP API answers and is ready.
func (d *doctor) examineAPI(ctx context.Context) {
	from := newAPI(d.c)
	from.within = checkWithin
	status, body, date, err := probe(ctx, from, "/readyz")
	alive := false
	if err == nil && status == http.StatusNotFound { // with auth enabled, /readyz is on admin.listen
		status, _, date, err = probe(ctx, from, aliveAt)
		alive = status == http.StatusOK
	}
	switch {
	case err != nil && d.c.Source("url").Kind == "default":
		d.warn("api", "start one, or name yours with --url; commands to Kafka do not need it",
			"no API answers at %s",
			from.base)
	case err != nil:
		d.fail("api", "check the url, and that an instance with role api runs there", "%v", err)
	case alive:
		d.readyInside(ctx, from)
	default:
		d.readiness(from.base, status, body)
	}
	if err == nil {
		d.clockOf(from.base, date)
		d.partitions(ctx, from)
	}
}

// readiness judges an answer of /readyz.
func (d *doctor) readiness(base string, status int, body string) {
	switch status {
	case http.StatusOK:
		d.ok("api", "%s is ready", base)
		for _, note := range strings.Split(body, "\n")[1:] { // problems that do not make the API unready
			d.warn("api", "see docs/operations/runbook.md", "%s says: %s", base, note)
		}
	case http.StatusServiceUnavailable:
		d.warn("api", "wait until it has restored its partitions; see /v1/partitions", "%s is %s", base,
			strings.ReplaceAll(body, "\n", "; "))
	default:
		d.fail("api", "check the url", "%s answers /readyz with status %d, so it is not Waterclock", base, status)
	}
}

// readyInside asks the admin listener of an API that has auth. That listener has no log-in, so it gets no key, which
// would travel in plain text.
func (d *doctor) readyInside(ctx context.Context, from *api) {
	const unknown = "%s answers. Whether it is ready is unknown, because with auth only its admin.listen says so"
	base := adminURL(d.c.Admin.Listen, from.base)
	if base == "" {
		d.warn("api", "run doctor with the instance's settings file, or name that listener: "+
			"--set admin.listen=HOST:PORT", unknown, from.base)
		return
	}
	status, body, _, err := probe(ctx, &api{base: base, within: checkWithin, client: &http.Client{}}, "/readyz")
	switch {
	case err != nil:
		d.warn("api", "run doctor where that listener can be reached", unknown+": %s does not answer", from.base, base)
	case status == http.StatusForbidden:
		d.warn("api", "call it by its address, with --set admin.listen=HOST:PORT, or add the name to http.hosts",
			unknown+": %s refuses this name", from.base, base)
	case status != http.StatusOK && status != http.StatusServiceUnavailable:
		d.warn("api", "name the right one, with --set admin.listen=HOST:PORT",
			unknown+": %s answers /readyz with status %d", from.base, base, status)
	default:
		d.readiness(base, status, body)
	}
}

// adminURL is where the admin listener of an API answers; "" if there is none in the settings. One that listens on all
// addresses is on the API's machine.
func adminURL(listen, api string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		of, err := url.Parse(api)
		if err != nil {
			return ""
		}
		host = of.Hostname()
	}
	return "http://" + net.JoinHostPort(host, port)
}

// probe sends a GET request. It returns the status and treats none as an error.
func probe(ctx context.Context, from *api, path string) (status int, body string, date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	resp, err := from.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return 0, "", date, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return resp.StatusCode, strings.TrimSpace(string(text)), date, err
}

// clockOf compares our clock with that of the API's machine, which its engine uses to fire. The
// Date header has a resolution of one second.
func (d *doctor) clockOf(base string, date time.Time) {
	if date.IsZero() {
		return
	}
	if off := time.Since(date) - time.Second/2; off.Abs() > clockWarn+time.Second/2 {
		d.warn("api", "run chrony or systemd-timesyncd on both machines",
			"the clock of %s differs from ours by about %s",
			base, off.Abs().Round(time.Second))
	}
}

// examineHost checks this machine as a host for Waterclock.
func (d *doctor) examineHost() {
	d.dataDir()
	d.openFiles()
}

func (d *doctor) dataDir() {
	dir := d.c.DataDir
	info, err := os.Stat(dir)
	if elsewhere := rank(d.c.Source("brokers")) > 0 || rank(d.c.Source("url")) > 0; elsewhere && err != nil &&
		rank(d.c.Source("data_dir")) == 0 {
		d.skip("data dir",
			"not checked: there is no data directory here. Run doctor where `waterclock serve` runs, or name it "+
				"with --data-dir")
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.missingDataDir(dir)
		return
	case err != nil:
		d.fail("data dir", "choose another with --data-dir", "%s cannot be read: %v", dir, cause(err))
		return
	case !info.IsDir():
		d.fail("data dir", "choose another with --data-dir", "%s is not a directory", dir)
		return
	}
	own, err := node.MayKeep(dir, info, os.Geteuid())
	if err != nil {
		d.fail("data dir", "", "%v", err)
		return
	}
	if mode := info.Mode().Perm(); own && mode&0o077 != 0 {
		d.warn("data dir", "chmod 700 it; Waterclock does so when it starts",
			"%s has mode %o: other users of this machine can read it", dir, mode)
	}
	if version, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil &&
		strings.TrimSpace(string(version)) != node.LayoutVersion {
		d.fail("data dir", "run that version, or choose another directory with --data-dir",
			"%s was written by another version (%q)", dir, strings.TrimSpace(string(version)))
		return
	}
	if err := tryWrite(dir); err != nil {
		d.fail("data dir", "make it writable, or choose another with --data-dir", "%s cannot be written to: %v", dir,
			cause(err))
		return
	}
	d.ok("data dir", "%s exists and is writable", dir)
	d.space(dir)
}

// missingDataDir checks the nearest existing parent directory.
func (d *doctor) missingDataDir(dir string) {
	above, err := filepath.Abs(dir)
	for err == nil {
		above = filepath.Dir(above)
		if _, err := os.Stat(above); err == nil {
			break
		}
	}
	if err := tryWrite(above); err != nil {
		d.fail("data dir", "choose another with --data-dir", "%s does not exist and cannot be created in %s: %v", dir,
			above,
			cause(err))
		return
	}
	d.ok("data dir", "%s does not exist yet; the first start creates it", dir)
	d.space(above)
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString("waterclock")
	return errors.Join(err, f.Sync(), f.Close())
}

// These limits are for the free disk space. Pebble and the embedded broker stop when the disk is
// full.
const (
	spaceFail = 256 << 20
	spaceWarn = 2 << 30
)

func (d *doctor) space(dir string) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		d.warn("disk", "check with df", "the free space at %s cannot be read: %v", dir, err)
		return
	}
	d.free(dir, s.Bavail*uint64(s.Bsize), s.Blocks*uint64(s.Bsize))
	if s.Files > 0 && s.Ffree < 10_000 {
		d.warn("disk", "delete small files", "%d inodes free at %s", s.Ffree, dir)
	}
}

// free judges the free bytes of a disk. Below disk.reserve, or a tenth of a small disk, an engine
// gives its partitions away. It warns below four times that, like the alert WaterclockDiskLow.
func (d *doctor) free(dir string, free, total uint64) {
	const advice = "free some space: 50 million pending triggers take about 8 GB, and the embedded broker keeps its " +
		"topics here too"
	reserve := min(uint64(d.c.Disk.Reserve), total/10)
	switch {
	case free < reserve:
		d.fail("disk", advice, "%s free at %s, and disk.reserve is %s: an engine there gives its partitions away",
			bytesText(free), dir, bytesText(reserve))
	case free < spaceFail:
		d.fail("disk", advice, "%s free at %s", bytesText(free), dir)
	case free < max(spaceWarn, 4*reserve):
		d.warn("disk", advice, "%s free at %s", bytesText(free), dir)
	default:
		d.ok("disk", "%s free at %s", bytesText(free), dir)
	}
}

func bytesText(n uint64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, name := float64(n)/unit, 0
	for value >= unit && name < 3 {
		value, name = value/unit, name+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[name])
}

// These limits are for open files. The store of a partition needs up to a few hundred, each
// connection needs one.
const (
	filesFail = 1024
	filesWarn = 8192
)

func (d *doctor) openFiles() {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		d.warn("open files", "check with ulimit -n", "the limit cannot be read: %v", err)
		return
	}
	const advice = "raise it to 65,536: LimitNOFILE= in the unit, ulimit -n in a shell, --ulimit nofile= for a " +
		"container"
	switch {
	case l.Cur < filesFail:
		d.fail("open files", advice, "this process may open %d files", l.Cur)
	case l.Cur < filesWarn:
		d.warn("open files", advice, "this process may open %d files", l.Cur)
	default:
		d.ok("open files", "this process may open %d files", l.Cur)
	}
}
