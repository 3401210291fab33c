package config

import (
	"time"
)

// Agents holds the agent settings. The extra level is part of the file format.
type Agents struct {
	Defaults AgentDefaults `json:"defaults" doc:"Settings of the agent."`
}

// AgentDefaults are the settings of the agent. Its many fields are the file
// format of the section, which users and older versions share.
type AgentDefaults struct {
	Workspace                       string     `json:"workspace" doc:"Folder the agent works in; ~ is the home folder."`
	Model                           string     `json:"model" doc:"Model id, with an optional provider/ prefix."`
	Provider                        string     `json:"provider" doc:"Provider name, or auto to choose by model and keys."`
	ModelPreset                     string     `json:"modelPreset" doc:"Active entry of modelPresets; it replaces the model settings here."`
	MaxTokens                       int        `json:"maxTokens" min:"1" doc:"Longest answer, in tokens."`
	ContextWindowTokens             int        `json:"contextWindowTokens" min:"1" doc:"Size of the model's context window, in tokens. If it is not set, models.json next to this file and a built-in list of models are asked first."`
	ContextBlockLimit               int        `json:"contextBlockLimit" min:"0" doc:"Prompt budget in tokens; 0 derives it from the window."`
	Temperature                     float64    `json:"temperature" min:"0" max:"2" doc:"Sampling temperature."`
	FallbackModels                  []Fallback `json:"fallbackModels" doc:"Models tried in order when the first one is unavailable: preset names or objects."`
	MaxToolIterations               int        `json:"maxToolIterations" min:"1" doc:"Maximum number of model calls per turn."`
	MaxToolResultChars              int        `json:"maxToolResultChars" min:"1" doc:"Longest tool result shown to the model, in characters."`
	MaxConcurrentSubagents          int        `json:"maxConcurrentSubagents" min:"1" doc:"Maximum number of subagents running at once."`
	MaxSubagentIterations           int        `json:"maxSubagentIterations" min:"1" max:"10000" doc:"Maximum number of model requests of a subagent."`
	FailOnToolError                 bool       `json:"failOnToolError" doc:"Stop a subagent at its first tool error."`
	ProviderRetryMode               string     `json:"providerRetryMode" enum:"standard|persistent" doc:"How long a failing provider is retried."`
	ReasoningEffort                 string     `json:"reasoningEffort" enum:"|none|minimal|minimum|low|medium|high|xhigh|max|adaptive" doc:"none, low, medium, high, xhigh, max or adaptive; empty leaves it to the model."`
	ToolHintMaxLength               int        `json:"toolHintMaxLength" min:"20" max:"500" doc:"Longest tool hint shown to users, in characters."`
	Timezone                        string     `json:"timezone" doc:"IANA time zone, such as Europe/Berlin."`
	TimezoneMode                    string     `json:"timezoneMode" enum:"auto|manual" doc:"auto follows the host; setting timezone alone means manual."`
	BotName                         string     `json:"botName" doc:"Name shown in the terminal."`
	BotIcon                         string     `json:"botIcon" blank:"keep" doc:"Icon shown in the terminal; an empty text shows none."`
	UnifiedSession                  bool       `json:"unifiedSession" doc:"Share one conversation across all channels."`
	DisabledSkills                  []string   `json:"disabledSkills" doc:"Skills to leave out, by folder name."`
	IdleCompactAfterMinutes         int        `json:"idleCompactAfterMinutes" alias:"sessionTtlMinutes" min:"0" doc:"Idle minutes after which a conversation is compacted; 0 turns it off."`
	IdleCompactCheckIntervalSeconds int        `json:"idleCompactCheckIntervalSeconds" min:"0" doc:"After a start, seconds between the compactions of conversations that were already idle."`
	ConsolidationRatio              float64    `json:"consolidationRatio" min:"0.1" max:"0.95" doc:"Share of the prompt budget kept after compaction."`
	SharedMemory                    []string   `json:"sharedMemory" doc:"Group chats whose members share one memory, as channel:chat, such as telegram:-100123; in other chats, each member has a separate memory."`
	ResumeInterrupted               string     `json:"resumeInterrupted" enum:"resume|notify|off" doc:"What to do with a message that was being processed when the gateway stopped: process it again, only notify, or nothing."`
	Dream                           Dream      `json:"dream" doc:"Background consolidation of long-term memory."`
	GuestShare                      string     `json:"guestShare" doc:"Folder of the workspace, such as share, that guests and group chats can read and change; empty disables it. Its files are never trusted."`
	Budget                          Budget     `json:"budget" doc:"What may be spent."`
	Limits                          Limits     `json:"limits" doc:"Limits on concurrent work and waiting."`
}

// Dream configures the background consolidation of memory.
type Dream struct {
	Enabled       bool   `json:"enabled" doc:"Run the consolidation."`
	IntervalH     int    `json:"intervalH" min:"1" doc:"Hours between runs."`
	Cron          string `json:"cron" doc:"Cron expression that replaces the interval."`
	ModelOverride string `json:"modelOverride" doc:"Preset or model id for this work."`
	MaxBatchSize  int    `json:"maxBatchSize" min:"1" doc:"History entries per run."`
	MaxIterations int    `json:"maxIterations" min:"1" doc:"Model calls per run."`
}

// Budget bounds spending. An amount of zero means no bound. The default bounds a
// day, so that a first run cannot get expensive by accident; in a file that sets
// neither the amount nor onExceed, reaching it only warns.
type Budget struct {
	DailyUSD            float64                 `json:"dailyUsd" min:"0" doc:"US dollars per day; 0 is no limit."`
	MonthlyUSD          float64                 `json:"monthlyUsd" min:"0" doc:"US dollars per month; 0 is no limit."`
	TurnUSD             float64                 `json:"turnUsd" min:"0" doc:"US dollars one turn may cost; 0 is no limit."`
	DailyTokens         int                     `json:"dailyTokens" min:"0" doc:"Input and output tokens per day, without models on this machine; 0 is no limit."`
	UnpricedDailyTokens int                     `json:"unpricedDailyTokens" min:"0" doc:"Tokens per day for models whose price is unknown; 0 is no limit."`
	GuestShare          float64                 `json:"guestShare" min:"0" max:"1" doc:"Share of the limits that all guests and group chats together may use; 0 sets no separate limit."`
	PerGuestShare       float64                 `json:"perGuestShare" min:"0" max:"1" doc:"Share of the limits that one guest or group chat may use; 0 sets no separate limit."`
	WarnAt              []float64               `json:"warnAt" min:"0" max:"1" doc:"Shares of a limit at which to warn."`
	OnExceed            string                  `json:"onExceed" enum:"warn|stopBackground|stopAll" doc:"What happens at a limit: only warn, stop background work, or stop every call. Without a value, a limit that is not set either only warns."`
	PerSession          SourceBudget            `json:"perSession" doc:"Limits of each conversation."`
	PerSource           map[string]SourceBudget `json:"perSource" doc:"Limits per source of work: user, api, cron, heartbeat, dream, subagent."`
}

// SourceBudget bounds one source of work.
type SourceBudget struct {
	DailyUSD    float64 `json:"dailyUsd" min:"0" doc:"US dollars per day; 0 is no limit."`
	DailyTokens int     `json:"dailyTokens" min:"0" doc:"Tokens per day; 0 is no limit."`
}

// Limits bound concurrent work and waiting. Each also has the short
// environment name older versions read.
type Limits struct {
	MaxConcurrentRequests int `json:"maxConcurrentRequests" env:"NANOBOT_MAX_CONCURRENT_REQUESTS" doc:"Turns running at once; 0 or less is no limit."`
	LLMTimeoutS           int `json:"llmTimeoutS" min:"0" env:"NANOBOT_LLM_TIMEOUT_S" doc:"Seconds one model request may take; 0 is no limit."`
	FirstByteTimeoutS     int `json:"firstByteTimeoutS" min:"0" max:"3600" doc:"Seconds until the first byte of an answer; 0 is no limit. Without a value, servers on this machine have 600, and a longer streamIdleTimeoutS counts."`
	StreamIdleTimeoutS    int `json:"streamIdleTimeoutS" min:"0" max:"3600" env:"NANOBOT_STREAM_IDLE_TIMEOUT_S" doc:"Seconds a stream may stay silent; 0 is no limit. Without a value, servers on this machine have 300."`
	TurnTimeoutS          int `json:"turnTimeoutS" min:"0" doc:"Seconds one turn may take; 0 is no limit."`
	TurnTokens            int `json:"turnTokens" min:"0" doc:"Input and output tokens per turn; 0 is no limit."`
	TurnToolCalls         int `json:"turnToolCalls" min:"0" doc:"Tool calls one turn may make; 0 is no limit."`
	MaxAnswerBytes        int `json:"maxAnswerBytes" min:"4096" max:"67108864" doc:"Longest answer of a model with its reasoning, in bytes; the rest is cut off."`
}

// Preset is a named set of model settings.
type Preset struct {
	Model               string     `json:"model" required:"yes" doc:"Model id."`
	Provider            string     `json:"provider" doc:"Provider name, or auto."`
	MaxTokens           int        `json:"maxTokens" min:"1" doc:"Longest answer, in tokens."`
	ContextWindowTokens int        `json:"contextWindowTokens" min:"1" doc:"Size of the context window, in tokens."`
	Temperature         float64    `json:"temperature" min:"0" max:"2" doc:"Sampling temperature."`
	ReasoningEffort     string     `json:"reasoningEffort" enum:"|none|minimal|minimum|low|medium|high|xhigh|max|adaptive" doc:"none, low, medium, high, xhigh, max or adaptive."`
	Fallbacks           []Fallback `json:"fallbacks" doc:"Models tried in order when this one is unavailable, instead of agents.defaults.fallbackModels."`
	Label               string     `json:"label" doc:"Ignored; older versions wrote it."`
}

// Fallback is one entry of fallbackModels: the name of a preset, or settings
// of its own. A nil number is inherited from agents.defaults; the reasoning
// effort never is.
type Fallback struct {
	Preset              string   `json:"-" bare:"yes"`
	Model               string   `json:"model" doc:"Model id."`
	Provider            string   `json:"provider" doc:"Provider name, or auto."`
	MaxTokens           *int     `json:"maxTokens" min:"1" doc:"Longest answer, in tokens."`
	ContextWindowTokens *int     `json:"contextWindowTokens" min:"1" doc:"Size of the context window, in tokens."`
	Temperature         *float64 `json:"temperature" min:"0" max:"2" doc:"Sampling temperature."`
	ReasoningEffort     string   `json:"reasoningEffort" enum:"|none|minimal|minimum|low|medium|high|xhigh|max|adaptive" doc:"none, low, medium, high, xhigh, max or adaptive."`
}

func defaultAgent() AgentDefaults {
	return AgentDefaults{
		Workspace:                       "~/.nanobot/workspace",
		Model:                           "anthropic/claude-opus-4-5",
		Provider:                        "auto",
		MaxTokens:                       8192,
		ContextWindowTokens:             65536, // as in Python nanobot; a new file says more
		Temperature:                     0.1,
		MaxToolIterations:               200,
		MaxToolResultChars:              16000,
		MaxConcurrentSubagents:          3,
		MaxSubagentIterations:           15,
		FailOnToolError:                 true,
		ProviderRetryMode:               "standard",
		ToolHintMaxLength:               40,
		Timezone:                        "UTC",
		TimezoneMode:                    "auto",
		BotName:                         "nanobot",
		BotIcon:                         "🐈",
		IdleCompactCheckIntervalSeconds: 60,
		ConsolidationRatio:              0.5,
		ResumeInterrupted:               "resume",
		Dream:                           Dream{Enabled: true, IntervalH: 2, MaxBatchSize: 20, MaxIterations: 10},
		Budget: Budget{
			DailyUSD:            5,
			UnpricedDailyTokens: 5_000_000,
			GuestShare:          0.2,
			PerGuestShare:       0.1,
			WarnAt:              []float64{0.8},
			OnExceed:            "stopAll",
		},
		Limits: Limits{LLMTimeoutS: 300, FirstByteTimeoutS: 120, StreamIdleTimeoutS: 90, MaxAnswerBytes: 4 << 20},
	}
}

func defaultPreset() Preset {
	return Preset{Provider: "auto", MaxTokens: 8192, ContextWindowTokens: 200000, Temperature: 0.1}
}

func defaultFallback() Fallback { return Fallback{Provider: "auto"} }

// Location returns the time zone to show and schedule in: the host's in auto mode,
// else the configured one. UTC stands in when the zone cannot be read, which
// Load has already reported.
func (a AgentDefaults) Location() *time.Location {
	if a.TimezoneMode == "auto" {
		return time.Local
	}
	loc, err := time.LoadLocation(a.Timezone)
	if err != nil {
		return time.UTC
	}
	return loc
}
