package config

// engineSection has the settings under the heading "Engine" of docs/operations/settings.md.
var engineSection = section{"Engine", "", []Setting{
	{
		Key: "turn.min_interval", Default: "adaptive", Word: "adaptive", Min: "1ms", Max: "10s",
		into: func(c *Config, _ string) any { return &c.Turn.MinInterval },
		Doc: "Least time between two transactions of a partition. `adaptive` lets the partitions of a " +
			"process share 300 transactions a second for each broker, or down to 150 while brokers commit slowly. " +
			"In `dev` it means no pause.",
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
		Doc: "How long SIGTERM may take in all, whatever the brokers and the collector of traces do. Then the " +
			"process ends as it is, and " +
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
			"memory of at most four such batches, and decompresses one at a time, in memory that all its " +
			"consumers (and `dev`'s broker) share. Every other consumer (history, API, command line) has the " +
			"same bound; one such batch stops it with an error.",
	},
	{
		Key: "limits.max_pending", Default: "5000000", Word: "unlimited", Min: "1",
		into: func(c *Config, _ string) any { return &c.Limits.MaxPending },
		Doc: "Most triggers that one partition holds. A register of one more is refused with `overloaded`, " +
			"503 over HTTP.",
	},
	{
		Key: "limits.behind", Default: "10s", Word: "unlimited", Min: "2s", Max: "1d",
		into: func(c *Config, _ string) any { return &c.Limits.Behind },
		Doc: "How late triggers of a tenant may be on a partition while more of them fall due there than fire. " +
			"Beyond it the API refuses the tenant's registers there with `overloaded`, 429, for 5 s at a time. An " +
			"instance learns of it from the decisions that it waits for. Other commands, and commands over Kafka, " +
			"are taken.",
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
			"`too_large`, 413, and `looked_at` says how many it visited. Partitions of other instances share it, and " +
			"one that needs more than its share is counted once more, so it may visit up to twice as many. " +
			"A list is a short page with a cursor instead.",
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
			"them; other answers of 64 KiB or more count, too. A tenant has at most as much as it leaves free. Pages " +
			"are shorter where little is free; where nothing is, a list or a large trigger is answered 503. At most " +
			"its share of the memory limit, whatever stands here.",
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
		Doc: "Most event streams (`?follow=1`, `/v1/live`) that one instance keeps open. With `auth` a tenant has " +
			"at most as many as it leaves free. One more is answered 503.",
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
			"it, and a size that is set bounds them too. " +
			"`auto` is a share of the memory limit, at most 4 GiB; where there is no limit 256 MiB, up to 640 MiB " +
			"for 16 partitions and more.",
	},
	{
		Key: "store.wal", Default: "true",
		into: func(c *Config, _ string) any { return &c.Store.WAL },
		Doc: "Keep Pebble's own log of what is not yet in its sorted files. Without it a turn writes less, and " +
			"after a crash what the store lost is read from topic state again: up to four memtables a " +
			"partition. Nothing else depends on it.",
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
		Key: "reconcile.rows", Default: "50000", Min: "0", Max: "1000000000",
		into: func(c *Config, _ string) any { return &c.Reconcile.Rows },
		Doc: "Of how many triggers of a partition an engine compares the rows of the history at a time. Of more, " +
			"it takes a part each time, by a hash of the key, and comes to each once in less than twice `triggers of " +
			"the partition / reconcile.rows` intervals. `0`: of all. `waterclock reconcile` always compares all.",
	},
	{
		Key: "memory.limit", Default: "auto", Word: "auto", Min: "128MiB",
		into: func(c *Config, _ string) any { return &c.Memory.Limit },
		Doc: "Soft limit of this process's memory (`GOMEMLIMIT`). `auto` is 70 % of the container's limit " +
			"(cgroup v1 or v2), and none outside of one; a `GOMEMLIMIT` in the environment is used instead. " +
			"All roles of the process share it: caches, memtables, buffers and fetches. From 75 % partitions read " +
			"less, from 85 % the API answers 429.",
	},
}}
