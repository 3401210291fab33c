package config

import (
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
)

// marked adds to the schema of a setting what people have to know before they
// change it: its unit, whether it takes a restart of the gateway, whether it
// loosens what protects them.
func marked(s *jsonschema.Schema, p place) *jsonschema.Schema {
	put := func(name string, v any) {
		if s.Extra == nil {
			s.Extra = map[string]any{}
		}
		s.Extra[name] = v
	}

	path := p.dotted()
	if slices.ContainsFunc(s.Types, func(t string) bool { return t == "integer" || t == "number" }) {
		if u := unitOf(p.named()); u != "" {
			put("x-unit", u)
		}
	}

	if s.Properties == nil && Restarts(path) {
		put("x-restart", true)
	}
	if slices.Contains(dangers(), path) {
		put("x-danger", true)
	}
	return s
}

// unitOf tells the unit of a number by the last word of its name.
func unitOf(name string) string {
	start := strings.LastIndexFunc(name, unicode.IsUpper)
	for start > 0 && unicode.IsUpper(rune(name[start-1])) { // MB, USD
		start--
	}

	switch strings.ToLower(name[max(start, 0):]) {
	case "s", "sec", "seconds", "timeout":
		return "s"
	case "ms":
		return "ms"
	case "minutes":
		return "min"
	case "h", "hours":
		return "h"
	case "days":
		return "d"
	case "mb":
		return "MB"
	case "bytes":
		return "B"
	case "tokens":
		return "tokens"
	case "usd":
		return "USD"
	}

	return ""
}

// Restarts reports whether a setting is used only after a restart of the gateway.
func Restarts(path string) bool {
	top, rest, _ := strings.Cut(path, ".")
	sub, _, _ := strings.Cut(rest, ".")
	switch top {
	case "channels":
		return slices.Contains([]string{"sendProgress", "sendToolHints", "showReasoning", "sendMaxRetries"}, sub)
	case "gateway":
		return sub != "api" && sub != "cron" && sub != "heartbeat"
	}
	return false
}

// dangers returns the settings that loosen what protects the user.
func dangers() []string {
	return []string{
		"tools.restrictToWorkspace", "tools.protectConfigDir", "tools.ssrfWhitelist", "tools.ssrf.strict",
		"tools.exec.enable", "tools.exec.sandbox", "tools.exec.network", "tools.exec.allowedHosts", "tools.exec.allowedAddresses",
		"tools.exec.sandboxRwBinds", "tools.exec.allowedEnvKeys", "tools.exec.allowPatterns", "tools.exec.denyPatterns",
		"tools.approval.mode", "tools.approval.fallback", "tools.approval.rules", "tools.my.allowSet", "tools.sessions.enable",
		"tools.webuiAllowLocalServiceAccess", "tools.webuiAllowRemotePackageInstall",
		"gateway.host", "gateway.webui.enabled", "gateway.webui.hosts", "gateway.webui.publicUrl", "gateway.controlSocket",
		"api.host", "api.apiKey", "api.corsOrigins", "agents.defaults.budget.onExceed",
	}
}
