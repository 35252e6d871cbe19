package main

import "github.com/waterclock/waterclock/internal/config"

// asksAPI reports whether the user named the API with a stronger source than the brokers.
func asksAPI(c *config.Config) bool { return rank(c.Source("url")) > rank(c.Source("brokers")) }

// needBrokers returns an error if the user asked the API for something that only the brokers
// know. Otherwise the verb would ask brokers that nobody named.
func needBrokers(c *config.Config) error {
	if !asksAPI(c) {
		return nil
	}
	return usagef("the API at --url cannot answer this, only Kafka can: name the brokers with --brokers")
}

// needAPI returns an error if the user named only the brokers for something that only the API
// knows.
func needAPI(c *config.Config) error {
	if rank(c.Source("brokers")) <= rank(c.Source("url")) {
		return nil
	}
	return usagef("the brokers cannot answer this, only the API can: name it with --url")
}
