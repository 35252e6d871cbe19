package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
)

func newConfig(a *app) *cobra.Command {
	return parent("config", "Show or check the settings", newConfigShow(a), newConfigValidate(a))
}

func newConfigShow(a *app) *cobra.Command {
	var dev, changed, docs bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, its value and where it came from; secrets are masked",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config(dev)
			if err != nil {
				return err
			}
			return a.printSettings(c, changed, docs)
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "apply the defaults of waterclock dev")
	cmd.Flags().BoolVar(&changed, "changed", false, "only the values that differ from the default")
	cmd.Flags().BoolVar(&docs, "docs", false, "also say what each setting is")
	return cmd
}

func (a *app) printSettings(c *config.Config, changed, docs bool) error {
	var rows [][]string
	var items []any
	for _, v := range c.Values() {
		if changed && v.Source == "default" {
			continue
		}
		row := []string{v.Key, v.Value, v.Source}
		if docs {
			what := config.Doc(v.Key)
			items, row = append(items, documentedValue{v, what}), append(row, what)
		} else {
			items = append(items, v)
		}
		rows = append(rows, row)
	}
	columns := []string{"setting", "value", "source"}
	if docs {
		columns = append(columns, "what it is")
	}
	return a.out.list(items, columns, func(i int) []string { return rows[i] })
}

type documentedValue struct {
	config.Value
	Doc string `json:"doc"`
}

func newConfigValidate(a *app) *cobra.Command {
	var serve bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the settings and list every error",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.loadConfig(false)
			if err == nil {
				err = a.checkMore(c, serve)
			}
			if err != nil {
				return &failure{Exit: exitUsage, Msg: "settings are wrong", Err: indented{err}}
			}
			return a.out.record(map[string]any{"ok": true, "warnings": append([]string{}, c.Warnings...)}, validRows(c))
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "also check what serve needs, with its certificates and keys")
	return cmd
}

// checkMore reads the files that the settings name, and checks what serve needs. It returns every
// problem.
func (a *app) checkMore(c *config.Config, serve bool) error {
	_, kafka := kafkaconn.Options(c, "check", nil)
	problems := []error{kafka}
	if c.Cassandra.TLS.Enabled {
		_, err := kafkaconn.TLS("cassandra.tls", c.Cassandra.TLS)
		problems = append(problems, err)
	}
	if serve {
		problems = append(problems, c.CheckServe(), node.CheckFiles(c))
	}
	return errors.Join(problems...)
}

func validRows(c *config.Config) [][2]string {
	rows := [][2]string{{"ok", fmt.Sprintf("%d settings", len(c.Values()))}}
	for _, w := range c.Warnings {
		rows = append(rows, [2]string{"warning", w})
	}
	return rows
}
