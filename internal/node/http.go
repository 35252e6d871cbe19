package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
)

// listen opens a listener if the settings allow it (config.Exposure). If the port is in
// use, the error says what to do.
func listen(c *config.Config, setting, address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w. Stop what listens there, or choose another address with --%s",
			address, err, config.FlagName(setting))
	}
	if err := mayListen(c, setting, ln.Addr()); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// mayListen checks the address of the opened listener. A name in the settings may have resolved
// to another address than the check of the settings assumed.
func mayListen(c *config.Config, setting string, at net.Addr) error {
	if key, problem := c.Exposure(setting, at.String()); key != "" {
		return &SettingError{key + ": " + problem}
	}
	return nil
}

// urlOf returns the URL of a listener, for a browser.
func urlOf(c *config.Config, address string) string {
	scheme := "http"
	if c.HTTP.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + advertised(address)
}

// advertised returns an address that others can dial: a wildcard becomes the host's name.
func advertised(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	name, err := os.Hostname()
	if err != nil {
		return address
	}
	return net.JoinHostPort(name, port)
}

// serveHTTP serves on ln until ctx ends.
func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	s := gateway.NewHTTPServer(h, log)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
	})
	defer stop()
	if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startAdmin serves probes and metrics on a separate address, if one is set.
func (n *node) startAdmin(life *roles) error {
	if n.cfg.Admin.Listen == "" {
		return nil
	}
	ln, err := listen(n.cfg, "admin.listen", n.cfg.Admin.Listen)
	if err != nil {
		return err
	}
	life.start("admin", func(ctx context.Context) error { return serveHTTP(ctx, ln, n.adminHandler(), n.log) })
	return nil
}

// doorHandler serves probes and metrics on loopback, for a process without the role api.
func (n *node) doorHandler(at net.Addr) http.Handler {
	if key, _ := (&config.Config{}).Exposure("listen", at.String()); key == "" && !n.cfg.Auth.On() {
		return n.adminHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this process does not have role api; probes and metrics are on admin.listen",
			http.StatusNotFound)
	})
}

// adminHandler serves the routes that every process has, whatever its roles.
func (n *node) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.readiness(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		notes := n.notes()
		if n.gateway != nil {
			notes = append(notes, n.gateway.Notes()...)
		}
		fmt.Fprintln(w, strings.Join(append([]string{"ready"}, notes...), "\n"))
	})
	mux.Handle("GET /metrics", n.metricsHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !gateway.OwnHost(r.Host, n.ownHost) {
			http.Error(w, "this request was for another host: if it is a name of this server, list it in http.hosts",
				http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (n *node) metricsHandler() http.Handler {
	return promhttp.HandlerFor(n.metrics.Registry, promhttp.HandlerOpts{})
}

// readiness is the answer of /readyz: nil if every partition of this process is restored
// and fires.
func (n *node) readiness() error {
	if n.engine == nil {
		return nil
	}
	return errors.Join(n.brokerFull(), n.engine.Unready())
}

// openInternal opens the listener for other instances that ask about our partitions. It runs
// before the engine, which publishes the address.
func (n *node) openInternal() (err error) {
	if n.internal, err = listen(n.cfg, "internal.listen", n.cfg.Internal.Listen); err != nil {
		return err
	}
	n.internalAddress = n.cfg.Internal.Advertise
	if n.internalAddress == "" {
		n.internalAddress = advertised(n.internal.Addr().String())
	}
	return nil
}

// startInternal answers other instances about our partitions.
func (n *node) startInternal(life *roles) {
	if h := n.gateway.InternalHandler(); h != nil {
		ln := n.internalListener()
		life.start("internal", func(ctx context.Context) error { return serveHTTP(ctx, ln, h, n.log) })
	}
}
