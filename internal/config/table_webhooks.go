package config

// webhookSection has the settings under the heading "Webhooks" of docs/operations/settings.md.
var webhookSection = section{"Webhooks", "", []Setting{
	{
		Key:  "webhook.allow",
		into: func(c *Config, _ string) any { return &c.Webhook.Allow },
		Doc: "Origins that webhooks of every tenant may call although they are not public https: " +
			"`http://hooks.example.com`, `http://10.0.0.5:8080`. `dev` adds http and https to loopback. A listed " +
			"name may resolve to private addresses, so list only names whose DNS you trust. Set it for engines, " +
			"APIs and webhook workers alike. A URL that is not allowed is refused with `forbidden_url`.",
	},
	{
		Key: "webhook.strict", Default: "false",
		into: func(c *Config, _ string) any { return &c.Webhook.Strict },
		Doc:  "Webhooks may call only origins of `webhook.allow` and `callback_allow`, not all of public https.",
	},
	{
		Key: "webhook.secret", Secret: true,
		into: func(c *Config, _ string) any { return &c.Webhook.Secret },
		Doc: "Key of the Standard Webhooks signature: `whsec_` and base64, `env:NAME` or `file:PATH`. Two, " +
			"separated by a comma, in the setting or in the file, while one is rotated: both sign. `dev` makes one " +
			"in its data directory. Unset with `serve` means that webhooks are not signed.",
	},
	{
		Key: "webhook.concurrency", Default: "1024", Min: "1", Max: "100000",
		into: func(c *Config, _ string) any { return &c.Webhook.Concurrency },
		Doc: "Most calls at a time of one process. Where several tenants have called somebody within 10 minutes, " +
			"each has up to twice as many as there are places free; one that is alone leaves a sixteenth free. So " +
			"others always find some.",
	},
	{
		Key: "webhook.endpoint_concurrency", Default: "100", Min: "1", Max: "10000",
		into: func(c *Config, _ string) any { return &c.Webhook.PerEndpoint },
		Doc:  "Most calls at a time of one process to one endpoint: an origin as one tenant calls it.",
	},
	{
		Key: "webhook.endpoint_waiting", Default: "200", Min: "1", Max: "10000",
		into: func(c *Config, _ string) any { return &c.Webhook.Waiting },
		Doc: "Due events of one endpoint that wait in the process for one of these calls to end. The rest is " +
			"postponed, which uses up no attempt.",
	},
	{
		Key: "webhook.endpoints", Default: "10000", Min: "100", Max: "1000000",
		into: func(c *Config, _ string) any { return &c.Webhook.Endpoints },
		Doc: "Endpoints whose breaker and counts a process remembers, about 1 KiB each. Over it, the one that " +
			"was called the longest ago is forgotten, open breakers last. It is at least `webhook.concurrency`.",
	},
	{
		Key: "webhook.answer_limit", Default: "1MiB", Min: "1KiB", Max: "1GiB",
		into: func(c *Config, _ string) any { return &c.Webhook.AnswerLimit },
		Doc: "Most of an answer that is read. A longer one is no acknowledgement: the attempt is retried, code " +
			"`answer_too_large`.",
	},
	{
		Key: "webhook.breaker.failures", Default: "50", Min: "1", Max: "99",
		into: func(c *Config, _ string) any { return &c.Webhook.Breaker.Failures },
		Doc: "An endpoint's breaker opens when more than this percentage of its calls fails: time-outs, " +
			"connection errors, 5xx, 408, 429.",
	},
	{
		Key: "webhook.breaker.requests", Default: "20", Min: "1", Max: "100000",
		into: func(c *Config, _ string) any { return &c.Webhook.Breaker.Requests },
		Doc:  "Least number of calls in `webhook.breaker.window` before the breaker may open.",
	},
	{
		Key: "webhook.breaker.window", Default: "30s", Min: "1s", Max: "1h",
		into: func(c *Config, _ string) any { return &c.Webhook.Breaker.Window },
		Doc:  "Time over which the breaker counts calls.",
	},
	{
		Key: "webhook.breaker.open", Default: "1m", Min: "1s", Max: "1d",
		into: func(c *Config, _ string) any { return &c.Webhook.Breaker.Open },
		Doc: "How long an open breaker sends no calls. What comes due meanwhile is postponed, which uses up no " +
			"attempt. Then 5 calls at a time test the endpoint.",
	},
	{
		Key: "webhook.breaker.returns", Default: "1000", Min: "1", Max: "100000",
		into: func(c *Config, _ string) any { return &c.Webhook.Breaker.Returns },
		Doc: "Events a second that come back to an endpoint whose breaker was open, or that is paused or busy, " +
			"and to a tenant that had its share, in each process. Of more, the rest stays away for longer, at most " +
			"an hour.",
	},
	{
		Key: "worker.memory", Default: "100000", Min: "1000", Max: "10000000",
		into: func(c *Config, _ string) any { return &c.Worker.Memory },
		Doc: "Receipts of each partition that a worker of ours knows, about 110 bytes each. It skips what they " +
			"have answered, so attempts that queued up are sent once. All of them take at most a quarter of the " +
			"memory limit.",
	},
}}
