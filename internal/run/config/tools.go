package config

import "github.com/nanobot-go/nanobot/internal/base/httpsafe"

// Tools configures what the agent may do.
type Tools struct {
	RestrictToWorkspace          bool            `json:"restrictToWorkspace" doc:"Keep files and commands inside the workspace."`
	SSRFWhitelist                []string        `json:"ssrfWhitelist" doc:"Private networks web tools may reach, as CIDR; an address alone is a network of one."`
	ProtectConfigDir             bool            `json:"protectConfigDir" doc:"Ignored: tools never have access to the folder of this file, except for the workspace and media."`
	Web                          Web             `json:"web" doc:"Searching and reading the web."`
	Exec                         Exec            `json:"exec" doc:"Running commands."`
	SSRF                         SSRF            `json:"ssrf" doc:"Which addresses requests must never reach."`
	Message                      Message         `json:"message" doc:"Sending messages to other chats."`
	File                         FileTools       `json:"file" doc:"Reading and writing files."`
	My                           My              `json:"my" doc:"Looking at and changing the agent's own settings."`
	Approval                     Approval        `json:"approval" doc:"Asking before risky calls."`
	CLIApps                      CLIApps         `json:"cliApps" doc:"Installed command-line apps."`
	ImageGeneration              ImageGeneration `json:"imageGeneration" doc:"Making pictures."`
	Sessions                     SessionTools    `json:"sessions" doc:"Looking into your other conversations and writing to them."`
	MaxSessionMessagesPerMinute  int             `json:"maxSessionMessagesPerMinute" min:"1" doc:"Messages that one conversation may send to others in a minute."`
	WebUIAllowLocalServiceAccess bool            `json:"webuiAllowLocalServiceAccess" alias:"allowLocalPreviewAccess" doc:"Ignored: the web interface does not preview local services."`
	WebUIAllowRemotePackages     bool            `json:"webuiAllowRemotePackageInstall" doc:"Not supported; only false is accepted."`
	MCPServers                   map[string]Raw  `json:"mcpServers" camel:"1" doc:"MCP servers, by name."`
}

// FileTools configures the file tools.
type FileTools struct {
	Enable     bool `json:"enable" doc:"Enable these tools."`
	StrictEdit bool `json:"strictEdit" doc:"Refuse to edit a file that has changed since the agent read it, instead of warning."`
}

// SSRF guards against addresses that lead into private networks.
type SSRF struct {
	Strict bool `json:"strict" doc:"Also refuse 198.18.0.0/15, which some VPN programs use for every host."`
}

// Message configures where the agent may write by itself.
type Message struct {
	AllowTargets []string `json:"allowTargets" doc:"Chats that the agent may write to without a question, as channel:chat, such as telegram:-100123."`
}

// SessionTools configures the tools about other conversations.
type SessionTools struct {
	Enable bool `json:"enable" doc:"Enable these tools, for the owner."`
}

// My configures the agent's view of its own settings.
type My struct {
	Enable   bool `json:"enable" doc:"Enable the tool."`
	AllowSet bool `json:"allowSet" doc:"Allow it to change settings of the session."`
}

// Web configures the web tools.
type Web struct {
	Enable    bool            `json:"enable" doc:"Enable these tools."`
	Proxy     httpsafe.Secret `json:"proxy" doc:"HTTP or SOCKS5 proxy URL."`
	UserAgent string          `json:"userAgent" doc:"User-Agent header."`
	Search    Search          `json:"search" doc:"Web search."`
	Fetch     Fetch           `json:"fetch" doc:"Reading pages."`
}

// Search configures web search.
type Search struct {
	Provider   string          `json:"provider" doc:"duckduckgo, brave, tavily, searxng, jina, kagi, exa, serper, bocha, volcengine, keenable or olostep."`
	APIKey     httpsafe.Secret `json:"apiKey" doc:"Key of the search provider."`
	BaseURL    string          `json:"baseUrl" doc:"Address of your own search server."`
	MaxResults int             `json:"maxResults" min:"1" doc:"Results per search."`
	Timeout    int             `json:"timeout" min:"1" doc:"Seconds a search may take."`
}

// Fetch configures reading of pages.
type Fetch struct {
	UseJinaReader bool `json:"useJinaReader" doc:"Read pages through r.jina.ai, which then receives every address."`
}

// Exec configures the command tool.
type Exec struct {
	Enable           bool     `json:"enable" doc:"Enable the tool."`
	Timeout          int      `json:"timeout" min:"0" doc:"Seconds a command may take; 0 is no limit. Commands that are left running have no limit."`
	PathAppend       string   `json:"pathAppend" doc:"Folders added to the end of PATH, which is that of your login shell."`
	PathPrepend      string   `json:"pathPrepend" doc:"Folders added to the front of PATH."`
	Sandbox          string   `json:"sandbox" enum:"|auto|landlock|bwrap|none" doc:"Sandbox for commands; empty is auto, and none in a file that Python nanobot wrote."`
	Network          string   `json:"network" enum:"host|proxy|none" doc:"Network access of commands in the sandbox: host allows every public host, proxy allows package hosts and hosts that you allow, none allows nothing."`
	AllowedHosts     []string `json:"allowedHosts" doc:"Hosts that commands in the sandbox may use without a question, such as example.com, *.example.com or example.com:8443."`
	AllowedAddresses []string `json:"allowedAddresses" doc:"Private addresses that commands in the sandbox may reach, each with a port, such as 192.168.1.5:5432."`
	SandboxROBinds   []string `json:"sandboxRoBinds" doc:"Additional folders that a command in the sandbox may read."`
	SandboxRWBinds   []string `json:"sandboxRwBinds" doc:"Additional folders that a command in the sandbox may change."`
	MaxMemoryMB      int      `json:"maxMemoryMB" min:"0" doc:"MiB of memory that all processes of a command may use together; 0 is 4096, or half of a small machine's."`
	MaxDiskMB        int      `json:"maxDiskMB" min:"0" doc:"MiB that a command in the sandbox may write to the disk; a turn may write twice as much. 0 is no limit."`
	AllowedEnvKeys   []string `json:"allowedEnvKeys" doc:"Environment variables passed on to commands."`
	AllowPatterns    []string `json:"allowPatterns" doc:"Commands allowed, as regular expressions."`
	DenyPatterns     []string `json:"denyPatterns" doc:"Commands refused in addition to the built-in rules."`
}

// Approval configures asking before risky calls.
type Approval struct {
	Mode     string         `json:"mode" enum:"off|ask|auto" doc:"off never asks, ask asks before every change, auto asks before risky ones."`
	TimeoutS int            `json:"timeout" min:"1" doc:"Seconds to wait for an answer."`
	Fallback string         `json:"fallback" enum:"deny|allow" doc:"Decision when no answer arrives in time."`
	Rules    []ApprovalRule `json:"rules" doc:"Exceptions, first match wins."`
}

// ApprovalRule is one exception.
type ApprovalRule struct {
	Tool   string `json:"tool" doc:"Tool name, or *."`
	Match  string `json:"match" doc:"Text the call must contain; empty is any."`
	Action string `json:"action" enum:"allow|ask|deny" doc:"What to do."`
}

// CLIApps holds what the Python version writes for installed command-line apps,
// which nanobot does not have.
type CLIApps struct {
	Enable            bool `json:"enable" doc:"Ignored: there is no tool for CLI apps; commands and skills serve for that."`
	InstallTimeout    int  `json:"installTimeout" min:"1" max:"3600" doc:"Not supported; only the default is accepted."`
	RunTimeout        int  `json:"runTimeout" min:"1" max:"600" doc:"Not supported; only the default is accepted."`
	CatalogTTLSeconds int  `json:"catalogTtlSeconds" min:"60" max:"86400" doc:"Not supported; only the default is accepted."`
}

// ImageGeneration configures making pictures.
type ImageGeneration struct {
	Enabled            bool   `json:"enabled" doc:"Enable the tool."`
	Provider           string `json:"provider" doc:"Provider name."`
	Model              string `json:"model" doc:"Model id."`
	DefaultAspectRatio string `json:"defaultAspectRatio" doc:"Default aspect ratio."`
	DefaultImageSize   string `json:"defaultImageSize" doc:"Default image size."`
	MaxImagesPerTurn   int    `json:"maxImagesPerTurn" min:"1" max:"8" doc:"Maximum number of images per turn."`
	SaveDir            string `json:"saveDir" doc:"Folder for images, below the media folder of the data folder."`
}

func defaultTools() Tools {
	return Tools{
		RestrictToWorkspace: true,
		ProtectConfigDir:    true,
		Web: Web{
			Enable: true,
			Search: Search{Provider: "duckduckgo", MaxResults: 5, Timeout: 30},
		},
		Exec:     Exec{Enable: true, Timeout: 60, Sandbox: "auto", Network: "proxy", MaxDiskMB: 2048},
		File:     FileTools{Enable: true},
		My:       My{Enable: true},
		Approval: Approval{Mode: "auto", TimeoutS: 300, Fallback: "deny"},
		CLIApps:  CLIApps{Enable: true, InstallTimeout: 300, RunTimeout: 60, CatalogTTLSeconds: 3600},
		ImageGeneration: ImageGeneration{
			Provider: "openrouter", Model: "openai/gpt-5.4-image-2", DefaultAspectRatio: "1:1",
			DefaultImageSize: "1K", MaxImagesPerTurn: 4, SaveDir: "generated",
		},
		MaxSessionMessagesPerMinute:  6,
		WebUIAllowLocalServiceAccess: true,
	}
}
