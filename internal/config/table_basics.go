package config

// basicSection has the settings under the heading "Where things are" of docs/operations/settings.md.
var basicSection = section{"Where things are", "", []Setting{
	{
		Key: "brokers", Default: "127.0.0.1:9092",
		into: func(c *Config, _ string) any { return &c.Brokers },
		Doc:  "Kafka brokers to start from, `host:port`, comma-separated.",
	},
	{
		Key: "url", Default: "http://127.0.0.1:8080",
		into: func(c *Config, _ string) any { return &c.URL },
		Doc: "URL of the HTTP API, for the command line. If it is set and `brokers` is not, commands go to " +
			"the API instead of to Kafka.",
	},
	{
		Key: "api_key", Secret: true,
		into: func(c *Config, _ string) any { return &c.APIKey },
		Doc:  "The command line sends it with HTTP requests, as `Authorization: Bearer`.",
	},
	{
		Key: "data_dir", Default: "./waterclock-data",
		into: func(c *Config, _ string) any { return &c.DataDir },
		Doc: "Directory for what this process keeps on disk. The process creates it with mode 0700 and locks " +
			"it. Kafka has everything in it, so losing it loses nothing (except with `dev`, where it holds the " +
			"broker).",
	},
	{
		Key: "roles", Default: "engine,api", Dev: "engine,api,history,webhook",
		OneOf: []string{"engine", "api", "history", "webhook", "push", "sms", "email", "export"},
		into:  func(c *Config, _ string) any { return &c.Roles },
		Doc:   "Roles of this process.",
	},
	{
		Key: "group", Default: "waterclock",
		into: func(c *Config, _ string) any { return &c.Group },
		Doc: "Consumer group of the engine and prefix of its transactional ids (`<group>-<partition>`). Two " +
			"clusters on the same brokers need two groups and two prefixes.",
	},
}}
