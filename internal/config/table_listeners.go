package config

// listenerSection has the settings under the heading "Listeners" of docs/operations/settings.md.
var listenerSection = section{"Listeners", "", []Setting{
	{
		Key: "listen", Default: "127.0.0.1:8080",
		into: func(c *Config, _ string) any { return &c.Listen },
		Doc:  "Address of the HTTP API. Beyond loopback it needs `auth` and TLS.",
	},
	{
		Key: "kafka.listen", Default: "127.0.0.1:9092",
		into: func(c *Config, _ string) any { return &c.Kafka.Listen },
		Doc:  "Address of the embedded broker, `waterclock dev` only. It has no log-in, so it must be on loopback.",
	},
	{
		Key:  "admin.listen",
		into: func(c *Config, _ string) any { return &c.Admin.Listen },
		Doc: "Address of `/healthz`, `/readyz` and `/metrics` beyond loopback, and wherever `auth` is on. It has " +
			"no log-in: keep it inside your network.",
	},
	{
		Key: "internal.listen", Default: "127.0.0.1:0",
		into: func(c *Config, _ string) any { return &c.Internal.Listen },
		Doc: "Address where other instances ask this one about its partitions. Port 0 takes a free port. " +
			"Beyond loopback it needs `internal.secret`.",
	},
	{
		Key:  "internal.advertise",
		into: func(c *Config, _ string) any { return &c.Internal.Advertise },
		Doc: "`host:port` at which other instances reach `internal.listen`. Unset means the address that it " +
			"listens on, and the host's name where that is `0.0.0.0` or `::`.",
	},
	{
		Key: "internal.secret", Secret: true,
		into: func(c *Config, _ string) any { return &c.Internal.Secret },
		Doc: "Secret of at least 16 bytes, better 32 random ones, the same for all instances. It authenticates " +
			"their requests to each other and the answers, and certificates for TLS between them are made from " +
			"it. Two, separated by a comma, while it is changed: the first is used, both are accepted. On " +
			"loopback it may be unset; then it is derived from the id of topic `state`.",
	},
	{
		Key:  "internal.tls.cert",
		into: func(c *Config, _ string) any { return &c.Internal.TLS.Cert },
		Doc: "PEM file of the certificate chain that `internal.listen` serves, for the host of " +
			"`internal.advertise`. Unset means a certificate made from `internal.secret`. All instances do the " +
			"same.",
	},
	{
		Key:  "internal.tls.key",
		into: func(c *Config, _ string) any { return &c.Internal.TLS.Key },
		Doc:  "PEM file of its private key.",
	},
	{
		Key:  "internal.tls.ca",
		into: func(c *Config, _ string) any { return &c.Internal.TLS.CA },
		Doc: "PEM file of the certificate authorities whose certificates other instances must have. Unset " +
			"beside `internal.tls.cert` means the system's.",
	},
	{
		Key:  "auth.keys_file",
		into: func(c *Config, _ string) any { return &c.Auth.KeysFile },
		Doc:  "File of API keys, one `tenant key` a line.",
	},
	{
		Key:  "auth.oidc.issuer",
		into: func(c *Config, _ string) any { return &c.Auth.OIDC.Issuer },
		Doc:  "OpenID Connect issuer whose tokens are accepted: an https URL, http on loopback only.",
	},
	{
		Key:  "auth.oidc.audience",
		into: func(c *Config, _ string) any { return &c.Auth.OIDC.Audience },
		Doc:  "Audience a token must name.",
	},
	{
		Key: "auth.oidc.tenant_claim", Default: "tenant",
		into: func(c *Config, _ string) any { return &c.Auth.OIDC.TenantClaim },
		Doc:  "Claim of a token that names the tenant.",
	},
	{
		Key: "auth.oidc.role_claim", Default: "roles",
		into: func(c *Config, _ string) any { return &c.Auth.OIDC.RoleClaim },
		Doc: "Claim of a token with its roles (`viewer`, `support`, `reader`, `writer`, `operator`), a text or a " +
			"list. The rights of all of them count. A token without the claim has the role `reader`. A token with " +
			"the claim and none of these roles is refused.",
	},
	{
		Key: "auth.oidc.algorithms", Default: "RS256,ES256,EdDSA",
		OneOf: []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"},
		into:  func(c *Config, _ string) any { return &c.Auth.OIDC.Algorithms },
		Doc:   "Signature algorithms that are accepted, comma-separated. `none` and HMAC cannot be accepted.",
	},
	{
		Key: "auth.audit_rate", Default: "10", Min: "0.1", Max: "1000",
		into: func(c *Config, _ string) any { return &c.Auth.AuditRate },
		Doc: "How many refused attempts a second (log-in, role, another tenant's trigger) one instance " +
			"records, in bursts of ten seconds' worth. It only counts the others. Each tenant has this rate, " +
			"once more for attempts at others' triggers, and so have those without a valid credential.",
	},
	{
		Key: "audit.registers", Default: "false",
		into: func(c *Config, _ string) any { return &c.Audit.Registers },
		Doc: "Whether registers over HTTP are on topic `audit` too, by request and in batches. Each is an event on " +
			"topic `events` anyway, with its actor. A record has about 300 bytes and is kept for 400 days. No answer " +
			"waits for it, and one that the topic does not take is only counted. All other acts are always there.",
	},
	{
		Key:  "http.tls.cert",
		into: func(c *Config, _ string) any { return &c.HTTP.Cert },
		Doc:  "PEM file of the certificate chain that `listen` serves. Unset means plain HTTP, on loopback only.",
	},
	{
		Key:  "http.tls.key",
		into: func(c *Config, _ string) any { return &c.HTTP.Key },
		Doc:  "PEM file of its private key.",
	},
	{
		Key: "http.tls_elsewhere", Default: "false",
		into: func(c *Config, _ string) any { return &c.HTTP.TLSElsewhere },
		Doc:  "Set it to true if a proxy in front of `listen` ends TLS. It allows plain HTTP beyond loopback.",
	},
	{
		Key:  "http.hosts",
		into: func(c *Config, _ string) any { return &c.HTTP.Hosts },
		Doc: "Names by which callers may address `listen` and `admin.listen`, comma-separated, without port; " +
			"`*.example.com` is any name of one label before it. Always allowed: `localhost`, addresses, this " +
			"machine's own name, the names in `http.tls.cert`. A request for any other name is refused with 403, " +
			"so that no web page reaches us by a name of its own.",
	},
	{
		Key: "console.enabled", Default: "true",
		into: func(c *Config, _ string) any { return &c.Console.Enabled },
		Doc:  "Serve the web console at `/console/` of `listen`. It needs role `api`.",
	},
	{
		Key:  "console.prefix",
		into: func(c *Config, _ string) any { return &c.Console.Prefix },
		Doc: "The path that a proxy in front of `listen` takes away before it passes a request on, such as " +
			"`/tools/waterclock`. The console is then at `/tools/waterclock/console/`.",
	},
	{
		Key: "reload.interval", Default: "10s", Min: "1s", Max: "1h",
		into: func(c *Config, _ string) any { return &c.Reload.Interval },
		Doc: "How often the process looks whether files of keys, certificates or secrets have changed, or " +
			"`endpoints.<origin>.*` in the settings file. It takes what is new without closing a " +
			"connection, and with `serve` on SIGHUP too.",
	},
}}
