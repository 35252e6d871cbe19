package main

import "github.com/waterclock/waterclock/internal/config"

// asksAPI says that the user named the API more explicitly than the brokers:
// by a stronger source.
func asksAPI(c *config.Config) bool { return rank(c.Source("url")) > rank(c.Source("brokers")) }

// needBrokers refuses what only the brokers know, instead of asking some that
// nobody named.
func needBrokers(c *config.Config) error {
	if !asksAPI(c) {
		return nil
	}
	return usagef("the API at --url cannot answer this, only Kafka can: name the brokers with --brokers")
}

// needAPI refuses what only the API knows, where the user named brokers alone.
func needAPI(c *config.Config) error {
	if rank(c.Source("brokers")) <= rank(c.Source("url")) {
		return nil
	}
	return usagef("the brokers cannot answer this, only the API can: name it with --url")
}
