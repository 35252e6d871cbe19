package config

// historySection has the settings under the heading "History and preferences" of docs/operations/settings.md.
var historySection = section{
	"History and preferences",
	"`waterclock dev` keeps both in the data directory where these are unset.",
	[]Setting{
		{
			Key: "history.retention", Default: "90d", Min: "1h", Max: "3650d",
			into: func(c *Config, _ string) any { return &c.History.Retention },
			Doc: "How long the history keeps an event, in Cassandra or in the data directory. It does not depend " +
				"on `events.retention`. A change applies to what is written from then on.",
		},
		{
			Key:  "cassandra.hosts",
			into: func(c *Config, _ string) any { return &c.Cassandra.Hosts },
			Doc:  "Cassandra nodes to start from, comma-separated.",
		},
		{
			Key: "cassandra.keyspace", Default: "waterclock",
			into: func(c *Config, _ string) any { return &c.Cassandra.Keyspace },
			Doc:  "Keyspace of the history tables.",
		},
		{
			Key: "cassandra.replication", Default: "1",
			into: func(c *Config, _ string) any { return &c.Cassandra.Replication },
			Doc: "Replication when the keyspace is created: a factor, or a map of data centers (`dc1=3,dc2=2`; in " +
				"YAML a map).",
		},
		{
			Key:  "cassandra.user",
			into: func(c *Config, _ string) any { return &c.Cassandra.User },
			Doc:  "User name. Unset means no log-in.",
		},
		{
			Key: "cassandra.password", Secret: true,
			into: func(c *Config, _ string) any { return &c.Cassandra.Password },
			Doc:  "Its password. A file is read again when it changes, and counts for new connections.",
		},
		{
			Key: "cassandra.tls.enabled", Default: "false",
			into: func(c *Config, _ string) any { return &c.Cassandra.TLS.Enabled },
			Doc:  "Use TLS to Cassandra. Certificates are always verified.",
		},
		{
			Key:  "cassandra.tls.ca",
			into: func(c *Config, _ string) any { return &c.Cassandra.TLS.CA },
			Doc:  "PEM file of the certificate authorities to trust. Unset means the system's.",
		},
		{
			Key:  "cassandra.tls.cert",
			into: func(c *Config, _ string) any { return &c.Cassandra.TLS.Cert },
			Doc:  "PEM file of the client certificate.",
		},
		{
			Key:  "cassandra.tls.key",
			into: func(c *Config, _ string) any { return &c.Cassandra.TLS.Key },
			Doc:  "PEM file of its private key.",
		},
		{
			Key:  "cassandra.tls.server_name",
			into: func(c *Config, _ string) any { return &c.Cassandra.TLS.ServerName },
			Doc:  "Name that the nodes' certificates must have. Unset means the host that is dialled.",
		},
		{
			Key: "postgres.url", Secret: true,
			into: func(c *Config, _ string) any { return &c.Postgres.URL },
			Doc: "PostgreSQL with preferences, `postgres://user:password@host/database`. " +
				"Unset: `serve` keeps none, and `dev` keeps them in its data directory. A file is read again when " +
				"it changes; user and password count for new connections.",
		},
	},
}
