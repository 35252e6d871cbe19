package config

// topicSection has the settings under the heading "Topics" of docs/operations/settings.md.
var topicSection = section{"Topics", "", []Setting{
	{
		Key: "topics.prefix", Default: "waterclock.",
		into: func(c *Config, _ string) any { return &c.Topics.Prefix },
		Doc:  "Beginning of the name of every topic.",
	},
	{
		Key: "topics.partitions", Default: "16", Dev: "4", Min: "1", Max: "1024",
		into: func(c *Config, _ string) any { return &c.Topics.Partitions },
		Doc: "Partitions of every topic but `control`, `audit` and `endpoints`. The number is fixed when the " +
			"topics are created; another number later is refused.",
	},
	{
		Key: "topics.manage", Default: "true",
		into: func(c *Config, _ string) any { return &c.Topics.Manage },
		Doc:  "Create missing topics at start-up. If false, create them with `waterclock topics apply`.",
	},
	{
		Key: "topics.replication", Default: "broker", Word: "broker", Min: "1", Max: "100",
		into: func(c *Config, _ string) any { return &c.Topics.Replication },
		Doc: "Replication factor of the topics that Waterclock creates. `broker` means the brokers' " +
			"`default.replication.factor`.",
	},
	{
		Key: "events.payload", Default: "true",
		into: func(c *Config, _ string) any { return &c.Events.Payload },
		Doc: "Put payloads into `trigger.registered` and `trigger.replaced`. Set it to false if the event log " +
			"is kept for more than 30 days.",
	},
	{
		Key: "events.compression", Default: "zstd", OneOf: []string{"zstd", "none"},
		into: func(c *Config, _ string) any { return &c.Events.Compression },
		Doc: "How the engine compresses topics `events` and `state`. With `none`, brokers compress `events` by zstd " +
			"themselves, and `state` and what `dev` keeps stay as they are.",
	},
	{
		Key: "events.retention", Default: "30d", Word: "unlimited", Min: "1h",
		into: func(c *Config, _ string) any { return &c.Events.Retention },
		Doc:  "How long topic `events` keeps its records.",
	},
	{
		Key: "watermarks.interval", Default: "1s", Word: "off", Min: "100ms", Max: "1h",
		into: func(c *Config, _ string) any { return &c.Watermarks.Interval },
		Doc: "Least time between two watermarks of a partition. `off` writes none, and withdraws those before. " +
			"Set it before you roll back to a version that does not know them.",
	},
	{
		Key: "watermarks.idle_interval", Default: "5s", Min: "100ms", Max: "1h",
		into: func(c *Config, _ string) any { return &c.Watermarks.IdleInterval },
		Doc:  "Time between two watermarks of a partition where nothing happens. Each is a transaction.",
	},
}}
