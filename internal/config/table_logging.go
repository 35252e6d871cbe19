package config

// loggingSection has the settings under the heading "Logging and tracing" of docs/operations/settings.md.
var loggingSection = section{"Logging and tracing", "", []Setting{
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
}}
