package main

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newForecast(a *app) *cobra.Command {
	bucket, by, n := "1m", "", 0
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Print how much falls due by the minute or by the hour",
		Long: `Print how many occurrences fall due in each of the next minutes or hours, recurrences
included: by the instants that were asked for, and by those at which they fire, jitter
included. It asks the API at --url.`,
		Example: "  waterclock forecast\n  waterclock forecast --bucket 1h -n 24 --by channel",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{"bucket": {bucket}}
			if n > 0 {
				q.Set("n", strconv.Itoa(n))
			}
			if by != "" {
				q.Set("by", by)
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var f gateway.Forecast
			if err := from.get(cmd.Context(), "/v1/forecast?"+q.Encode(), &f); err != nil {
				return err
			}
			if len(f.Silent) > 0 {
				a.note("partitions %v did not answer, or have not counted yet: their occurrences are missing", f.Silent)
			}
			if f.Incomplete {
				a.note("there are too many tenants and channels to count separately: these counts are too low")
			}
			items := anyOf(f.Items)
			header := []string{"at", "nominal", "due"}
			if by != "" {
				header = append(header, "by "+by)
			}
			return a.out.list(items, header, func(i int) []string {
				b := &f.Items[i]
				row := []string{b.At, strconv.FormatInt(b.Nominal, 10), strconv.FormatInt(b.Due, 10)}
				if by != "" {
					row = append(row, groups(b.By))
				}
				return row
			})
		},
	}
	cmd.Flags().StringVar(&bucket, "bucket", bucket, "`1m or 1h`")
	cmd.Flags().StringVar(&by, "by", "", "count separately by `channel, priority or tenant`")
	cmd.Flags().IntVarP(&n, "n", "n", 0, "number of buckets (default 120 minutes or 168 hours)")
	return cmd
}

// groups formats counts, sorted by name.
func groups(by map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, fmt.Sprintf("%s %d", clean(name), by[name]))
	}
	return strings.Join(all, ", ")
}
