//go:build failpoints

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline"
)

// Failpoints let a test stop this process at a named step of the turn. Only a binary built with
// -tags failpoints has them. The environment controls them:
//
//   - FAILPOINTS_DIR names a directory. A file "arm" in it says "<step> <kill|freeze> <open|any>".
//     The next partition at that step writes its number into "hit". Then the process gets SIGKILL,
//     or SIGSTOP until a SIGCONT. With open, the partition's transaction must be under way at the
//     broker.
//   - FAILPOINTS_FLAW names a way to break the engine.
//   - FAILPOINTS_DIAL is an address that the engine dials instead of every broker, or
//     broker=address for some of them. A proxy there may delay or drop data.
type failpoints struct {
	pipeline.Listener
	dir   string
	adm   *kadm.Client
	group string
	armed atomic.Pointer[strike]
}

type strike struct {
	step   pipeline.Step
	signal syscall.Signal
	open   bool
}

func armFailpoints(o *pipeline.Options) error {
	if name := os.Getenv("FAILPOINTS_FLAW"); name != "" {
		if err := o.Spoil(name); err != nil {
			return err
		}
	}
	if proxy := os.Getenv("FAILPOINTS_DIAL"); proxy != "" {
		o.Kafka = append(slices.Clone(o.Kafka),
			kgo.Dialer(func(ctx context.Context, network, broker string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, behind(proxy, broker))
			}))
	}
	dir := os.Getenv("FAILPOINTS_DIR")
	if dir == "" {
		return nil
	}
	cl, err := kgo.NewClient(o.Kafka...)
	if err != nil {
		return err
	}
	f := &failpoints{Listener: o.Listener, dir: dir, adm: kadm.NewClient(cl), group: o.Group}
	o.Listener = f
	go f.watch()
	return nil
}

// behind returns the address to dial for a broker, according to FAILPOINTS_DIAL.
func behind(proxies, broker string) string {
	if !strings.Contains(proxies, "=") {
		return proxies
	}
	for one := range strings.SplitSeq(proxies, ",") {
		if of, address, _ := strings.Cut(one, "="); of == broker {
			return address
		}
	}
	return broker
}

// watch arms the failpoint that the file names. It runs as long as the process.
func (f *failpoints) watch() {
	file := filepath.Join(f.dir, "arm")
	for ; ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(file)
		if err != nil || os.Remove(file) != nil {
			continue
		}
		if words := strings.Fields(string(b)); len(words) == 3 {
			s := &strike{step: pipeline.Step(words[0]), signal: syscall.SIGKILL, open: words[2] == "open"}
			if words[1] == "freeze" {
				s.signal = syscall.SIGSTOP
			}
			f.armed.Store(s)
		}
	}
}

// Step acts once, at the armed step.
func (f *failpoints) Step(partition int32, step pipeline.Step) {
	f.Listener.Step(partition, step)
	s := f.armed.Load()
	if s == nil || s.step != step || s.open && !f.ongoing(partition) || !f.armed.CompareAndSwap(s, nil) {
		return
	}
	time.Sleep(30 * time.Millisecond) // let pending records and store writes leave the process
	if err := os.WriteFile(filepath.Join(f.dir, "hit"), fmt.Append(nil, partition), 0o600); err != nil {
		panic(err)
	}
	_ = syscall.Kill(os.Getpid(), s.signal)
	time.Sleep(50 * time.Millisecond) // a signal may take time: do not go on to the next step
}

// ongoing asks the broker for the transaction, several times, because records may still be
// on their way.
func (f *failpoints) ongoing(partition int32) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	id := fmt.Sprintf("%s-%d", f.group, partition)
	for range 5 {
		d, err := f.adm.DescribeTransactions(ctx, id)
		if err == nil && d[id].State == "Ongoing" {
			return true
		}
		time.Sleep(3 * time.Millisecond)
	}
	return false
}
