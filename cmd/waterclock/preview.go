package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway"
	httpproblem "github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

type previewFlags struct {
	when  timeFlags
	after string
	n     int
	jsonl bool

	month, year string
}

func newPreview(a *app) *cobra.Command {
	f := &previewFlags{}
	cmd := &cobra.Command{
		Use:   "preview (--every RULE | --at TIME | --in DURATION) [--tz ZONE] | --jsonl",
		Short: "Print when a rule would fire; needs no server",
		Example: `  waterclock preview --every 'FREQ=DAILY' --start 2026-03-07T02:30 --tz America/New_York -n 3
  waterclock preview --every '0 9 * * MON#1' --tz Europe/Berlin
  waterclock preview --every 'FREQ=MONTHLY;BYDAY=-1FR' --start 2026-01-01T09:00 --year 2026
  waterclock preview --jsonl < questions.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.jsonl {
				return a.previewLines(cmd.Context())
			}
			if f.month != "" || f.year != "" {
				return a.draw(cmd.Context(), f)
			}
			if err := refuseEmpty(cmd.Flags(), "after"); err != nil {
				return err
			}
			return a.preview(cmd.Context(), f)
		},
	}
	f.when.bind(cmd)
	cmd.Flags().StringVar(&f.after, "after", "", "only after this `time` (default now)")
	cmd.Flags().IntVarP(&f.n, "number", "n", 10, fmt.Sprintf("how many, at most %d", calendar.PreviewMaxN))
	cmd.Flags().StringVar(&f.month, "month", "",
		"draw a calendar of this `month`, 2026-11, with the days marked on which it fires")
	cmd.Flags().StringVar(&f.year, "year", "", "draw the calendar of a `year`")
	cmd.Flags().BoolVar(&f.jsonl, "jsonl", false,
		"read bodies of POST /v1/preview from standard input, a line each; answer a line each")
	return cmd
}

func (a *app) preview(ctx context.Context, f *previewFlags) error {
	fields, err := f.when.fields()
	if err != nil {
		return err
	}
	put(fields, "after", f.after)
	fields["n"] = f.n
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	named := a.namedCalendars(ctx)
	answer, no := calendar.PreviewWith(calendar.Embedded(), named.find, body, time.Now().UnixMilli())
	if named.failed != nil {
		return refusedBy(named.failed)
	}
	if no != nil {
		return refusedBy(no)
	}
	switch a.out.format {
	case "json":
		return a.out.json(answer)
	case "ndjson":
		items := make([]any, len(answer.Occurrences))
		for i, o := range answer.Occurrences {
			items[i] = o
		}
		return a.out.list(items, nil, nil)
	}
	return a.printPreview(&answer)
}

// printPreview prints a preview for people. It describes the rule in words, so that they can
// check what they wrote. It has one row per wall time, including those that DST leaves out.
func (a *app) printPreview(answer *calendar.PreviewResponse) error {
	rows, err := answer.Rows()
	if err != nil {
		return worded(err)
	}
	if words := answer.Words(); words != "" {
		fmt.Fprintf(a.out.w, "%s\n\n", clean(words))
	}
	if len(answer.Occurrences) == 0 {
		a.note("it does not fire again")
	}
	return a.out.list(make([]any, len(rows)), []string{"local", "offset", "utc", "note"}, func(i int) []string {
		r := rows[i]
		return []string{r.Local, r.Offset, r.UTC, r.Note}
	})
}

// maxLine bounds one question. A preview has at most 512 dates and a rule of 512 B, so no valid
// question is longer.
const maxLine = 1 << 20

// previewLines answers each line in order. It flushes before it waits for the next question, so
// that a program can wait for each answer.
func (a *app) previewLines(ctx context.Context) error {
	in := bufio.NewReaderSize(a.io.in, 64<<10)
	out := bufio.NewWriterSize(a.io.out, 64<<10)
	answers := &output{w: out, format: "ndjson", code: a.out.code}
	named := a.namedCalendars(ctx)
	for ctx.Err() == nil {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLongLine) {
			return fmt.Errorf("read questions: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 || errors.Is(err, errLongLine) {
			if err := answers.json(answerLine(named, line, err)); err != nil {
				return fmt.Errorf("write answers: %w", err)
			}
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("write answers: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write answers: %w", err)
	}
	return failf("interrupted; every line read so far was answered")
}

var errLongLine = errors.New("the line is over 1 MiB")

// readLine reads up to the end of the line. It drops a line that is too long and returns
// errLongLine, so that the next call starts at the next question.
func readLine(in *bufio.Reader) (line []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine // at the end of input, the next call returns io.EOF
		default:
			return line, err
		}
	}
}

// previewProblem is a refusal in the format of the HTTP API, with the id of the question. The id
// may be any JSON value.
type previewProblem struct {
	ID json.RawMessage `json:"id,omitempty"`
	*httpproblem.Problem
}

// answerLine returns the answer to one question, or its problem.
func answerLine(named *namedCalendars, line []byte, failed error) any {
	if errors.Is(failed, errLongLine) {
		return previewProblem{Problem: httpproblem.Of(&trigger.Error{Code: trigger.CodeTooLarge, Msg: failed.Error()})}
	}
	answer, problem := gateway.Preview(calendar.Embedded(), named.find, line, time.Now().UnixMilli())
	if missing := named.problem(); missing != nil {
		problem = missing
	}
	if problem != nil {
		return previewProblem{answer.ID, problem}
	}
	return answer
}
