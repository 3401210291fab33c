package config

import "github.com/nanobot-go/nanobot/internal/base/httpsafe"

// API configures the OpenAI-compatible HTTP API.
type API struct {
	Host          string          `json:"host" format:"host" doc:"Address to listen on."`
	Port          int             `json:"port" min:"0" max:"65535" doc:"Port to listen on; 0 picks a free one."`
	Timeout       float64         `json:"timeout" min:"0" doc:"Seconds one request may take."`
	APIKey        httpsafe.Secret `json:"apiKey" doc:"Bearer key that clients must send; required unless the API listens on loopback only."`
	History       string          `json:"history" enum:"default|server|client" doc:"Who keeps the conversation: client, or server if the request names one; with default, a single message without a name continues api:default."`
	MaxConcurrent int             `json:"maxConcurrent" min:"1" doc:"Requests served at once."`
	CORSOrigins   []string        `json:"corsOrigins" doc:"Web origins allowed to call the API."`
}

// Gateway configures the long-running process.
type Gateway struct {
	Host             string    `json:"host" format:"host" doc:"Address of the health listener."`
	Port             int       `json:"port" min:"0" max:"65535" doc:"Port of the health listener; 0 picks a free one."`
	RestartMode      string    `json:"restartMode" enum:"auto|exec|spawn|exit" doc:"How /restart replaces the process: exec replaces it in place, spawn starts a new process and exits, exit ends with status 75 and relies on a service manager. auto is exit under a service manager, else exec (spawn on Windows)."`
	Heartbeat        Heartbeat `json:"heartbeat" doc:"Regular look at HEARTBEAT.md."`
	Log              Log       `json:"log" doc:"Logging."`
	Metrics          Metrics   `json:"metrics" doc:"Prometheus metrics."`
	Reload           Reload    `json:"reload" doc:"Reloading this file while running."`
	Cron             Cron      `json:"cron" doc:"Limits of scheduled jobs."`
	BootFallback     string    `json:"bootFallback" enum:"none|last-good" doc:"Start with the last valid configuration when this one is invalid."`
	ShutdownTimeoutS int       `json:"shutdownTimeoutS" min:"1" doc:"Seconds to finish work during shutdown."`
	API              bool      `json:"api" doc:"Serve the OpenAI-compatible API on the gateway's port as well."`
	ControlSocket    bool      `json:"controlSocket" doc:"Open a local control socket."`
	DesktopNotices   bool      `json:"desktopNotices" doc:"Show a desktop notification when a reminder of the terminal is due and no terminal is open."`
	WebUI            WebUI     `json:"webui" doc:"The web interface, on the gateway's port."`
}

// WebUI configures the web interface. Enabled nil means on when the listener is
// reachable from this machine only.
type WebUI struct {
	Enabled     *bool    `json:"enabled" doc:"Serve the web interface; unset means only on loopback."`
	PublicURL   string   `json:"publicUrl" doc:"Address that browsers use, such as https://bot.example/agent/, if it is another than the gateway's own."`
	Hosts       []string `json:"hosts" doc:"Further host names or addresses, with or without a port, that browsers may use."`
	SessionDays int      `json:"sessionDays" min:"1" max:"400" doc:"Days that a device stays signed in without being used."`
	Push        bool     `json:"push" doc:"Let devices ask for notifications through the push service of their browser."`
}

// Heartbeat configures the regular look at HEARTBEAT.md.
type Heartbeat struct {
	Enabled            bool   `json:"enabled" doc:"Run the heartbeat."`
	IntervalS          int    `json:"intervalS" min:"1" doc:"Seconds between heartbeats, at least 60."`
	KeepRecentMessages int    `json:"keepRecentMessages" min:"0" doc:"Ignored; accepted for Python nanobot. Each heartbeat begins without the messages of earlier ones."`
	ActiveHours        string `json:"activeHours" format:"hours" doc:"Time window such as 08:00-22:00; empty is always."`
	DedupeHours        int    `json:"dedupeHours" min:"0" doc:"Hours in which an identical notice is not repeated."`
	Model              string `json:"model" doc:"Preset or model for the check; a cheap one is enough."`
}

// Log configures logging.
type Log struct {
	Level      string            `json:"level" enum:"debug|info|warn|error" doc:"Lowest level that is logged."`
	Format     string            `json:"format" enum:"text|json" doc:"Format of a log line."`
	File       string            `json:"file" doc:"File to write to; empty is standard error."`
	MaxSizeMB  int               `json:"maxSizeMb" min:"1" doc:"Megabytes before a log file is rotated."`
	MaxFiles   int               `json:"maxFiles" min:"1" doc:"Rotated files kept."`
	Components map[string]string `json:"components" enum:"debug|info|warn|error" doc:"Log levels of components: a channel's name, or mcp."`
}

// Metrics configures the metrics endpoint. Enabled nil means on when the
// listener is reachable from this machine only.
type Metrics struct {
	Enabled *bool  `json:"enabled" doc:"Serve metrics; unset means only on loopback."`
	Path    string `json:"path" doc:"URL path."`
}

// Reload configures reloading of the file.
type Reload struct {
	Enabled    bool `json:"enabled" doc:"Reload this file when it changes."`
	DebounceMS int  `json:"debounceMs" min:"0" doc:"Milliseconds without changes before the file is reloaded."`
}

// Cron bounds scheduled jobs.
type Cron struct {
	CatchUp              string `json:"catchUp" enum:"once|none" doc:"What happens to runs missed while the gateway was stopped."`
	CatchUpWindowS       int    `json:"catchUpWindowS" min:"0" doc:"Maximum delay of a recurring run, in seconds."`
	AtCatchUpWindowS     int    `json:"atCatchUpWindowS" min:"0" doc:"Maximum delay of a one-time job, in seconds."`
	MaxConcurrent        int    `json:"maxConcurrent" min:"1" doc:"Maximum number of jobs running at once."`
	JobTimeoutS          int    `json:"jobTimeoutS" min:"1" doc:"Seconds one run may take."`
	MaxJobs              int    `json:"maxJobs" min:"1" doc:"Maximum number of jobs."`
	MinIntervalS         int    `json:"minIntervalS" min:"1" doc:"Shortest interval, in seconds."`
	MaxConsecutiveErrors int    `json:"maxConsecutiveErrors" min:"1" doc:"Consecutive failures after which a job is disabled."`
	QuietHours           string `json:"quietHours" format:"hours" doc:"Time window without runs, such as 22:00-07:00."`
}

// Transcription configures speech to text.
type Transcription struct {
	Enabled        bool   `json:"enabled" doc:"Transcribe voice messages."`
	Provider       string `json:"provider" doc:"Provider; empty uses channels.transcriptionProvider, then groq."`
	Model          string `json:"model" doc:"Model; empty uses the provider's default."`
	Language       string `json:"language" format:"language" doc:"Two or three letter language code."`
	MaxDurationSec int    `json:"maxDurationSec" min:"1" max:"600" doc:"Longest recording, in seconds."`
	MaxUploadMB    int    `json:"maxUploadMb" min:"1" max:"100" doc:"Largest recording, in megabytes."`
}

func defaultAPI() API {
	return API{Host: "127.0.0.1", Port: 8900, Timeout: 120, History: "default", MaxConcurrent: 8}
}

func defaultGateway() Gateway {
	return Gateway{
		Host: "127.0.0.1", Port: 18790, RestartMode: "auto",
		Heartbeat:    Heartbeat{Enabled: true, IntervalS: 1800, KeepRecentMessages: 8, DedupeHours: 24},
		Log:          Log{Level: "info", Format: "text", MaxSizeMB: 10, MaxFiles: 5},
		Metrics:      Metrics{Path: "/metrics"},
		Reload:       Reload{Enabled: true, DebounceMS: 300},
		BootFallback: "none", ShutdownTimeoutS: 30, API: true, ControlSocket: true, DesktopNotices: true,
		WebUI: WebUI{SessionDays: 30, Push: true},
		Cron: Cron{
			CatchUp: "once", CatchUpWindowS: 21600, AtCatchUpWindowS: 86400, MaxConcurrent: 4,
			JobTimeoutS: 900, MaxJobs: 100, MinIntervalS: 10, MaxConsecutiveErrors: 5,
		},
	}
}

func defaultTranscription() Transcription {
	return Transcription{Enabled: true, MaxDurationSec: 120, MaxUploadMB: 25}
}

// exposed reports whether the API would listen beyond this machine without a
// key, in which case it must refuse to start.
func (a API) exposed() bool { return !loopbackHost(a.Host) && a.APIKey.IsZero() }
