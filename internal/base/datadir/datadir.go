// Package datadir lists every name that nanobot keeps in its data folder, and
// the names of its own in a workspace. It is the only such list: the file
// tools, the sandbox, backup and restore, doctor and the docs read it.
package datadir

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// Name is a path below the data folder or the workspace, with slashes.
type Name string

// Names below the data folder.
const (
	Config      Name = "config.json"
	LastGood    Name = "config.last-good.json"
	Models      Name = "models.json"
	Pairing     Name = "pairing.json"
	Prices      Name = "prices.json"
	Skills      Name = "skills.json"
	Workspaces  Name = "workspaces.json"
	Accounts    Name = "accounts"
	Auth        Name = "auth"
	Bus         Name = "bus"
	Cache       Name = "cache"
	Channels    Name = "channels"
	Cron        Name = "cron"
	Guests      Name = "guests"
	History     Name = "history"
	Index       Name = "index"
	Logs        Name = "logs"
	Media       Name = "media"
	Memory      Name = "memory"
	Origin      Name = "origin"
	Run         Name = "run"
	Secrets     Name = "secrets"
	Sessions    Name = "sessions"
	Subagents   Name = "subagents"
	ToolResults Name = "tool-results"
	Undo        Name = "undo"
	Usage       Name = "usage"
	WebUI       Name = "webui"
	Workspace   Name = "workspace"

	Breakers     Name = Run + "/breakers.json"
	Folders      Name = Run + "/folders.json"
	GatewayFile  Name = Run + "/gateway.json"
	GatewaySock  Name = Run + "/gateway.sock"
	LoginPath    Name = Run + "/login-path.json"
	MCPTools     Name = Run + "/mcp-tools.json"
	Nonces       Name = Run + "/nonces"
	OwnerChat    Name = Run + "/owner-chat.json"
	Restart      Name = Run + "/restart.json"
	SecurityTold Name = Run + "/security-told"
	Sent         Name = Run + "/sent.json"
	Starts       Name = Run + "/starts.json"

	MCPTokens   Name = Auth + "/mcp.json"
	TriggersKey Name = Auth + "/triggers.key"

	PushKeys Name = WebUI + "/push.json"
)

// In returns the path of a name below a folder.
func (n Name) In(dir string, more ...string) string {
	return filepath.Join(append([]string{dir, filepath.FromSlash(string(n))}, more...)...)
}

// top returns the first part of a name.
func (n Name) top() Name {
	top, _, _ := strings.Cut(string(n), "/")
	return Name(top)
}

// Backup says whether a name is part of backups.
type Backup string

// Kinds of Backup.
const (
	Never       Backup = ""             // it can be made again, or means nothing elsewhere
	Always      Backup = "always"       //
	Small       Backup = "up to 50 MB"  // left out with a note if it is larger
	WithSecrets Backup = "with secrets" // only on request
)

// Access says what tools of the model and commands may do.
type Access string

// Kinds of Access.
const (
	None  Access = ""      // neither read nor write
	Read  Access = "read"  //
	Write Access = "write" //
)

// Entry describes one name.
type Entry struct {
	Name   Name
	Folder bool // a folder with all that is in it
	Mode   fs.FileMode
	Owner  string // the package that writes it; "" is another program or an older version
	Holds  string
	Backup Backup
	Access Access
	Secret bool // it may hold credentials
	Prompt bool // its text becomes part of prompts; in a workspace only
	Kept   bool // tools do not change it; in a workspace only
	// Derived state is made again when it is lost.
	Derived bool
	// Stale state describes the conversations that were here before a restore.
	// It is put aside even if the backup holds nothing in its place.
	Stale bool
}

// Data lists the data folder. Backups take the names in this order: the message
// journal comes before the conversations, because a message that is answered
// between the two is then answered again from its conversation, while the other
// order would lose it. What is not listed below a listed folder belongs to it.
func Data() []Entry {
	return []Entry{
		file(Config, "config", "the configuration, with keys", Entry{Backup: Always, Secret: true}),
		file(LastGood, "gateway", "the last configuration a gateway started with", Entry{Secret: true, Derived: true}),
		folder(Bus, "bus/journal", "messages that are not answered and delivered yet", Entry{Backup: Always, Stale: true}),
		file(Pairing, "channel", "who may write to the agent, and hashed pairing codes", Entry{Backup: Always}),
		folder(Channels, "channel", "what each chat platform remembers", Entry{Backup: Always}),
		file(OwnerChat, "gateway", "the chat the owner used last", Entry{Backup: Always}),
		file(Folders, "cli", "what the user said about working in the home folder", Entry{Backup: Always}),
		file(MCPTools, "tool/mcp", "tool descriptions of MCP servers that were accepted", Entry{Backup: Always}),
		file(Workspaces, "session", "which workspace has which id", Entry{Backup: Always, Stale: true}),
		folder(Sessions, "session", "conversations", Entry{Backup: Always, Stale: true}),
		folder(Cron, "schedule", "jobs, triggers and their runs", Entry{Backup: Always, Stale: true}),
		folder(ToolResults, "runner", "long results of tools", Entry{Backup: Always, Stale: true}),
		folder(Memory, "memory", "history, versions of the memory files (`memory.git`) and what Dream changed", Entry{Backup: Always, Stale: true}),
		folder(Subagents, "agent", "running and finished subagents", Entry{Backup: Always, Stale: true}),
		folder(Usage, "llm/ledger", "model calls and what they cost; decides about spending limits", Entry{Backup: Always}),
		file(Skills, "skill", "skills that were installed", Entry{Backup: Always}),
		file(Models, "", "your own facts about models: window, vision, thinking, tools", Entry{Backup: Always}),
		file(Prices, "llm/ledger", "prices of models; decides about spending limits", Entry{Backup: Always}),
		folder(History, "tui", "what was typed in the terminal", Entry{Backup: Always}),
		folder(WebUI, "webui", "state of web clients, signed-in devices (`devices.json`), last answers to approvals", Entry{Backup: Always}),
		file(PushKeys, "webui", "the key for notifications, and where browsers get them", Entry{Secret: true, Derived: true}),
		folder(Media, "channel", "files that were received, made or sent", Entry{Backup: Small, Access: Read}),
		folder(Origin, "origin", "which files came from outside", Entry{Backup: Always}),
		folder(Guests, "guard", "a folder for each guest and group: workspace, home, received files, undo", Entry{Backup: Always}),
		folder(Accounts, "channel", "sessions and keys of chat accounts, a folder each", Entry{Backup: WithSecrets, Secret: true}),
		folder(Auth, "llm/signin", "tokens of providers and MCP servers, the key of triggers", Entry{Backup: WithSecrets, Secret: true}),
		folder(Secrets, "keyring", "keys that were typed into a chat, and keys of the configuration", Entry{Backup: WithSecrets, Secret: true}),
		folder(Index, "session/search", "full-text index", Entry{Derived: true, Stale: true}),
		folder(Undo, "tool/undo", "what files held before the agent changed them", Entry{Stale: true}),
		folder(Cache, "guard", "caches of package managers that commands use", Entry{Derived: true}),
		folder(Logs, "cli", "logs of the gateway", Entry{Derived: true}),
		folder(Run, "gateway", "state of the running gateway, which no other process needs", Entry{Derived: true}),
		file(Breakers, "llm", "providers that failed lately", Entry{Derived: true}),
		file(GatewayFile, "daemon", "process id and address of the running gateway", Entry{Derived: true}),
		file(GatewaySock, "gateway", "control socket of the gateway", Entry{Derived: true}),
		file(LoginPath, "guard", "the PATH of the login shell, as it was read last", Entry{Derived: true}),
		file(Nonces, "api", "nonces of signed triggers of the last minutes", Entry{Derived: true}),
		file(Restart, "gateway", "the chat that asked for a restart", Entry{Derived: true}),
		file(SecurityTold, "doctor", "the start that told what is open", Entry{Derived: true}),
		file(Sent, "tool/reach", "how much turns with content from outside, guests and MCP servers have sent today", Entry{Derived: true}),
		file(Starts, "daemon", "starts and crashes of the gateway", Entry{Derived: true}),
		folder(Workspace, "", "the workspace, if none is configured elsewhere", Entry{Backup: Always, Access: Write}),

		file("secrets.json", "", "keys of an older version", Entry{Secret: true}),
		folder("whatsapp-auth", "channel/whatsapp", "WhatsApp's linked device", Entry{Backup: WithSecrets, Secret: true}),
		folder("weixin", "channel/weixin", "Weixin's login, also that of Python nanobot", Entry{Backup: WithSecrets, Secret: true}),
		folder("bridge", "", "the WhatsApp bridge of Python nanobot", Entry{}),
		folder("matrix-store", "channel/matrix", "Matrix's keys, also those of Python nanobot", Entry{Backup: WithSecrets, Secret: true}),
		folder("mochat", "channel/mochat", "how far Mochat's sessions were read, also by Python nanobot", Entry{Backup: WithSecrets, Secret: true}),
		folder("msteams", "", "Teams' state of Python nanobot", Entry{Backup: WithSecrets, Secret: true}),
	}
}

// Names of ours in a workspace.
const (
	MemoryDir Name = "memory"
	SkillsDir Name = "skills"
	// PromptsDir holds files that replace instructions of ours.
	PromptsDir Name = "prompts"
)

// inWorkspace lists what nanobot itself, or Python nanobot, keeps in a workspace. All of
// it can be made by the agent or by a command, so none of it is trusted.
func inWorkspace() []Entry {
	return []Entry{
		instruction("AGENTS.md"),
		instruction("SOUL.md"),
		instruction("USER.md"),
		instruction("TOOLS.md"),
		instruction("IDENTITY.md"),
		instruction("HEARTBEAT.md"),
		folder(MemoryDir, "memory", "what the agent remembers; part of prompts", Entry{Access: Read, Prompt: true}),
		folder(SkillsDir, "skill", "skills; part of prompts", Entry{Access: Read, Prompt: true}),
		folder(PromptsDir, "agent", "instructions that replace built-in ones; part of prompts", Entry{Access: Read, Prompt: true}),
		file("memory/history.jsonl", "memory", "a copy of the history for reading", Entry{Kept: true, Access: Read, Derived: true}),
		file("memory/.cursor", "memory", "a copy for Python nanobot", Entry{Kept: true, Access: Read, Derived: true}),
		file("memory/.dream_cursor", "memory", "a copy for Python nanobot", Entry{Kept: true, Access: Read, Derived: true}),
		folder("cron", "schedule", "a copy of the jobs for reading", Entry{Kept: true, Access: Read, Derived: true}),
		folder("triggers", "schedule", "triggers of Python nanobot", Entry{Kept: true, Access: Read}),
		folder("sessions", "session", "conversations of Python nanobot", Entry{Access: Read}),
		folder(".nanobot", "", "state of an older version", Entry{Access: Read}),
		folder(".git", "", "the user's repository, or versions that an older version kept there; they are imported once", Entry{Access: Write}),
	}
}

func file(n Name, owner, holds string, e Entry) Entry {
	e.Name = n
	e.Owner = owner
	e.Holds = holds
	e.Mode = 0o600
	return e
}

func folder(n Name, owner, holds string, e Entry) Entry {
	e.Name = n
	e.Owner = owner
	e.Holds = holds
	e.Mode = 0o700
	e.Folder = true
	return e
}

func instruction(n Name) Entry {
	return file(n, "agent", "instructions; part of prompts", Entry{Access: Read, Prompt: true})
}

// Select returns the names of the entries that a condition holds for.
func Select(entries []Entry, cond func(Entry) bool) []Name {
	var out []Name
	for _, e := range entries {
		if cond(e) {
			out = append(out, e.Name)
		}
	}
	return out
}

// Lookup returns the entry of the data folder that a path below it belongs to:
// the longest one, and for files those names that programs give while they write
// them and keep them as copies.
func Lookup(path string) (Entry, bool) {
	path = filepath.ToSlash(filepath.Clean(path))
	var best Entry
	for _, e := range Data() {
		if e.owns(path) && len(e.Name) > len(best.Name) {
			best = e
		}
	}
	return best, best.Name != ""
}

// owns reports whether a path is the entry, in it, or a copy of it.
func (e Entry) owns(path string) bool {
	name := string(e.Name)
	if path == name || e.Folder && strings.HasPrefix(path, name+"/") {
		return true
	}
	if e.Folder {
		return false
	}

	dir, base := split(name)
	pathDir, pathBase := split(path)
	if dir != pathDir {
		return false
	}

	stem := strings.TrimSuffix(base, filepath.Ext(base))
	if strings.HasPrefix(pathBase, base+".") || strings.HasPrefix(pathBase, "."+base) {
		return true
	}
	return e.Secret && strings.HasPrefix(pathBase, stem+".")
}

func split(path string) (dir, base string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i+1], path[i+1:]
}

// Own reports whether a name at the top of the data folder is one of ours. The
// names that a workspace has, too, are not: a workspace may be the data folder
// itself. Case does not count, because some disks ignore it.
func Own(top string) bool {
	e, ok := Lookup(strings.ToLower(top))
	return ok && e.Name != Workspace && e.Name != Memory && e.Name != Cron
}

// Closed returns the names at the top of the data folder that no tool may touch.
func Closed() []Name {
	return Select(Data(), func(e Entry) bool { return e.Access == None && e.Name == e.Name.top() })
}

// FollowedFiles become part of prompts, or make turns begin.
func FollowedFiles() []string { return followed(false) }

// FollowedFolders returns those whose content does.
func FollowedFolders() []string { return followed(true) }

func followed(folders bool) []string {
	var out []string
	for _, e := range inWorkspace() {
		if e.Prompt && e.Folder == folders {
			out = append(out, string(e.Name))
		}
	}
	return out
}

// WorkspaceFolders returns the folders of ours in a workspace, where people and
// projects do not work.
func WorkspaceFolders() []string {
	var out []string
	for _, e := range inWorkspace() {
		if e.Folder {
			out = append(out, string(e.Name))
		}
	}
	return out
}

// Kept returns the names in a workspace that only we write.
func Kept() []Name {
	return Select(inWorkspace(), func(e Entry) bool { return e.Kept })
}
