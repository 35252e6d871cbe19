package config

// endpointSection has the settings under the heading "Endpoints" of docs/operations/settings.md.
var endpointSection = section{
	"Endpoints",
	"`<name>` is an origin of callback URLs: scheme, host and port, such as `https://hooks.example.com`. Write " +
		"them in the file. They count for all tenants. The file is read again every `reload.interval`, and these " +
		"settings apply without a restart.",
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
}
