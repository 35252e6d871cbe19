package config

// kafkaSection has the settings under the heading "Connection to Kafka" of docs/operations/settings.md.
var kafkaSection = section{"Connection to Kafka", "", []Setting{
	{
		Key: "kafka.tls.enabled", Default: "false",
		into: func(c *Config, _ string) any { return &c.Kafka.TLS.Enabled },
		Doc:  "Use TLS to the brokers. Certificates are always verified.",
	},
	{
		Key:  "kafka.tls.ca",
		into: func(c *Config, _ string) any { return &c.Kafka.TLS.CA },
		Doc:  "PEM file of the certificate authorities to trust. Unset means the system's.",
	},
	{
		Key:  "kafka.tls.cert",
		into: func(c *Config, _ string) any { return &c.Kafka.TLS.Cert },
		Doc:  "PEM file of the client certificate, for brokers that ask for one.",
	},
	{
		Key:  "kafka.tls.key",
		into: func(c *Config, _ string) any { return &c.Kafka.TLS.Key },
		Doc:  "PEM file of its private key.",
	},
	{
		Key:  "kafka.tls.server_name",
		into: func(c *Config, _ string) any { return &c.Kafka.TLS.ServerName },
		Doc:  "Name that the brokers' certificates must have. Unset means the host that is dialled.",
	},
	{
		Key: "kafka.sasl.mechanism", OneOf: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"},
		into: func(c *Config, _ string) any { return &c.Kafka.SASL.Mechanism },
		Doc:  "How to log in. Unset means no log-in.",
	},
	{
		Key:  "kafka.sasl.user",
		into: func(c *Config, _ string) any { return &c.Kafka.SASL.User },
		Doc:  "User name.",
	},
	{
		Key: "kafka.sasl.password", Secret: true,
		into: func(c *Config, _ string) any { return &c.Kafka.SASL.Password },
		Doc:  "Its password.",
	},
}}
