package config

// channelSection has the settings under the heading "Channels" of docs/operations/settings.md.
var channelSection = section{
	"Channels",
	"`<name>` is a channel: `[a-z0-9][a-z0-9._-]{0,48}`, not ending in `.high`.",
	[]Setting{
		{
			Key: "channels.auto_create", Default: "true",
			into: func(c *Config, _ string) any { return &c.AutoCreate },
			Doc: "A register for a channel that does not exist creates it, up to 100 in the cluster and " +
				"`limits.tenant_channels` of a tenant. If false, it is refused with `unknown_channel`. The default " +
				"is false in `serve` with `auth`. A channel exists if it is configured here, or if its topic " +
				"`<prefix>due.<name>` does; `default`, `webhook`, `push`, `sms` and `email` always exist.",
		},
		{
			Key:  "channels.<name>.topic",
			into: func(c *Config, n string) any { return &c.channel(n).Topic },
			Doc:  "Topic of its due events. Unset means `<prefix>due.<name>`.",
		},
		{
			Key: "channels.<name>.partitioning", Default: "by_partition", OneOf: []string{"by_partition", "by_key"},
			into: func(c *Config, n string) any { return &c.channel(n).Partitioning },
			Doc: "`by_partition`: engine partition p writes partition p. `by_key`: murmur2 of the record key " +
				"chooses the partition, for a topic with another number of partitions.",
		},
		{
			Key: "channels.<name>.receipts", Default: "false", built: delivered("true"),
			into: func(c *Config, n string) any { return &c.channel(n).Receipts },
			Doc: "Whether the channel answers each due event with a receipt. The default is true for webhook, " +
				"push, sms, email.",
		},
		{
			Key: "channels.<name>.receipt_timeout", Default: "1h", Min: "1s", Max: "7d",
			into: func(c *Config, n string) any { return &c.channel(n).ReceiptTimeout },
			Doc:  "If no receipt comes within this time, it counts as `retry`.",
		},
		{
			Key: "channels.<name>.retry", Default: "10s,30s,2m,10m,30m", Min: "0s", Max: "7d",
			into: func(c *Config, n string) any { return &c.channel(n).Retry },
			Doc:  "Waits before the second, third, … attempt. n entries mean n + 1 attempts.",
		},
		{
			Key: "channels.<name>.jitter_low", Default: "0s", Max: "1d",
			into: func(c *Config, n string) any { return &c.channel(n).JitterLow },
			Doc:  "Jitter of triggers with priority `low` that have none of their own.",
		},
		{
			Key: "channels.<name>.high_lane", Default: "false", built: delivered("true"),
			into: func(c *Config, n string) any { return &c.channel(n).HighLane },
			Doc: "Due events of priority `high` go to `<topic>.high`. The default is true for webhook, push, sms, " +
				"email. Our workers know the priority by this lane: without it, `high` waits for quiet hours too.",
		},
		{
			Key: "channels.<name>.dedup_window", Default: "0s", Max: "30d",
			into: func(c *Config, n string) any { return &c.channel(n).DedupWindow },
			Doc: "Within this time after a message with a `tags.type`, the same user gets no second one of that " +
				"type on the channel: it is suppressed, code `duplicate`. `0s` is off. For webhook, push, sms and " +
				"email; it needs preferences (`postgres.url`).",
		},
		{
			Key: "channels.<name>.max_per_user", Min: "1/s", Max: "1000/30d",
			into: func(c *Config, n string) any { return &c.channel(n).MaxPerUser },
			Doc: "Most messages to one user on the channel, such as `5/h,20/d`: at most 5 in any hour and 20 in any " +
				"day. What comes beyond is suppressed, code `capped`. Priority `high` counts and passes. For " +
				"webhook, push, sms and email; it needs preferences (`postgres.url`).",
		},
	},
}
