package config

import "sync"

// section is a heading of the documentation with its settings.
type section struct {
	Title, Intro string
	Settings     []Setting
}

// sections is the table: every setting there is, once.
var sections = []section{
	{"Where things are", "", []Setting{
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
			OneOf: []string{"engine", "api", "history", "webhook", "push", "sms", "email"},
			into:  func(c *Config, _ string) any { return &c.Roles },
			Doc:   "Roles of this process.",
		},
		{
			Key: "group", Default: "waterclock",
			into: func(c *Config, _ string) any { return &c.Group },
			Doc: "Consumer group of the engine and prefix of its transactional ids (`<group>-<partition>`). Two " +
				"clusters on the same brokers need two groups and two prefixes.",
		},
	}},
	{"Listeners", "", []Setting{
		{
			Key: "listen", Default: "127.0.0.1:8080",
			into: func(c *Config, _ string) any { return &c.Listen },
			Doc:  "Address of the HTTP API and console. Beyond loopback it needs `auth` and TLS.",
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
				"listens on.",
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
			Doc: "Claim of a token with its roles (`reader`, `writer`, `operator`), a text or a list. The highest " +
				"counts. A token without the claim has the role `reader`. A token with the claim and none of these " +
				"roles is refused.",
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
			Key: "reload.interval", Default: "10s", Min: "1s", Max: "1h",
			into: func(c *Config, _ string) any { return &c.Reload.Interval },
			Doc: "How often the process looks whether files of keys, certificates or secrets have changed. It takes " +
				"what is new without closing a connection, and with `serve` on SIGHUP too.",
		},
	}},
	{"Connection to Kafka", "", []Setting{
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
	}},
	{"Topics", "", []Setting{
		{
			Key: "topics.prefix", Default: "waterclock.",
			into: func(c *Config, _ string) any { return &c.Topics.Prefix },
			Doc:  "Beginning of the name of every topic.",
		},
		{
			Key: "topics.partitions", Default: "16", Dev: "4", Min: "1", Max: "1024",
			into: func(c *Config, _ string) any { return &c.Topics.Partitions },
			Doc: "Partitions of every topic but `control`. The number is fixed when the topics are created; " +
				"another number later is refused.",
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
			Key: "events.retention", Default: "30d", Word: "unlimited", Min: "1h",
			into: func(c *Config, _ string) any { return &c.Events.Retention },
			Doc:  "How long topic `events` keeps its records.",
		},
	}},
	{"Engine", "", []Setting{
		{
			Key: "turn.min_interval", Default: "adaptive", Word: "adaptive", Min: "1ms", Max: "10s",
			into: func(c *Config, _ string) any { return &c.Turn.MinInterval },
			Doc: "Least time between two transactions of a partition. `adaptive` computes it from the number of " +
				"owned partitions and the commit latency.",
		},
		{
			Key: "barrier.max_hold", Default: "10s", Min: "100ms", Max: "10m",
			into: func(c *Config, _ string) any { return &c.Barrier.MaxHold },
			Doc:  "How long another producer's open transaction may hold firing.",
		},
		{
			Key: "clock.max_offset", Default: "30s", Min: "2s", Max: "3650d",
			into: func(c *Config, _ string) any { return &c.Clock.MaxOffset },
			Doc: "How far this node's clock and a broker's clock may differ. Beyond it a partition fires nothing " +
				"until a second broker agrees with the first. Raise it if the brokers are right.",
		},
		{
			Key: "misfire_after", Default: "60s", Min: "1s", Max: "1d",
			into: func(c *Config, _ string) any { return &c.MisfireAfter },
			Doc: "An occurrence that is later than nominal time + jitter + this is missed. Then the trigger's " +
				"`misfire` policy decides.",
		},
		{
			Key: "standby", Default: "0", Max: "8",
			into: func(c *Config, _ string) any { return &c.Standby },
			Doc: "How many other members keep a warm copy of each partition. One of them can then take over " +
				"without a restore. It costs them the partition's disk and part of a core.",
		},
		{
			Key: "group.protocol", Default: "classic", OneOf: []string{"classic", "consumer"},
			into: func(c *Config, _ string) any { return &c.Protocol },
			Doc: "Protocol of the engine's consumer group. `consumer` is KIP-848, for Kafka 4.3 or newer: the " +
				"brokers assign partitions and do not know standbys, and a dead member keeps its partitions for " +
				"their `group.consumer.session.timeout.ms` (45 s). All members need the same value.",
		},
		{
			Key: "hang_after", Default: "1m", Min: "10s", Max: "1h",
			into: func(c *Config, _ string) any { return &c.HangAfter },
			Doc: "If a partition stays this long at a step that needs only this machine (mostly its disk), the " +
				"process ends, so that others take over.",
		},
		{
			Key: "stop.timeout", Default: "20s", Min: "1s", Max: "10m",
			into: func(c *Config, _ string) any { return &c.Stop.Timeout },
			Doc: "How long SIGTERM may take in all, whatever the brokers do. Then the process ends as it is, and " +
				"names what had not ended. Keep it below what your supervisor allows (Kubernetes: 30 s).",
		},
		{
			Key: "catch_up.rate", Default: "10000", Word: "unlimited", Min: "1",
			into: func(c *Config, _ string) any { return &c.CatchUp.Rate },
			Doc: "How many missed occurrences a second fire, of all triggers under `fire_all` together. Each " +
				"partition gets 1/P of it. Punctual occurrences never wait for them.",
		},
		{
			Key: "catch_up.max", Default: "1000", Min: "1", Max: "100000",
			into: func(c *Config, _ string) any { return &c.CatchUp.Max },
			Doc:  "How many of one run of missed occurrences fire under `fire_all`: the latest ones.",
		},
		{
			Key: "dedup.horizon", Default: "24h", Min: "1m", Max: "30d",
			into: func(c *Config, _ string) any { return &c.Dedup.Horizon },
			Doc:  "How long a finished trigger is remembered.",
		},
		{
			Key: "dedup.max_per_partition", Default: "5000000", Min: "1000", Max: "1000000000",
			into: func(c *Config, _ string) any { return &c.Dedup.MaxPerPartition },
			Doc: "How many finished triggers a partition remembers. Beyond that it forgets the oldest first, and " +
				"counts them.",
		},
		{
			Key: "limits.payload", Default: "4KiB", Min: "0B", Max: "512KiB",
			into: func(c *Config, _ string) any { return &c.Limits.Payload },
			Doc:  "Largest payload of a register.",
		},
		{
			Key: "limits.batch_bytes", Default: "64MiB", Min: "4MiB", Max: "1GiB",
			into: func(c *Config, _ string) any { return &c.Limits.BatchBytes },
			Doc: "Most memory that one batch of commands or receipts may take after decompression, records and " +
				"headers included. A larger batch is refused as a whole, with `too_large`. A process holds the " +
				"memory of at most four such batches, and decompresses one at a time. Every other consumer " +
				"(history, API, command line) has the same bound; one such batch stops it with an error.",
		},
		{
			Key: "limits.max_pending", Default: "5000000", Word: "unlimited", Min: "1",
			into: func(c *Config, _ string) any { return &c.Limits.MaxPending },
			Doc: "Most triggers that one partition holds. A register of one more is refused with `overloaded`, " +
				"503 over HTTP.",
		},
		{
			Key: "limits.min_period", Default: "1m", Min: "1s", Max: "1d",
			into: func(c *Config, _ string) any { return &c.Limits.MinPeriod },
			Doc:  "Shortest period of a recurrence.",
		},
		{
			Key: "limits.calendars", Default: "20", Min: "1", Max: "1000",
			into: func(c *Config, _ string) any { return &c.Limits.Calendars },
			Doc: "Most calendars of its own that a tenant may have over HTTP. One more is refused with " +
				"`quota_exceeded`, 429.",
		},
		{
			Key: "limits.calendar_interval", Default: "5s", Min: "1ms", Max: "1h",
			into: func(c *Config, _ string) any { return &c.Limits.CalendarInterval },
			Doc: "Least time between two changes of a tenant's own calendars, at one instance. For each change the " +
				"engine looks at all triggers.",
		},
		{
			Key: "limits.tenant_channels", Default: "20", Min: "1", Max: "100",
			into: func(c *Config, _ string) any { return &c.Limits.TenantChannels },
			Doc: "Most channels that the registers of one tenant create, as one engine counts them since it " +
				"started. One more is refused with `unknown_channel`.",
		},
		{
			Key: "limits.reads", Default: "64", Min: "1", Max: "100000",
			into: func(c *Config, _ string) any { return &c.Limits.Reads },
			Doc: "Most costly reads (lists, forecasts, previews) that one instance answers at once. With `auth` a " +
				"tenant has at most as many as it leaves free. One more waits 2 s, then it is answered 503.",
		},
		{
			Key: "limits.read_budget", Default: "1000000", Min: "1000", Max: "1000000000",
			into: func(c *Config, _ string) any { return &c.Limits.ReadBudget },
			Doc: "Most triggers and occurrences that one forecast visits. Beyond that it is refused with " +
				"`too_large`, 413, and `looked_at` says how many it visited. A list is a " +
				"short page with a cursor instead.",
		},
		{
			Key: "limits.read_time", Default: "2s", Min: "10ms", Max: "1m",
			into: func(c *Config, _ string) any { return &c.Limits.ReadTime },
			Doc: "Most time that one forecast or list computes, on all partitions together. Reads take at most a " +
				"quarter of the processors, in turns of 5 ms by tenant; waiting for a turn does not count.",
		},
		{
			Key: "limits.page_bytes", Default: "4MiB", Min: "64KiB", Max: "1GiB",
			into: func(c *Config, _ string) any { return &c.Limits.PageBytes },
			Doc: "About how many bytes of triggers, payloads included, one page of a list has. A page that " +
				"reaches it is short and has a cursor.",
		},
		{
			Key: "limits.pages_in_flight", Default: "32MiB", Min: "1MiB", Max: "64GiB",
			into: func(c *Config, _ string) any { return &c.Limits.PagesInFlight },
			Doc: "Bytes of triggers that the pages under way of one instance hold together, until their readers have " +
				"them. A tenant has at most as much as it leaves free. Pages are shorter where little is free; where " +
				"nothing is, a list is answered 503. At most 10 % of the memory limit, whatever stands here.",
		},
		{
			Key: "limits.batches", Default: "8", Min: "1", Max: "10000",
			into: func(c *Config, _ string) any { return &c.Limits.Batches },
			Doc: "Most `:batch` requests that one instance answers at once. With `auth` a tenant has at most as many " +
				"as it leaves free. One more is answered 503.",
		},
		{
			Key: "limits.event_streams", Default: "256", Min: "1", Max: "100000",
			into: func(c *Config, _ string) any { return &c.Limits.EventStreams },
			Doc: "Most event streams (`?follow=1`) that one instance keeps open. With `auth` a tenant has at most as " +
				"many as it leaves free. One more is answered 503.",
		},
		{
			Key: "limits.body_rate", Default: "1KiB", Min: "1B", Max: "1MiB",
			into: func(c *Config, _ string) any { return &c.Limits.BodyRate },
			Doc: "Least bytes a second of a request's body, behind its first 5 seconds. A slower one is ended with " +
				"`malformed`, 408: send a batch when its lines are there.",
		},
		{
			Key: "store.cache", Default: "auto", Word: "auto", Min: "32MiB", Max: "1TiB",
			into: func(c *Config, _ string) any { return &c.Store.Cache },
			Doc: "Block cache shared by the stores of all partitions of this process. Memtables are reserved out of " +
				"it. `auto` is 30 % of the memory limit, at most 4 GiB; 256 MiB where there is no limit.",
		},
		{
			Key: "disk.reserve", Default: "256MiB", Dev: "64MiB", Max: "1TiB",
			into: func(c *Config, _ string) any { return &c.Disk.Reserve },
			Doc: "What must be free on the disk of `data_dir`, at most a tenth of it. With less, or when a write " +
				"finds no room, this process gives " +
				"its partitions to others, and takes its share again when twice as much is free. `0B`: " +
				"only a write that fails counts.",
		},
		{
			Key: "reconcile.interval", Default: "1h", Max: "168h",
			into: func(c *Config, _ string) any { return &c.Reconcile.Interval },
			Doc: "How often an engine compares the timers of its partitions with the triggers' states, and the rows " +
				"of the history with both, where it has one. It mends what differs and counts it in " +
				"`waterclock_reconcile_leaks_total`. `0s`: only `waterclock reconcile` does.",
		},
		{
			Key: "memory.limit", Default: "auto", Word: "auto", Min: "128MiB",
			into: func(c *Config, _ string) any { return &c.Memory.Limit },
			Doc: "Soft limit of this process's memory (`GOMEMLIMIT`). `auto` is 70 % of the container's limit " +
				"(cgroup v1 or v2), and none outside of one; a `GOMEMLIMIT` in the environment is used instead. " +
				"Caches, memtables, outcomes, outboxes and fetches are shares of it. From 75 % partitions read less, " +
				"from 85 % the API answers 429.",
		},
	}},
	{"Channels", "`<name>` is a channel: `[a-z0-9][a-z0-9._-]{0,48}`, not ending in `.high`.", []Setting{
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
	}},
	{
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
				Doc:  "Most commands a second. More are refused with `quota_exceeded`, 429 over HTTP.",
			},
			{
				Key: "tenants.<name>.max_pending", Default: "unlimited", Word: "unlimited", Min: "1",
				into: func(c *Config, n string) any { return &c.tenant(n).MaxPending },
				Doc: "Most pending triggers. One more is refused with `quota_exceeded`. Each partition enforces " +
					"1/P of it, so a tenant whose keys spread unevenly meets it early.",
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
					"instance, in bursts of ten seconds' worth; each such read costs at least 100. Then they are " +
					"refused with `quota_exceeded`, 429. It holds only with `auth`.",
			},
		},
	},
	{"Webhooks", "", []Setting{
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
				"separated by a comma, while one is rotated: both sign. `dev` makes one in its data directory. Unset " +
				"with `serve` means that webhooks are not signed.",
		},
		{
			Key: "webhook.concurrency", Default: "1024", Min: "1", Max: "100000",
			into: func(c *Config, _ string) any { return &c.Webhook.Concurrency },
			Doc: "Most calls at a time of one process. Where several tenants have called somebody within 10 minutes, " +
				"each has up to twice as many as there are places free, so others always find some.",
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
			Key: "worker.memory", Default: "100000", Min: "1000", Max: "10000000",
			into: func(c *Config, _ string) any { return &c.Worker.Memory },
			Doc: "Receipts of each partition that a worker of ours knows, about 35 bytes each. It skips what they " +
				"have answered, so attempts that queued up are sent once.",
		},
	}},
	notifySection,
	{
		"Endpoints",
		"`<name>` is an origin of callback URLs: scheme, host and port, such as `https://hooks.example.com`. Write " +
			"them in the file. They count for all tenants.",
		[]Setting{
			{
				Key:  "endpoints.<name>.headers",
				into: func(c *Config, n string) any { return &c.endpoint(n).Headers },
				Doc: "Headers of each request to the origin, `Name=env:VARIABLE` or `Name=file:PATH`; in YAML a map. " +
					"Values stand in the environment or in a file, never here.",
			},
			{
				Key: "endpoints.<name>.rate", Default: "unlimited", Word: "unlimited", Min: "0.001", Max: "1000000",
				into: func(c *Config, n string) any { return &c.endpoint(n).Rate },
				Doc: "Most requests a second of one process. What finds its turn more than 1 s away is postponed, " +
					"which uses up no attempt.",
			},
			{
				Key: "endpoints.<name>.paused", Default: "false",
				into: func(c *Config, n string) any { return &c.endpoint(n).Paused },
				Doc: "If true nothing is sent to the origin. What comes due is postponed, for up to 7 days since it " +
					"was first due; then it has failed.",
			},
		},
	},
	links,
	pushAndSMS,
	{"History and preferences", "`waterclock dev` keeps both in the data directory where these are unset.", []Setting{
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
			Doc:  "Its password.",
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
				"Unset: `serve` keeps none. `dev` keeps them in its data directory and does not read this.",
		},
	}},
	{"Logging and tracing", "", []Setting{
		{
			Key: "log.level", Default: "info", OneOf: []string{"debug", "info", "warn", "error"},
			into: func(c *Config, _ string) any { return &c.Log.Level },
			Doc:  "Least severe message written to standard error.",
		},
		{
			Key: "log.format", Default: "text", OneOf: []string{"text", "json"},
			into: func(c *Config, _ string) any { return &c.Log.Format },
			Doc:  "`text` for people, `json` for machines.",
		},
		{
			Key: "log.requests", Default: "false",
			into: func(c *Config, _ string) any { return &c.Log.Requests },
			Doc: "Log a line for each HTTP request: trace id, tenant, method, route, status, duration. Routes are " +
				"patterns, without ids or queries.",
		},
		{
			Key: "tracing.exporter", Default: "none", OneOf: []string{"none", "otlp"},
			into: func(c *Config, _ string) any { return &c.Tracing.Exporter },
			Doc: "Where spans go: nowhere, or to an OpenTelemetry collector over OTLP/HTTP. The standard " +
				"variables `OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`, `OTEL_SERVICE_NAME` and " +
				"`OTEL_RESOURCE_ATTRIBUTES` work in addition to these settings.",
		},
		{
			Key:  "tracing.endpoint",
			into: func(c *Config, _ string) any { return &c.Tracing.Endpoint },
			Doc: "URL of the collector, such as `http://127.0.0.1:4318`. Without a path, spans go to " +
				"`/v1/traces`. Unset means `OTEL_EXPORTER_OTLP_ENDPOINT`, and without that `https://localhost:4318`.",
		},
		{
			Key: "tracing.ratio", Default: "1", Min: "0", Max: "1",
			into: func(c *Config, _ string) any { return &c.Tracing.Ratio },
			Doc: "Share of the HTTP requests without a `traceparent` that begin a trace. For requests with a " +
				"`traceparent` the caller decides.",
		},
	}},
}

// delivered is a default for the built-in channels, whose workers answer with
// receipts and read a high lane (docs/SEMANTICS.md).
func delivered(text string) map[string]string {
	return map[string]string{"webhook": text, "push": text, "sms": text, "email": text}
}

// Settings lists the table in the order of the documentation.
func Settings() []*Setting { return rows }

var rows = func() (all []*Setting) {
	for i := range sections {
		for j := range sections[i].Settings {
			all = append(all, &sections[i].Settings[j])
		}
	}
	return all
}()

// find is the row of a key, and the name in it. An exact key is found before
// a pattern, so channels.auto_create is no channel.
func find(key string) (row *Setting, name string) {
	for _, s := range rows {
		if s.Key == key && !s.Named() {
			return s, ""
		}
	}
	for _, s := range rows {
		if name, ok := s.match(key); ok && s.Named() {
			return s, name
		}
	}
	return nil, ""
}

// channel is the settings of a channel, made with its defaults when first
// asked for.
func (c *Config) channel(name string) *Channel {
	if c.Channels == nil {
		c.Channels = map[string]*Channel{}
	}
	if c.Channels[name] == nil {
		c.Channels[name] = &Channel{}
	}
	return c.Channels[name]
}

func (c *Config) tenant(name string) *Tenant {
	if c.Tenants == nil {
		c.Tenants = map[string]*Tenant{}
	}
	if c.Tenants[name] == nil {
		c.Tenants[name] = &Tenant{}
	}
	return c.Tenants[name]
}

func (c *Config) endpoint(origin string) *Endpoint {
	if c.Endpoints == nil {
		c.Endpoints = map[string]*Endpoint{}
	}
	if c.Endpoints[origin] == nil {
		c.Endpoints[origin] = &Endpoint{}
	}
	return c.Endpoints[origin]
}

// defaultChannel is the same for every name that is not built in, and asked for with
// every register.
func (c *Config) defaultChannel(name string) *Channel {
	if !BuiltIn(name) {
		name = "any"
	}
	known := &anyChannels
	if c.dev {
		known = &devChannels
	}
	if ch, ok := known.Load(name); ok {
		return ch.(*Channel)
	}
	d := &Config{dev: c.dev}
	d.fillNamed("channels.", name)
	ch, _ := known.LoadOrStore(name, d.channel(name))
	return ch.(*Channel)
}

// anyChannels and devChannels are defaults by name, of serve and of dev. Parsing them for
// each register was more than half of what a flood of registers allocated.
var anyChannels, devChannels sync.Map

// defaultTenant is the same for every name, and asked for with every request.
func (c *Config) defaultTenant() *Tenant {
	if c.dev {
		return devTenant()
	}
	return anyTenant()
}

var anyTenant, devTenant = makeTenant(false), makeTenant(true)

func makeTenant(dev bool) func() *Tenant {
	return sync.OnceValue(func() *Tenant {
		d := &Config{dev: dev}
		d.fillNamed("tenants.", "any")
		return d.tenant("any")
	})
}
