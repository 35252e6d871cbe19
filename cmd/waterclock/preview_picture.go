package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/explain"
)

// picture is a range of days, with the days marked on which a rule fires.
type picture struct {
	first, end calendar.Date // end is the day after the last
	rule       *calendar.Rule
	fires      map[calendar.Date][]calendar.Occurrence // of each day, at most the first firingsADay
	more       map[calendar.Date]bool                  // days that have more firings
	gone       map[calendar.Date][]calendar.Occurrence // of each day, the occurrences that DST leaves out
}

// firingsADay bounds how many firings of a day are kept. Nobody reads a longer list below a
// month.
const firingsADay = 8

var (
	monthText = regexp.MustCompile(`^(\d{4})-(0[1-9]|1[0-2])$`)
	yearText  = regexp.MustCompile(`^\d{4}$`)
)

// days returns the range that --month or --year asks for.
func (f *previewFlags) days() (first, end calendar.Date, err error) {
	switch {
	case f.month != "" && f.year != "":
		return 0, 0, usagef("give --month or --year, not both")
	case f.year != "":
		if !yearText.MatchString(f.year) {
			return 0, 0, usagef("--year %s: write 2026", f.year)
		}
		year, _ := strconv.Atoi(f.year)
		return firstOf(year, 1), firstOf(year+1, 1), nil
	}
	m := monthText.FindStringSubmatch(f.month)
	if m == nil {
		return 0, 0, usagef("--month %s: write 2026-11", f.month)
	}
	year, _ := strconv.Atoi(m[1])
	month, _ := strconv.Atoi(m[2])
	return firstOf(year, month), firstOf(year+month/12, month%12+1), nil
}

// firstOf returns the first day of a month. The regular expressions have checked the numbers.
func firstOf(year, month int) calendar.Date {
	d, _ := calendar.ParseDate(fmt.Sprintf("%04d-%02d-01", year, month))
	return d
}

// draw prints a calendar with the days marked on which the rule fires. A rule without --start
// starts now, as if it were registered now.
func (a *app) draw(ctx context.Context, f *previewFlags) error {
	first, end, err := f.days()
	if err != nil {
		return err
	}
	named := a.namedCalendars(ctx)
	rule, err := f.when.compile(time.Now().UnixMilli(), named.find)
	if err := cmp.Or(refusedBy(named.failed), err); err != nil {
		return err
	}
	p := &picture{
		first: first, end: end, rule: rule, fires: map[calendar.Date][]calendar.Occurrence{},
		more: map[calendar.Date]bool{},
		gone: map[calendar.Date][]calendar.Occurrence{},
	}
	if err := p.fill(); err != nil {
		return err
	}
	if a.out.format != "table" {
		return a.drawJSON(p)
	}
	bold := isTerminal(a.out.w)
	fmt.Fprintln(a.out.w, clean(rule.Describe()))
	if f.year != "" {
		p.drawYear(a.out.w, bold)
		return nil
	}
	p.drawMonth(a.out.w, bold)
	return nil
}

// page is the number of occurrences requested at once.
const page = 1000

// fill computes the occurrences day by day. Of a rule that fires very often it reads only the
// beginning of each day.
func (p *picture) fill() error {
	start, end := p.rule.Zone().ResolveFirst(wallOf(p.first))-1, p.rule.Zone().ResolveFirst(wallOf(p.end))-1
	gone, err := p.rule.LeftOut(start, end, page)
	if err != nil {
		return worded(err)
	}
	for _, o := range gone {
		if day := o.Local.Date(); len(p.gone[day]) < firingsADay {
			p.gone[day] = append(p.gone[day], o)
		}
	}
	for after := start; after < end; {
		list, err := p.rule.Between(after, end, page)
		if err != nil {
			return worded(err)
		}
		for _, o := range list {
			p.mark(o)
		}
		if len(list) < page {
			return nil
		}
		after = max(list[page-1].At, p.rule.Zone().ResolveFirst(wallOf(p.dayOf(list[page-1])+1))-1)
	}
	return nil
}

// wallOf returns the midnight at which a day begins.
func wallOf(d calendar.Date) calendar.Wall { return calendar.Wall(int64(d) * dayMS) }

// dayOf returns the local date of a firing.
func (p *picture) dayOf(o calendar.Occurrence) calendar.Date {
	return p.rule.Zone().Wall(o.At).Date()
}

func (p *picture) mark(o calendar.Occurrence) {
	day := p.dayOf(o)
	if len(p.fires[day]) == firingsADay {
		p.more[day] = true
		return
	}
	p.fires[day] = append(p.fires[day], o)
}

func (p *picture) drawMonth(w io.Writer, bold bool) {
	fmt.Fprintf(w, "\n%s\n\n", strings.TrimRight(trimRight(strings.Join(p.month(p.first, bold), "\n")), "\n"))
	for d := p.first; d < p.end; d++ {
		list := p.fires[d]
		if len(list)+len(p.gone[d]) == 0 {
			continue
		}
		texts := make([]string, 0, len(list)+1)
		for _, o := range p.gone[d] {
			at := strings.TrimSuffix(o.Local.String()[len("2026-11-20T"):], ":00")
			texts = append(texts, at+" "+explain.Bracket(o.Note))
		}
		for _, o := range list {
			texts = append(texts, p.clock(o))
		}
		if p.more[d] {
			texts = append(texts, "…")
		}
		fmt.Fprintf(w, "%s %s  %s\n", weekdayNames[weekday(d)], d, strings.Join(texts, "  "))
	}
	if len(p.fires) == 0 {
		fmt.Fprintln(w, "it does not fire in this month")
	}
}

// clock returns the time of day with its offset, and how a clock change affected it.
func (p *picture) clock(o calendar.Occurrence) string {
	local := p.rule.LocalOffset(o)
	text := local[len("2026-11-20T"):]
	for _, mark := range []string{"+", "-", "Z"} {
		if at := strings.Index(text, mark); at > 0 {
			text = strings.TrimSuffix(text[:at], ":00") + text[at:]
			break
		}
	}
	return strings.TrimSpace(text + " " + explain.Bracket(o.Note))
}

// drawYear prints three months side by side.
func (p *picture) drawYear(w io.Writer, bold bool) {
	year := p.first.String()[:4]
	number, _ := strconv.Atoi(year)
	for quarter := range 4 {
		fmt.Fprintln(w)
		var columns [3][]string
		for i := range columns {
			columns[i] = p.month(firstOf(number, quarter*3+i+1), bold)
		}
		for line := range columns[0] {
			fmt.Fprintln(w, strings.TrimRight(columns[0][line]+"   "+columns[1][line]+"   "+columns[2][line], " "))
		}
	}
	fmt.Fprintf(w, "\nit fires on %s of %s", plural(len(p.fires), "day"), year)
	if len(p.gone) > 0 {
		fmt.Fprintf(w, ", and DST leaves it out on %s, marked !", plural(len(p.gone), "day"))
	}
	fmt.Fprintln(w)
}

var (
	weekdayNames = [7]string{"Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"}
	monthNames   = [13]string{
		"", "January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December",
	}
)

// weekday returns 0 for Monday. 1970-01-01 was a Thursday.
func weekday(d calendar.Date) int { return int(((int64(d)+3)%7 + 7) % 7) }

// cellWidth is the width of a day: a mark, two digits, and a mark.
const cellWidth = 4

// month returns eight lines of equal width: the name, the weekdays, and six weeks.
func (p *picture) month(first calendar.Date, bold bool) []string {
	text := first.String()
	number, _ := strconv.Atoi(text[5:7])
	title := monthNames[number] + " " + text[:4]
	const width = 7 * cellWidth
	lines := []string{pad(strings.Repeat(" ", (width-len(title))/2)+title, width), ""}
	for _, name := range weekdayNames {
		lines[1] += " " + name + " "
	}
	day, week := first, strings.Repeat(" ", cellWidth*weekday(first))
	for len(lines) < 8 {
		for i := weekday(day); len(lines) < 8; i++ {
			if i == 7 {
				break
			}
			if sameMonth(day, first) {
				week += p.cell(day, bold)
			} else {
				week += strings.Repeat(" ", cellWidth)
			}
			day++
		}
		lines, week = append(lines, week), ""
	}
	return lines
}

func sameMonth(x, y calendar.Date) bool { return x.String()[:7] == y.String()[:7] }

// cell formats a day. Brackets mark a firing, and on a terminal it is inverted as well. An
// exclamation mark says that a clock change moves or leaves out a firing of that day.
func (p *picture) cell(d calendar.Date, bold bool) string {
	number := strings.TrimLeft(d.String()[8:], "0")
	list := p.fires[d]
	end := "]"
	switch {
	case len(p.gone[d]) > 0 && len(list) == 0:
		return fmt.Sprintf(" %2s!", number)
	case len(list) == 0:
		return fmt.Sprintf(" %2s ", number)
	case len(p.gone[d]) > 0:
		end = "!"
	}
	for _, o := range list {
		if o.Note != "" {
			end = "!"
		}
	}
	text := fmt.Sprintf("[%2s%s", number, end)
	if bold {
		return "\x1b[7m" + text + "\x1b[0m"
	}
	return text
}

func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-len(s))) }

// drawJSON prints the days and their instants.
func (a *app) drawJSON(p *picture) error {
	type day struct {
		Day   string   `json:"day"`
		Fires []string `json:"fires"`
		More  bool     `json:"more,omitempty"` // the list holds only the first 8 firings of the day
	}
	items := []any{}
	for d := p.first; d < p.end; d++ {
		if len(p.fires[d]) == 0 {
			continue
		}
		item := day{Day: d.String(), More: p.more[d]}
		for _, o := range p.fires[d] {
			item.Fires = append(item.Fires, p.rule.LocalOffset(o))
		}
		items = append(items, item)
	}
	return a.out.list(items, nil, nil)
}
