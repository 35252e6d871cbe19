package config

import "fmt"

// Export is how the event log becomes files for analysts.
type Export struct {
	Dir         string
	UserHashKey string // export.user_hash_key: see ExportKey
	PlainUsers  bool
}

const (
	exportKey    = "export.user_hash_key"
	minExportKey = 16
)

var exportSection = section{"Export for analysts", "", []Setting{
	{
		Key:  "export.dir",
		into: func(c *Config, _ string) any { return &c.Export.Dir },
		Doc: "Directory for role `export` and `events export`: Parquet files with the event log " +
			"([export](../analytics/export.md)). Several exporters may share it.",
	},
	{
		Key: exportKey, Secret: true,
		into: func(c *Config, _ string) any { return &c.Export.UserHashKey },
		Doc: "Key of the hashes that replace user ids and values of tags in the files: 16 bytes or more, " +
			"`env:NAME` or `file:PATH`. Unset means that the files have neither. A directory has one key for good.",
	},
	{
		Key: "export.plain_users", Default: "false",
		into: func(c *Config, _ string) any { return &c.Export.PlainUsers },
		Doc: "Write user ids and tags as they are. An erased person then stays in files that were written " +
			"before.",
	},
}}

// ExportKey is the key as it is now; none means that the files have no user ids.
func (c *Config) ExportKey() ([]byte, error) {
	if c.Export.UserHashKey == "" {
		return nil, nil
	}
	text, err := c.ReadSecret(exportKey, c.Export.UserHashKey)
	if err == nil {
		text, err = dereference(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", exportKey, err)
	}
	if len(text) < minExportKey {
		return nil, fmt.Errorf("%s: is shorter than %d bytes: `openssl rand -hex 32` makes one", exportKey,
			minExportKey)
	}
	return []byte(text), nil
}

func (l *loader) checkExport() {
	if l.c.Export.PlainUsers && l.c.Export.UserHashKey != "" {
		l.at("export.plain_users", "is true, and %s is set: omit one of them", exportKey)
	}
	l.unreadable(exportKey, second(l.c.ExportKey()))
}
