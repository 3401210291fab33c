package web

import (
	"fmt"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// code is the stable name of a refusal, for clients that word it themselves: in
// another language, or with a button beside it.
type code struct {
	Name   string   // such as "session_busy"
	Params []string // names of the values in it, in order
	// Format is the English sentence that Refuse is called with.
	Format string
}

// codes lists the refusals. Two sentences with one name have the same params.
func codes() []code {
	return slices.Concat(chatCodes(), workCodes(), settingsCodes(), operationCodes())
}

// chatCodes are about requests, conversations and files.
func chatCodes() []code {
	return []code{
		{Name: "internal", Format: textInternal},
		{Name: "not_allowed_by_http", Format: "nothing is changed by HTTP; send a webui_request over the socket"},
		{Name: "nothing_here", Params: []string{"path"}, Format: "there is nothing at %s"},
		{Name: "unknown_action", Params: []string{"action"}, Format: "there is no action %q"},
		{Name: "payload_type", Params: []string{"field", "type"}, Format: "the payload does not fit: %s cannot be of type %s"},
		{Name: "payload_invalid", Params: []string{"reason"}, Format: "the payload does not fit: %s"},
		{Name: "payload_invalid", Params: []string{"reason"}, Format: "the payload does not fit: %v"},
		{Name: "not_a_number", Params: []string{"field", "value"}, Format: "%s must be a whole number, not %.40q"},
		{Name: "invalid", Params: []string{"reason"}, Format: "%v"},
		{Name: "invalid", Params: []string{"reason"}, Format: "%s"},

		{Name: "question_closed", Format: "the question is not open any more, or does not have this answer; nothing was done"},
		{Name: "call_invalid", Params: []string{"reason"}, Format: "there is no such call: %s"},
		{Name: "session_missing", Format: textNoSession},
		{Name: "turn_missing", Format: "there is no such turn in this conversation"},
		{Name: "session_exists", Format: textSessionExists},
		{Name: "archive_id_missing", Format: "id is missing: say which conversation of the archive"},
		{Name: "erase_what_missing", Format: "key or id is missing: say which conversation, or which one of the archive"},
		{Name: "export_format", Params: []string{"value"}, Format: "format can be md or jsonl, not %.40q"},
		{Name: "cursor_invalid", Format: "the cursor is not one of ours"},
		{Name: "search_missing", Format: "there is no search index; the built-in tools are switched off"},
		{Name: "search_query", Params: []string{"max"}, Format: "q must have between 1 and %d bytes"},
		{Name: "time_invalid", Params: []string{"field", "value"}, Format: "%s must be a day such as 2026-05-04 or a time such as 2026-05-04T12:00:00Z, not %.40q"},
		{Name: "session_key_missing", Format: "key is missing: say which conversation"},
		{Name: "session_busy", Format: "another program works on this conversation; try again when it is done"},
		{Name: "session_running", Format: "something is still running in this conversation; stop it first"},
		{Name: "session_has_automations", Params: []string{"names"}, Format: "this conversation gets the results of %s; delete them first, or send delete_automations"},
		{Name: "context_unknown", Format: "this program cannot tell what its model is shown"},
		{Name: "direction_invalid", Params: []string{"value"}, Format: "direction can only be latest, not %.40q"},
		{Name: "page_ambiguous", Format: "only one of before, after and around can be given"},
		{Name: "state_not_object", Format: "state must be an object"},
		{Name: "state_too_large", Params: []string{"bytes"}, Format: "state is larger than %d bytes"},

		{Name: "path_missing", Format: "path is missing: say which file"},
		{Name: "probe_invalid", Format: "probe is 0 or 1"},
		{Name: "file_missing", Params: []string{"path"}, Format: "there is no file %s"},
		{Name: "file_protected", Params: []string{"path"}, Format: "%s is protected and not shown"},
		{Name: "file_outside", Params: []string{"path"}, Format: "%s lies outside of the workspace"},
		{Name: "file_unreadable", Params: []string{"path"}, Format: "%s may not be read"},
		{Name: "picture_too_large", Params: []string{"path", "kib", "max_kib"}, Format: "%s has %d KiB; pictures are shown up to %d KiB"},
	}
}

// workCodes are about jobs, file changes, costs, memory and skills.
func workCodes() []code {
	return []code{
		{Name: "job_missing", Format: textNoJob},
		{Name: "trigger_missing", Format: textNoTrigger},
		{Name: "job_protected", Format: textProtected},
		{Name: "jobs_busy", Format: "another program changes the jobs right now; try again"},
		{Name: "trigger_needs_program", Params: []string{"id"}, Format: "a trigger is set off by a program: nanobot trigger %s \"what happened\""},
		{Name: "automation_chat_missing", Format: "channel and chat_id are missing: say where the results go"},
		{Name: "automation_kind", Params: []string{"value"}, Format: "kind can be job or trigger, not %.40q"},
		{Name: "trigger_no_schedule", Format: "a trigger has a name and a chat only"},
		{Name: "job_running", Format: "the job is running already"},
		{Name: "name_empty", Format: "the name is empty"},
		{Name: "timeout_invalid", Params: []string{"max"}, Format: "timeout_seconds must be between 0, which is the configured limit, and %d"},
		{Name: "trigger_only_name", Format: "of a trigger only the name can be changed"},
		{Name: "schedule_missing", Format: "schedule needs one of every_seconds, cron and at"},
		{Name: "schedule_tz", Format: "tz goes with cron only; give at with an offset instead"},
		{Name: "schedule_every", Params: []string{"max"}, Format: "every_seconds must be between 1 and %d"},

		{Name: "undo_missing", Format: "changes to files are not kept here"},
		{Name: "undo_id_missing", Format: "id is missing: say which turn"},
		{Name: "undo_turn_missing", Format: "there is no such turn, or it is no longer kept"},
		{Name: "undo_ambiguous", Format: "several turns begin like this; send the whole id"},
		{Name: "undo_running", Format: "a command of this turn is still running; stop it first"},
		{Name: "undo_done", Params: []string{"by"}, Format: "this turn was undone already by %s"},

		{Name: "costs_missing", Format: "costs are not recorded here"},
		{Name: "message_too_large", Params: []string{"max"}, Format: "a message cannot have more than %d bytes"},
		{Name: "usage_group", Params: []string{"value"}, Format: "by can be model, provider, session, job, hour or source, not %.40q"},
		{Name: "usage_days", Params: []string{"max"}, Format: "days must be between 1 and %d"},

		{Name: "memory_missing", Format: "there is no memory here"},
		{Name: "memory_file_missing", Format: "there is no such memory file; file is USER, SOUL or MEMORY, and a scope has only MEMORY"},
		{Name: "memory_change_missing", Format: "there is no such change of the memory"},
		{Name: "memory_change_ambiguous", Format: "several changes begin like this; send the whole id"},
		{Name: "memory_change_first", Format: "this is the oldest change that is kept; there is nothing to go back to"},
		{Name: "memory_conflict", Params: []string{"files"}, Format: "the same lines changed again later in %s; undo the later change first, or go back to before this one"},
		{Name: "memory_finding_missing", Format: "there is no such finding"},
		{Name: "memory_busy", Format: "a dream is running and changes the memory; try again when it is done"},
		{Name: "memory_finding_order", Format: "the finding reads like an instruction from outside; write it into the file yourself if you want that rule"},
		{Name: "memory_text", Params: []string{"max"}, Format: "text must have between 2 characters and %d bytes"},
		{Name: "memory_too_large", Params: []string{"max"}, Format: "a memory file has at most %d bytes"},
		{Name: "memory_not_text", Format: "text must be text"},
		{Name: "memory_stale", Params: []string{"file", "version"}, Format: "%s has changed since it was read; its version is now %s"},
		{Name: "memory_credential", Params: []string{"file"}, Format: "%s holds a credential, which is not shown; edit it with nanobot memory edit"},
		{Name: "memory_preview_stale", Format: "what would be removed is not what the preview showed; look at it again"},
		{Name: "id_missing", Format: "id is missing"},

		{Name: "skill_no_catalogue", Format: "this program has no catalogue of skills; install one from a file that you got elsewhere"},
		{Name: "skill_missing", Params: []string{"name"}, Format: "there is no skill %.100q"},
		{Name: "skill_not_installed", Params: []string{"name"}, Format: "%s was not installed but comes with the program or was written in the workspace; send force to put another in its place"},
		{Name: "skill_changed", Params: []string{"name"}, Format: "%s was changed since it was installed; send force to lose the changes"},
		{Name: "skill_built_in", Params: []string{"name"}, Format: "%s is built in; leave it out with agents.defaults.disabledSkills"},
		{Name: "skill_stale", Format: "the skill has changed since it was read; look at it again"},
		{Name: "skill_third_party", Format: "the skill was installed and is not edited; install another version of it"},
		{Name: "skills_busy", Format: "another program changes the skills right now; try again"},
		{Name: "skill_force", Params: []string{"reason"}, Format: "%v; send force to do it anyway"},
		{Name: "skill_source", Format: "send either data_url, an archive, or path, a place in the workspace"},
		{Name: "data_url_invalid", Format: "data_url must be a data: URL in base64"},
		{Name: "data_url_invalid", Format: "data_url holds no base64"},
		{Name: "archive_too_large", Params: []string{"max_mib"}, Format: "the archive has more than %d MiB"},
		{Name: "file_too_large", Params: []string{"path", "max_mib"}, Format: "%s has more than %d MiB"},
		{Name: "folder_too_large", Params: []string{"max_files", "max_mib"}, Format: "the folder has more than %d files or %d MiB"},
		{Name: "file_irregular", Params: []string{"path"}, Format: "%s is a link or no regular file"},
	}
}

// settingsCodes are about settings.
func settingsCodes() []code {
	return []code{
		{Name: "sign_in_needs_key", Params: []string{"provider"}, Format: "%s has keys instead of a sign-in; give one with settings.provider.update"},
		{Name: "sign_in_missing", Params: []string{"provider", "known"}, Format: "there is no sign-in for %q; there is one for %s"},
		{Name: "login_missing", Format: "no login is under way; start one"},
		{Name: "login_no_address", Format: "this login takes no address; finish it in the browser"},
		{Name: "channel_missing", Params: []string{"name", "known"}, Format: "unknown channel %q; known channels: %s"},
		{Name: "channel_invalid", Params: []string{"name", "reason"}, Format: "channels.%s: %s"},
		{Name: "channel_invalid", Params: []string{"name", "reason"}, Format: "channels.%s: %v"},
		{Name: "channel_unconfigured", Params: []string{"name"}, Format: "channels.%s is not configured"},
		{Name: "channel_unconfigured", Params: []string{"name"}, Format: "channels.%s is not configured; use settings.channel.configure first"},
		{Name: "channel_closed", Params: []string{"name"}, Format: "channels.%s.allowFrom: no client could connect; list client ids, or \"*\" for all clients with the token"},
		{Name: "channel_lockout", Params: []string{"name"}, Format: "channels.%s: no client could change settings here; keep token, tokenIssueSecret or trustedProxyAuth, or remove them from the file by hand"},
		{Name: "channel_no_login", Params: []string{"name"}, Format: "%s needs no login: its keys stand in its settings; use settings.channel.configure"},
		{Name: "channel_no_invite", Params: []string{"name"}, Format: "%s has no links with a code; write to the bot and approve the code that it answers with"},
		{Name: "channel_not_running", Params: []string{"name"}, Format: "%s is not connected yet; try again when it is"},
		{Name: "channel_off", Params: []string{"name"}, Format: "channels.%s is not switched on"},
		{Name: "channel_of_page", Params: []string{"name"}, Format: "%s carries this page; restart the gateway instead"},
		{Name: "pairing_owner", Format: "owner belongs to approve"},
		{Name: "pairing_sender_missing", Format: "say who: sender_id"},
		{Name: "pairing_unknown", Params: []string{"sender"}, Format: "%s was not let in"},

		{Name: "mcp_missing", Params: []string{"name"}, Format: "there is no MCP server %q"},
		{Name: "mcp_invalid", Params: []string{"name", "reason"}, Format: "tools.mcpServers.%s: %v"},
		{Name: "mcp_exists", Params: []string{"name"}, Format: "there is an MCP server %q already; replace it with \"replace\": true"},
		{Name: "mcp_from_environment", Params: []string{"name"}, Format: "MCP server %q is not in the file; it comes from the environment"},
		{Name: "mcp_off", Params: []string{"name"}, Format: "MCP server %q is switched off"},
		{Name: "mcp_broken", Params: []string{"name", "reason"}, Format: "%s does not work: %s"},
		{Name: "mcp_name", Params: []string{"name"}, Format: "%q cannot be a name: letters, digits, - and _, at most 40"},
		{Name: "mcp_digest_missing", Format: "digest is missing: look at the tools with settings.mcp.test first"},
		{Name: "mcp_digest", Params: []string{"name"}, Format: "%s offers other tools than those that were shown; look at them again"},
		{Name: "mcp_link", Format: "link must be an address with name and config, such as cursor://anysphere.cursor-deeplink/mcp/install?name=NAME&config=..."},
		{Name: "mcp_servers", Format: "mcpServers must be an object with servers by name"},
		{Name: "mcp_program", Params: []string{"name"}, Format: "%s is a program that is started here; it takes keys in its env"},
		{Name: "mcp_no_login", Params: []string{"name"}, Format: "%s uses the client credentials of the configuration and needs no login"},
		{Name: "mcp_login_missing", Params: []string{"name"}, Format: "no login at %q is under way"},
		{Name: "client_id_missing", Format: "client_secret needs client_id"},
		{Name: "port_invalid", Format: "port must be between 0 and 65535"},

		{Name: "model_exists", Params: []string{"name"}, Format: "there is a model configuration %q already"},
		{Name: "model_missing", Params: []string{"name"}, Format: "there is no model configuration %q"},
		{Name: "model_delete", Format: "to delete takes a name only"},
		{Name: "model_name", Params: []string{"name"}, Format: "%q cannot be a name: letters, digits, - and _ and dots, at most 40, and not default"},
		{Name: "model_migrate", Format: "there is nothing to migrate: model presets of older files are used as they are"},
		{Name: "fallbacks_invalid", Format: "fallbacks must be a list of names of model configurations, or of objects with a model"},
		{Name: "provider_name_missing", Format: "say which provider: ?provider=NAME"},
		{Name: "provider_missing", Params: []string{"name"}, Format: "there is no provider %q"},
		{Name: "provider_missing", Params: []string{"name"}, Format: "there is no provider %q; settings.provider.create adds an endpoint of your own"},
		{Name: "provider_exists", Params: []string{"name"}, Format: "there is a provider %q already; settings.provider.update changes it"},
		{Name: "provider_address", Params: []string{"name"}, Format: "providers.%s.apiBase: an endpoint of your own needs its address"},

		{Name: "settings_not_object", Params: []string{"field"}, Format: "%s must be an object with the settings to change"},
		{Name: "settings_unusable", Params: []string{"reason"}, Format: "the settings are saved, but they cannot be used: %s"},
		{Name: "settings_uneditable", Params: []string{"reason"}, Format: "the configuration file cannot be edited: %v"},
		{Name: "settings_broken", Params: []string{"reason"}, Format: "the configuration file must be corrected first: %v"},
		{Name: "settings_not_here", Params: []string{"name"}, Format: "%s cannot be changed by this action"},
		{Name: "settings_stale", Format: "the configuration file has changed since it was read; look at the difference"},
		{Name: "settings_invalid", Params: []string{"reason"}, Format: "the text cannot be used: %s"},
		{Name: "settings_version_missing", Format: "there is no such version of the configuration, or it is no longer kept"},
		{Name: "settings_busy", Format: "another program changes the configuration file; try again"},
		{Name: "gateway_starting", Format: "the gateway is not running; try again in a moment"},
		{Name: "no_window", Format: "a gateway has no window to pick a folder in; type its path"},
		{Name: "no_cli_apps", Format: "there are no CLI apps in this program; use exec or MCP"},
	}
}

// The sentences about what refusal finds by itself.
const (
	textInternal      = "that did not work; the log says why"
	textNoSession     = "there is no such conversation"
	textSessionExists = "there is a conversation under this key; delete it first"
	textNoJob         = "there is no such job"
	textNoTrigger     = "there is no such trigger"
	textProtected     = "this job belongs to the program and cannot be changed here; see gateway.heartbeat and agents.defaults.dream in the configuration"
)

// maxParam is how much of a value a refusal repeats, in bytes.
const maxParam = 1000

// named finds the code of a sentence, and its values by name.
func named(format string, args []any) (name string, params map[string]any) {
	for _, c := range codes() {
		if c.Format != format {
			continue
		}

		for i, name := range c.Params {
			if i == len(args) {
				break
			}
			if params == nil {
				params = map[string]any{}
			}
			params[name] = param(args[i])
		}

		return c.Name, params
	}
	return "", nil
}

// param returns a value of a refusal as clients get it: a number, or a text of a
// moderate length.
func param(v any) any {
	switch v.(type) {
	case int, int64:
		return v
	}
	return text.CutBytes(text.Valid(fmt.Sprint(v)), maxParam)
}

// operationCodes are about the gateway, its log and its devices.
func operationCodes() []code {
	return []code{
		{Name: "device_gone", Format: "no device waits with these digits; another device may have answered, or the request has expired"},
		{Name: "device_missing", Format: "this device is not signed in"},
		{Name: "base_invalid", Format: "base must be the address of the page"},
		{Name: "base_local", Format: "other devices cannot use this address: set gateway.webui.publicUrl, or open the page under an address that they reach"},
		{Name: "config_refused", Params: []string{"reason"}, Format: "the new configuration is not used: %v"},
		{Name: "checks_unavailable", Format: "the checks cannot run now; try: nanobot doctor"},
		{Name: "fix_failed", Params: []string{"reason"}, Format: "this cannot be fixed: %v"},
		{Name: "finding_changed", Format: "this finding has changed; run the checks again"},
		{Name: "log_filter", Params: []string{"max"}, Format: "level can be debug, info, warn or error, and q has at most %d bytes"},
		{Name: "push_off", Format: "notifications are off: set gateway.webui.push"},
		{Name: "push_invalid", Format: "this is not a subscription of a browser"},
		{Name: "log_gone", Format: "this part of the log is gone; start again"},
	}
}
