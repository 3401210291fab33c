package config

// Channels are the settings common to all chat platforms and one section per
// platform.
type Channels struct {
	SendProgress          bool               `json:"sendProgress" doc:"Send the agent's intermediate messages during a turn."`
	SendToolHints         bool               `json:"sendToolHints" doc:"Send one line per tool call."`
	ShowReasoning         bool               `json:"showReasoning" doc:"Send the model's reasoning where a platform can show it."`
	SendMaxRetries        int                `json:"sendMaxRetries" min:"0" max:"10" doc:"Attempts to deliver one message."`
	TranscriptionProvider string             `json:"transcriptionProvider" doc:"Older place of transcription.provider."`
	TranscriptionLanguage string             `json:"transcriptionLanguage" doc:"Older place of transcription.language."`
	ExtractDocumentText   bool               `json:"extractDocumentText" doc:"Ignored; older versions wrote it."`
	Each                  map[string]Channel `json:"-" rest:"yes" doc:"One chat platform, by name."`
}

// Channel is one platform's section: the fields every platform has, and the
// whole section as JSON for the platform's own decoder. In that JSON keys are
// camelCase, null members are gone, numbers in lists and in fields that hold
// identifiers or credentials are strings, and references are resolved.
type Channel struct {
	Enabled            bool     `json:"enabled" doc:"Connect to this platform."`
	AllowFrom          []string `json:"allowFrom" doc:"Who may talk to the agent; * allows everyone."`
	SendProgress       *bool    `json:"sendProgress" doc:"Replaces channels.sendProgress."`
	SendToolHints      *bool    `json:"sendToolHints" doc:"Replaces channels.sendToolHints."`
	ShowReasoning      *bool    `json:"showReasoning" doc:"Replaces channels.showReasoning."`
	Owners             []string `json:"owners" doc:"Who may approve pairing and run admin commands."`
	NotifyDenied       bool     `json:"notifyDenied" doc:"Tell owners about refused senders."`
	RestartBackoffMaxS int      `json:"restartBackoffMaxS" min:"1" doc:"Longest pause between reconnects, in seconds."`
	Raw                Raw      `json:"-" rest:"yes"`
}

func defaultChannels() Channels {
	return Channels{
		SendProgress: true, ShowReasoning: true,
		SendMaxRetries: 3, TranscriptionProvider: "groq",
	}
}

func defaultChannel() Channel { return Channel{RestartBackoffMaxS: 300} }
