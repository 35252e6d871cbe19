package analytics

import (
	"reflect"
	"strings"
)

// Row is an event as the files have it. The number in id(n) is the column's field id. It is
// frozen: a reader that knows columns by number (Iceberg) finds the same one for ever. A new
// column takes a new number. Zero values are nulls; a column in which zero means something
// is a pointer.
type Row struct {
	Partition int32 `parquet:"log_partition,id(1),delta"`
	Offset    int64 `parquet:"log_offset,id(2),delta"`
	Appended  int64 `parquet:"appended_at,id(3),optional,delta,timestamp(millisecond)"`

	EventID  string `parquet:"event_id,id(4),optional"`
	Type     string `parquet:"type,id(5),optional,dict"`
	Version  int32  `parquet:"version,id(6),optional,dict"`
	Trigger  string `parquet:"trigger,id(7),optional,dict"`
	Tenant   string `parquet:"tenant,id(8),optional,dict"`
	Revision int64  `parquet:"revision,id(9),optional,dict"`
	Seq      int64  `parquet:"seq,id(10),optional,dict"`

	OccurredAt  int64 `parquet:"occurred_at,id(11),optional,delta,timestamp(millisecond)"`
	EventUS     int64 `parquet:"event_us,id(12),optional,delta,timestamp(microsecond)"`
	ScheduledAt int64 `parquet:"scheduled_at,id(13),optional,delta,timestamp(millisecond)"`
	NextAt      int64 `parquet:"next_at,id(14),optional,delta,timestamp(millisecond)"`
	EffectiveAt int64 `parquet:"effective_at,id(15),optional,delta,timestamp(millisecond)"`
	FirstFired  int64 `parquet:"first_fired_at,id(16),optional,delta,timestamp(millisecond)"`
	Previous    int64 `parquet:"previous_scheduled_at,id(17),optional,delta,timestamp(millisecond)"`
	First       int64 `parquet:"first,id(18),optional,delta,timestamp(millisecond)"`
	Last        int64 `parquet:"last,id(19),optional,delta,timestamp(millisecond)"`

	Occurrence    string `parquet:"occurrence,id(20),optional,dict"`
	LocalTime     string `parquet:"local_time,id(21),optional,dict"`
	Timezone      string `parquet:"timezone,id(22),optional,dict"`
	TZData        string `parquet:"tzdata,id(23),optional,dict"`
	PreviousTZ    string `parquet:"previous_tzdata,id(24),optional,dict"`
	Channel       string `parquet:"channel,id(25),optional,dict"`
	UserID        string `parquet:"user_id,id(26),optional,dict"`
	Step          *int32 `parquet:"step,id(27),optional,dict"`
	Attempt       int32  `parquet:"attempt,id(28),optional,dict"`
	State         string `parquet:"state,id(29),optional,dict"`
	PreviousState string `parquet:"previous_state,id(30),optional,dict"`
	LatenessMS    *int64 `parquet:"lateness_ms,id(31),optional,dict"`
	Reason        string `parquet:"reason,id(32),optional,dict"`
	Detail        string `parquet:"detail,id(33),optional,dict"`
	Actor         string `parquet:"actor,id(34),optional,dict"`
	Source        string `parquet:"source,id(35),optional"`
	DueTopic      string `parquet:"due_topic,id(36),optional,dict"`
	DuePartition  *int32 `parquet:"due_partition,id(37),optional,dict"`
	CorrelationID string `parquet:"correlation_id,id(38),optional,dict"`
	Count         int32  `parquet:"count,id(39),optional,dict"`
	Truncated     string `parquet:"truncated,id(40),optional,dict"`
	Rule          string `parquet:"rule,id(41),optional,dict"`

	Tags map[string]string `parquet:"tags,id(42),optional" parquet-key:",id(43),dict" parquet-value:",id(44),dict"`

	Extra string `parquet:"extra,id(45),optional,dict"`
}

// clone is a copy that stays valid when the file that the row is from is closed.
func (r *Row) clone() Row {
	out := *r
	fields := reflect.ValueOf(&out).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.String {
			f.SetString(strings.Clone(f.String()))
		}
	}
	out.Tags = nil
	for name, value := range r.Tags {
		if out.Tags == nil {
			out.Tags = make(map[string]string, len(r.Tags))
		}
		out.Tags[strings.Clone(name)] = strings.Clone(value)
	}
	return out
}
