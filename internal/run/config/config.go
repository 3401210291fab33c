// Package config reads, checks, explains and edits config.json. It hides where
// a setting comes from: the file (JSON with comments, camelCase or snake_case,
// older layouts migrated on the fly), NANOBOT_ environment variables, ${...}
// references and command-line overrides are merged into one plain Config, and
// every value can be traced back to its source.
//
// Load makes a Loaded, which is read-only afterwards and safe for concurrent
// use. Open makes a File for edits that touch only the named path of the text.
// An unusable configuration is an *Error; the package never falls back to
// defaults in its place. Nothing here knows which providers, channels or tools
// exist: their sections are open maps or stay raw.
package config

// Config is the whole configuration after every source was merged. It is plain
// data; credentials are httpsafe.Secret or Raw, which print as "***".
type Config struct {
	Agents        Agents              `json:"agents" doc:"How the agent thinks, remembers and is limited."`
	Channels      Channels            `json:"channels" doc:"Chat platforms the gateway connects to, and how messages are sent."`
	Providers     map[string]Provider `json:"providers" names:"snake" doc:"Credentials and endpoints of model providers, by provider name. Any other name is an OpenAI-compatible endpoint of your own."`
	ModelPresets  map[string]Preset   `json:"modelPresets" doc:"Named model settings to switch between. The name default is reserved."`
	Transcription Transcription       `json:"transcription" doc:"Speech to text for voice messages."`
	API           API                 `json:"api" doc:"The OpenAI-compatible HTTP API of the serve command."`
	Gateway       Gateway             `json:"gateway" doc:"The long-running process that serves channels and schedules."`
	Tools         Tools               `json:"tools" doc:"What the agent may do, and how it is contained."`
}

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Agents:        Agents{Defaults: defaultAgent()},
		Channels:      defaultChannels(),
		Transcription: defaultTranscription(),
		API:           defaultAPI(),
		Gateway:       defaultGateway(),
		Tools:         defaultTools(),
	}
}

// NewFile returns the text of a new config.json: what should differ from the meaning
// of an absent key, so that later defaults still reach the user, and what contains
// the agent, so that it can be seen and changed. It names no sandbox, because Python
// nanobot refuses commands with a sandbox it does not know; an absent one is auto.
func NewFile() []byte {
	return []byte(`{
  "agents": {
    "defaults": {
      "contextWindowTokens": 200000,
      "idleCompactAfterMinutes": 15,
      "failOnToolError": false,
      "budget": {
        "onExceed": "stopAll"
      }
    }
  },
  "providers": {},
  "channels": {},
  "api": {
    "history": "server"
  },
  "tools": {
    "restrictToWorkspace": true,
    "exec": {
      "network": "proxy"
    },
    "web": {
      "fetch": {
        "useJinaReader": false
      }
    },
    "approval": {
      "mode": "auto"
    }
  }
}
`)
}
