package topics

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// EndpointState is a record on topic endpoints: what one webhook worker knows about an origin
// that one tenant calls. The record key is <instance>/<tenant>/<origin>. A null value means
// that the worker has forgotten it, or has ended. A worker writes each at least once a
// minute. So an older record, by the broker's timestamp, is from a worker that was killed.
type EndpointState struct {
	Instance string    `json:"instance"`
	Tenant   string    `json:"tenant"`
	Origin   string    `json:"origin"`
	State    string    `json:"state"` // closed, open, half_open
	InFlight int       `json:"in_flight"`
	OK       int64     `json:"ok"`
	Failed   int64     `json:"failed"`
	LastCode string    `json:"last_code,omitempty"`
	Until    time.Time `json:"until,omitzero"`     // when an open breaker lets requests out again
	CalledAt time.Time `json:"called_at,omitzero"` // when LastCode was found, by the worker's clock
}

// EndpointEvery is how often a worker writes each endpoint at least.
const EndpointEvery = time.Minute

// Key is the record key. Only the origin may have a '/', and it comes last.
func (s *EndpointState) Key() string {
	return strings.ReplaceAll(s.Instance, "/", "_") + "/" + s.Tenant + "/" + s.Origin
}

// Value is the record's value.
func (s *EndpointState) Value() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a time beyond the year 9999, which no clock shows
	}
	return b
}

// maxEndpointRecord bounds a record that is read: a key of 255 bytes, an origin.
const maxEndpointRecord = 8 << 10

// DecodeEndpoint reads a record. It returns nil if the worker has forgotten the endpoint.
func DecodeEndpoint(key, value []byte) (*EndpointState, error) {
	if value == nil {
		return nil, nil
	}
	if len(key)+len(value) > maxEndpointRecord {
		return nil, errors.New("it is too large")
	}
	s := &EndpointState{}
	if err := json.Unmarshal(value, s); err != nil {
		return nil, err
	}
	if s.Key() != string(key) || s.Origin == "" {
		return nil, errors.New("its key is not <instance>/<tenant>/<origin> of its value")
	}
	return s, nil
}
