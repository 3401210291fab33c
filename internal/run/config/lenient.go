package config

import (
	"errors"
	"slices"
	"strings"
)

// maxDisabled bounds how often a file is read again without what was wrong.
const maxDisabled = 4

// joinPath keeps a path in a comparable form.
func joinPath(parts []string) string { return strings.Join(parts, "\x00") }

// optional returns the section around a setting that the program can do without and
// whose absence makes nothing less safe: a chat platform, an MCP server, a
// model preset, the voice settings. Empty means there is none.
func optional(at string) []string {
	parts := strings.Split(at, "\x00")
	for _, family := range [][]string{{"channels"}, {"tools", "mcpServers"}, {"modelPresets"}} {
		n := len(family)
		if len(parts) > n && slices.Equal(parts[:n], family) {
			return parts[:n+1]
		}
	}

	if parts[0] == "transcription" {
		return parts[:1]
	}
	return nil
}

// disable notes which sections to leave out because of err. False means that
// something else is wrong as well.
func (l *Loaded) disable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Issues) == 0 {
		return false
	}

	for _, p := range e.Issues {
		if p.Env != "" || optional(p.at) == nil {
			return false
		}
	}

	l.Disabled = append(l.Disabled, e.Issues...)
	return true
}

// remove takes the member at path away.
func (n *node) remove(path []string) {
	for len(path) > 1 && n != nil {
		n, path = n.get(path[0]), path[1:]
	}
	if n != nil && len(path) == 1 {
		n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.name == path[0] })
	}
}
