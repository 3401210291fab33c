package main

// webTypes are the types of the conversations. A new read or event needs a line here
// or in webReads; make web-types writes the files.
func webTypes() []webType {
	const ui, auth, socket = "internal/web/subject", "internal/web/auth", "internal/web/socket"
	type is = map[string]string
	return []webType{
		{"Device", auth, "Device", nil},
		{"Gateway", "internal/web/pages", "state()", is{
			"gateway": "string", "build": "string", "signed_in": "boolean", "device?": "Device", "time": "string", "encrypted": "boolean",
		}},
		{"Failure", "internal/web", "Error", is{"code?": "string", "params?": "Record<string, string>"}},
		{"LoginReply", auth, "answer", is{"state": `"in" | "pending" | "denied" | "expired"`}},
		{"Session", ui, "conversation", nil},
		{"SessionPage", ui, "Conversations.list()", is{"sessions": "Session[]", "total": "number", "cursor?": "string | null"}},
		{"SlashCommand", ui, "Command", nil},
		{"Usage", "internal/bus", "Usage", is{"prompt_tokens?": "number", "completion_tokens?": "number"}},
		{"Edit", ui, "edited", is{"status?": "string", "operation?": "string"}},
		{"Call", ui, "called", nil},
		{"Attached", ui, "Attachment", nil},
		{"Said", ui, "said", is{"role": `"user" | "assistant"`, "tool_calls?": "Call[]", "attachments?": "Attached[]"}},
		{"Turned", ui, "turned", is{"usage?": "Usage", "edits?": "Edit[]", "notices?": "{ text: string }[]", "files?": "{ path: string; what: string }[]", "receipts?": "{ call_id: string; status: string }[]"}},
		{"ThreadPage", ui, "Thread.read()", is{
			"messages": "Said[]", "turns?": "Turned[]", "total?": "number", "has_more": "boolean", "before": "number | null",
			"has_newer?": "boolean", "after?": "number | null", "seq?": "number", "subagents?": "string[]",
		}},
		{"ToolEvent", socket, "toolEvents()", is{"phase": `"start" | "end" | "error"`, "call_id": "string", "name": "string", "arguments?": "unknown"}},
		{"Detail", "internal/bus", "Detail", is{"untrusted?": "{ what: string; at: string }[]"}},
		{"Question", socket, "", is{"id": "string", "code?": "string", "options?": "string[]", "expires?": "string", "detail?": "Detail"}},
		{"Asked", "internal/core/agent", "Open", is{"outcome?": "unknown"}},
		{"Scope", "internal/guard", "Scope", nil},
		{"Goal", "internal/bus", "Goal", is{"+active": "boolean"}},
		{"Event", socket, "()", is{"error?": "unknown"}},
	}
}
