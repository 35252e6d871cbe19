package producer

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// refusals are the broker errors after which the record is certainly not in the log.
var refusals = refusalTable{
	{kerr.MessageTooLarge, waterclock.TooLarge, "too_large"},
	{kerr.RecordListTooLarge, waterclock.TooLarge, "too_large"},
	{kerr.TopicAuthorizationFailed, waterclock.Forbidden, "forbidden"},
	{kerr.ClusterAuthorizationFailed, waterclock.Forbidden, "forbidden"},
	{kerr.SaslAuthenticationFailed, waterclock.Unauthenticated, "unauthenticated"},
	{kerr.InvalidRecord, waterclock.Invalid, "invalid"},
	{kgo.ErrMaxBuffered, waterclock.Unavailable, "overloaded"},
}
