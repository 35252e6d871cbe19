// Package python tests clients/python as its users have it: a wheel is built and installed, and the client's own
// tests, the conformance file among them, run with it against a `waterclock dev` of this source, and on real Kafka.
//
// What is missing fails the test: test/setup.sh installs it. With -short the test is skipped.
package python
