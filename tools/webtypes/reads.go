package main

import "slices"

// webForeign are files of types that are no part of the wire, as wire imports them.
func webForeign() map[string]string {
	return map[string]string{"Schema": "../ui/schema", "Values": "../ui/schema"}
}

// webReads are the types of what the pages beside the conversations read.
func webReads() []webType {
	return slices.Concat(webReadsOfTools(), webReadsOfGateway(), webReadsOfSettings(), webReadsOfMemory())
}

// webReadsOfTools: skills, automations and MCP servers.
func webReadsOfTools() []webType {
	const ui, set, mcp = "internal/web/subject", "internal/run/settings", "internal/tool/mcp"
	type is = map[string]string
	return []webType{
		{"Skill", ui, "taught", is{"source?": `"workspace" | "installed" | "builtin"`}},
		{"SkillProblem", "internal/core/skill", "Problem", nil},
		{"SkillChecked", ui, "Skills.draft()", is{"name": "string", "problems": "SkillProblem[]", "version": "string"}},
		{"SkillInstalled", ui, "Skills.add()", is{"name": "string", "problems": "SkillProblem[]", "skill?": "Skill"}},
		{"SkillList", ui, "Skills.list()", is{"skills": "Skill[]"}},
		{"Timing", ui, "timing", nil},
		{"Run", ui, "ran", nil},
		{"RunPage", ui, "Schedule.history()", is{"runs": "Run[]", "cursor": "string | null"}},
		{"Automation", ui, "automation", is{"kind": `"job" | "trigger"`}},
		{"AutomationList", ui, "jobs.list()", is{"automations": "Automation[]"}},
		{"Foreseen", ui, "foreseen()", is{"when": "string", "next_runs": "string[]", "cost": "string"}},
		{"Made extends Partial<Foreseen>", ui, "withSecret()", is{"automation": "Automation", "secret?": "string"}},
		{"Server", set, "serverState", is{"settings?": "Values"}},
		{"ServerList", set, "readMCP()", is{"servers": "Server[]"}},
		{"ServerSaved", set, "setServer()", is{"warnings": "string[]"}},
		{"ServerLog", set, "servers.readLog()", is{"name": "string", "log": "string"}},
		{"TrialTool", mcp, "TrialTool", nil},
		{"Trial", mcp, "Trial", nil},
		{"SkippedServer", set, "skipped", nil},
		{"ToolChoice", set, "serverTools(enabled_tools)", is{"name": "string", "tools": "TrialTool[]", "enabled_tools": "string[]"}},
		{"Taken", set, "importParsed()", is{"imported": "string[]", "skipped": "SkippedServer[]"}},
	}
}

// webReadsOfGateway: how the gateway is, and what happened there.
func webReadsOfGateway() []webType {
	const ui, auth, deliver, ledger, undo = "internal/web/subject", "internal/web/auth", "internal/chat/deliver", "internal/llm/ledger", "internal/guard/change/undo"
	type is = map[string]string
	return []webType{
		{"AskedList", ui, "Questions.open()", is{"questions": "Asked[]"}},
		{"Answered", ui, "Answered", nil},
		{"AnswerPage", ui, "Questions.history()", is{"answers": "Answered[]", "cursor": "string | null"}},
		{"Explained", "internal/guard/approve", "Explained", is{"action": `"allow" | "ask" | "deny"`}},
		{"Finding", ui, "Finding", is{"state": `"ok" | "warn" | "fail" | "skip"`}},
		{"Checkup", ui, "Checkup.read()", is{"running": "boolean", "network": "boolean", "started_at?": "string", "findings": "Finding[]"}},
		{"Pending", auth, "Pending", nil},
		{"DeviceList", ui, "Devices.list()", is{"devices": "Device[]", "waiting": "Pending[]"}},
		{"DeviceLink", ui, "Devices.link()", is{"link": "string", "image": "string", "expires_in": "number"}},
		{"PushRead", ui, "Push.read()", is{"enabled": "boolean", "key": "string", "devices": "string[]"}},
		{"PushSent", ui, "Push.test()", is{"sent": "number"}},
		{"Download", ui, "Operations.promise()", is{"url": "string"}},
		{"Restored", ui, "Conversations.restore()", is{"key": "string", "restored": "boolean"}},
		{"LogLine", ui, "entry", is{"attrs?": "[name: string, value: string][]"}},
		{"LogPage", ui, "logAnswer", nil},
		{"Unsent", deliver, "Failure", nil},
		{"ChannelStatus", deliver, "Status", nil},
		{"Pulse", "internal/core/agent", "Pulse", nil},
		{"Queue", "internal/bus/journal", "Status", nil},
		{"GatewayStatus", "internal/run/control", "Status", nil},
		{"StatusRead", ui, "Operations.status()", is{"gateway": "GatewayStatus", "memory_bytes": "number", "errors": "LogLine[]"}},
		{"Limit", ledger, "Standing", is{"unit": `"usd" | "tokens"`}},
		{"Spent", ledger, "Spent", nil},
		{"Budget", ui, "Costs.budget()", is{"today": "Spent", "month": "Spent", "limits": "Limit[]", "on_exceed": "string"}},
		{"Estimated", ui, "estimated", nil},
		{"Hit", ui, "hit", nil},
		{"Found", ui, "Search.search(hits)", is{"hits": "Hit[]", "total": "number", "at_least": "boolean", "behind": "boolean", "cursor": "string | null"}},
		{"Folders", ui, "Workspaces.list()", is{"workspaces": "{ path: string; name: string; default: boolean }[]", "default": "string"}},
		{"FilePreview", ui, "file", is{"kind": `"text" | "image" | "binary"`}},
		{"ReplayModel", ui, "modelStep", nil},
		{"ReplayTool", ui, "toolStep", nil},
		{"ReplayWait", ui, "waitStep", nil},
		{"ReplaySaid", ui, "saidStep", nil},
		{"ReplayStep", ui, "step", nil},
		{"Replayed", ui, "replayed", is{"usage?": "Usage", "notices?": "{ text: string }[]", "files?": "UndoChange[]", "receipts?": "{ call_id: string; status: string }[]"}},
		{"UndoChange", undo, "Change", nil},
		{"UndoTurn", undo, "Turn", nil},
		{"UndoSkip", undo, "Skip", nil},
		{"UndoReport", undo, "Report", nil},
		{"UndoList", ui, "Changes.list()", is{"turns": "UndoTurn[]", "total": "number"}},
		{"UndoRead", ui, "Changes.one()", is{"turn": "UndoTurn", "diff": "string", "preview?": "UndoReport"}},
	}
}

// webReadsOfSettings: channels, models and the configuration.
func webReadsOfSettings() []webType {
	const set, contract = "internal/run/settings", "internal/chat"
	type is = map[string]string
	return []webType{
		{"Platform", set, "featureState", is{"state": `"starting" | "running" | "failed" | "stopped"`}},
		{"PlatformList", set, "readFeatures()", is{"channels": "Platform[]"}},
		{"Described", set, "channels.readSchema()", is{"name": "string", "title": "string", "schema": "Schema", "needed": "string[]", "settings": "Values | null"}},
		{"PairingRequest", "internal/chat/access", "PairingRequest", nil},
		{"Person", set, "person", nil},
		{"People", set, "readPairing()", is{"pending": "PairingRequest[]", "approved": "Person[]"}},
		{"ChannelCheck", contract, "Check", nil},
		{"Checked", set, "validateChannel()", is{"valid": "boolean", "error?": "string", "identity?": "string", "checks?": "ChannelCheck[]"}},
		{"LoginStep", set, "loginStep", is{"state": `"waiting" | "done"`}},
		{"Invitation", set, "invite()", is{"url": "string", "qr_image": "string", "expires": "string"}},
		{"Used", set, "tokensUsed", nil},
		{"Day", set, "dayUsed", nil},
		{"UsedGroup", set, "groupUsed", nil},
		{"UsageRead", set, "readUsage()", is{
			"days": "Day[]", "total": "Used", "sources": "Record<string, Used>", "timezone": "string", "since": "string", "groups?": "UsedGroup[]",
		}},
		{"Version", set, "versionState", nil},
		{"VersionPage", set, "readVersions()", is{"versions": "Version[]", "cursor": "string"}},
		{"VersionDiff", set, "readDiff()", is{"diff": "string", "added": "number", "removed": "number", "hidden": "boolean"}},
		{"RawText", set, "readRaw()", is{"file": "string", "exists": "boolean", "text": "string", "base": "string"}},
		{"Issue", "internal/run/config", "Problem", nil},
		{"Conflict", set, "conflict", nil},
		{"Edited", set, "edited", nil},
		{"SetValue", set, "settingState", nil},
		{"Provider", "internal/run/provider", "State", nil},
		{"SignIn", set, "readSettings(signed_in)", is{"name": "string", "signed_in": "boolean", "account": "string", "problem": "string"}},
		{"ModelInUse", set, "readSettings(why)", is{"name": "string", "provider": "string", "why": "string", "key_source": "string", "demo": "boolean"}},
		{"SettingsRead", set, "readSettings(file)", is{
			"file": "string", "exists": "boolean", "base": "string", "version": "string", "config": "Values", "set": "SetValue[]", "model": "ModelInUse",
			"speech": "boolean", "providers": "Provider[]", "sign_ins": "SignIn[]", "warnings": "string[]", "disabled": "string[]", "problems": "string[]",
			"restart_required": "string[]",
		}},
		{"Source", set, "sourceState", is{"kind": `"server" | "variable" | "file" | "sign_in" | "known"`}},
		{"SetupRead", set, "readSetup()", is{
			"demo": "boolean", "model": "string", "provider": "string", "preset": "string", "found": "Source[]", "providers": "Source[]", "missing": "string[]",
			"daily_usd": "number", "window": "number", "base": "string",
		}},
		{"Offer", set, "offerState", is{"billing?": `"priced" | "free" | "subscription"`}},
		{"OfferList", set, "readModels()", is{"provider": "string", "models": "Offer[]", "truncated": "boolean"}},
		{"Tried", set, "tried", nil},
	}
}

// webReadsOfMemory: what is remembered.
func webReadsOfMemory() []webType {
	const ui, memory, git = "internal/web/subject", "internal/core/memory", "internal/base/gitstore"
	type is = map[string]string
	return []webType{
		{"Origin", memory, "Origin", nil},
		{"Fact", memory, "Fact", nil},
		{"FactList", ui, "memoryWhy()", is{"file": "string", "facts": "Fact[]"}},
		{"MemoryFile", ui, "memoryFile", nil},
		{"MemoryScope", memory, "ScopeView", nil},
		{"MemoryHistory", memory, "HistoryView", nil},
		{"MemoryChange", git, "Commit", nil},
		{"MemoryUndone", git, "Undone", is{"files": "string[] | null"}},
		{"MemoryRead", ui, "memoryShow()", is{
			"files": "MemoryFile[]", "scopes": "MemoryScope[]", "findings": "number", "history": "MemoryHistory", "last_change": "MemoryChange | null",
			"last_dream": "MemoryChange | null", "uncommitted_files": "number",
		}},
		{"MemoryLog", ui, "memoryLog()", is{"changes": "MemoryChange[]", "cursor": "string | null"}},
		{"MemoryDiff", ui, "memoryDiff()", is{"change": "MemoryChange | null", "files": "unknown[] | null", "diff": "string"}},
		{"Held", memory, "Held", nil},
		{"HeldList", ui, "memoryFindings()", is{"findings": "Held[]"}},
		{"Occurrence", memory, "Occurrence", nil},
		{"Forgetting", ui, "forgetting", nil},
		{"Forgotten", ui, "forget()", is{"removed": "string[]", "left": "string[]"}},
		{"DreamReport", memory, "Report", is{"files?": "unknown[]", "usage": "unknown"}},
	}
}
