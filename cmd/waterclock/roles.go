package main

import (
	"context"
	"net/http"

	"github.com/waterclock/waterclock/pipeline"
)

// openEngine makes the engine; its Run is a role.
func (n *node) openEngine() error {
	e, err := pipeline.New(n.engineOptions())
	if err != nil {
		return err
	}
	n.engine = e
	n.metrics.Watch(e.Partitions)
	return nil
}

func (n *node) address() string { return n.internalAddress }

func (n *node) newAPI(address string) (http.Handler, error) { return n.adminHandler(), nil }

func (n *node) startInternal(life *lifeOf) error { return nil }

func (n *node) openHistory(ctx context.Context) error { return nil }
func (n *node) closeHistory()                         {}

func (a *app) runDemo(ctx context.Context, n *node) error { return nil }
