package config

// tenantSection has the settings under the heading "Tenants" of docs/operations/settings.md.
var tenantSection = section{
	"Tenants",
	"`<name>` is a tenant: the text before the first `/` of a trigger key, or `default` if the key has no `/`.",
	[]Setting{
		{
			Key:  "tenants.<name>.callback_allow",
			into: func(c *Config, n string) any { return &c.tenant(n).CallbackAllow },
			Doc:  "Origins that its webhooks may call, in addition to `webhook.allow` and public https.",
		},
		{
			Key: "tenants.<name>.rate", Default: "unlimited", Word: "unlimited", Min: "0.001",
			into: func(c *Config, n string) any { return &c.tenant(n).Rate },
			Doc: "Most commands a second over HTTP, on each instance, and most registers a second on `commands`, in " +
				"windows of 10 s of append time. More are refused with `quota_exceeded`, 429 over HTTP. An engine " +
				"enforces it in the share of the partitions that it owns.",
		},
		{
			Key: "tenants.<name>.max_pending", Default: "unlimited", Word: "unlimited", Min: "1",
			into: func(c *Config, n string) any { return &c.tenant(n).MaxPending },
			Doc: "Most pending triggers. One more is refused with `quota_exceeded`. An engine enforces " +
				"it in the share of the partitions that it owns.",
		},
		{
			Key: "tenants.<name>.max_users", Default: "1000000", Word: "unlimited", Min: "1",
			into: func(c *Config, n string) any { return &c.tenant(n).MaxUsers },
			Doc: "Most users that it has preferences for. A `PUT` for one more is refused with `quota_exceeded`, " +
				"429; those of users it has go on. A link to unsubscribe is never refused, and counts. An erased " +
				"user counts no longer. Set it for all instances alike.",
		},
		{
			Key:  "tenants.<name>.channels",
			into: func(c *Config, n string) any { return &c.tenant(n).Channels },
			Doc:  "Channels that it may use. Unset means all. Any other is refused with `forbidden_channel`.",
		},
		{
			Key: "tenants.<name>.webhook_secret", Secret: true,
			into: func(c *Config, n string) any { return &c.tenant(n).WebhookSecret },
			Doc:  "Signs its webhooks in place of `webhook.secret`, and is written as that is.",
		},
		{
			Key: "tenants.<name>.min_period", Default: "inherit", Word: "inherit", Min: "1s", Max: "30d",
			into: func(c *Config, n string) any { return &c.tenant(n).MinPeriod },
			Doc:  "Shortest period of its recurrences. `inherit` means `limits.min_period`.",
		},
		{
			Key: "tenants.<name>.reads", Default: "100000", Word: "unlimited", Min: "1",
			into: func(c *Config, n string) any { return &c.tenant(n).ReadRate },
			Doc: "Triggers and occurrences a second that its lists, forecasts and previews visit on one " +
				"instance, in bursts of ten seconds' worth; each such read costs at least 100, also one " +
				"that is cut off, or 1 if it is answered with what another caller has just got. Then they are " +
				"refused with `quota_exceeded`, 429. It holds only with `auth`.",
		},
	},
}
