package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Hint says how calls of tools are shown.
type Hint struct {
	Redact    func(s string) string
	Workspace string // left off the paths in it
	Home      string // shown as ~
	Chars     int    // of a path or command
}

// Calls names the calls about to run in one line, neighbours that look the same once.
func (h Hint) Calls(calls []llm.ToolCall) string {
	var parts []string
	for i := 0; i < len(calls); {
		one := h.Call(calls[i].Name, calls[i].Arguments)
		n := 1
		for i+n < len(calls) && h.Call(calls[i+n].Name, calls[i+n].Arguments) == one {
			n++
		}

		if n > 1 {
			one = fmt.Sprintf("%s × %d", one, n)
		}

		parts = append(parts, one)
		i += n
	}

	return strings.Join(parts, ", ")
}

// Call names one call.
func (h Hint) Call(name, arguments string) string {
	args := map[string]any{}
	arguments = h.Redact(arguments)              // before anything is cut, which would hide a part of a secret
	_ = json.Unmarshal([]byte(arguments), &args) // unreadable arguments just give a shorter hint
	str := func(key string) string { s, _ := args[key].(string); return s }
	path := func() string {
		p := strings.TrimPrefix(str("path"), h.Workspace+"/")
		return text.ShortPath(p, h.Home, h.Chars)
	}
	switch name {
	case "read_file":
		return "read " + path()
	case "write_file":
		return "write " + path()
	case "edit_file", "apply_patch", "notebook_edit":
		return "edit " + path()
	case "list_dir":
		return "ls " + path()
	case "glob", "grep":
		return name + ` "` + text.Ellipsis(str("pattern"), h.Chars) + `"`
	case "exec":
		return "$ " + text.Ellipsis(text.FirstLine(str("command"), 400), h.Chars)
	case "web_search":
		return `search "` + text.Ellipsis(str("query"), h.Chars) + `"`
	case "web_fetch":
		return "fetch " + text.Ellipsis(str("url"), h.Chars)
	}

	if server, tool, ok := strings.Cut(strings.TrimPrefix(name, "mcp_"), "_"); ok && strings.HasPrefix(name, "mcp_") {
		name = server + "::" + tool
	}

	if s := firstString(arguments); s != "" {
		return name + `("` + text.Ellipsis(text.FirstLine(s, 400), h.Chars) + `")`
	}
	return name
}

// firstString returns the first string argument in the order the model wrote them.
func firstString(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return ""
	}

	for d.More() {
		if _, err := d.Token(); err != nil {
			return ""
		}

		var v any
		if d.Decode(&v) != nil {
			return ""
		}
		if s, ok := v.(string); ok && s != "" {
			return s
		}
	}

	return ""
}

// CodeBlock returns a text as Markdown shows it unchanged: between more backticks
// than it has in a row itself.
func CodeBlock(s string) string {
	longest, row := 2, 0
	for _, r := range s {
		if r != '`' {
			row = 0
			continue
		}
		row++
		longest = max(longest, row)
	}

	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + strings.TrimRight(s, "\n") + "\n" + fence
}
