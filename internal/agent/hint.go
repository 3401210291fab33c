package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/text"
)

// hint names the calls about to run in one line, neighbours that look the same once.
func (t *turn) hint(calls []llm.ToolCall) string {
	var parts []string
	for i := 0; i < len(calls); {
		h := t.hintOne(calls[i])
		n := 1
		for i+n < len(calls) && t.hintOne(calls[i+n]) == h {
			n++
		}
		if n > 1 {
			h = fmt.Sprintf("%s × %d", h, n)
		}
		parts = append(parts, h)
		i += n
	}
	return strings.Join(parts, ", ")
}

func (t *turn) hintOne(c llm.ToolCall) string {
	args := map[string]any{}
	c.Arguments = t.Secrets.Redact(c.Arguments)    // before anything is cut, which would hide a part of a secret
	_ = json.Unmarshal([]byte(c.Arguments), &args) // unreadable arguments just give a shorter hint
	str := func(key string) string { s, _ := args[key].(string); return s }
	path := func() string {
		p := strings.TrimPrefix(str("path"), t.place(t.it.in).Workspace+"/")
		return text.ShortPath(p, t.Home, t.HintChars)
	}
	switch c.Name {
	case "read_file":
		return "read " + path()
	case "write_file":
		return "write " + path()
	case "edit_file", "apply_patch", "notebook_edit":
		return "edit " + path()
	case "list_dir":
		return "ls " + path()
	case "glob", "grep":
		return c.Name + ` "` + text.Ellipsis(str("pattern"), t.HintChars) + `"`
	case "exec":
		return "$ " + text.Ellipsis(firstLine(str("command"), 400), t.HintChars)
	case "web_search":
		return `search "` + text.Ellipsis(str("query"), t.HintChars) + `"`
	case "web_fetch":
		return "fetch " + text.Ellipsis(str("url"), t.HintChars)
	}
	name := c.Name
	if server, tool, ok := strings.Cut(strings.TrimPrefix(name, "mcp_"), "_"); ok && strings.HasPrefix(name, "mcp_") {
		name = server + "::" + tool
	}
	if s := firstString(c.Arguments); s != "" {
		return name + `("` + text.Ellipsis(firstLine(s, 400), t.HintChars) + `")`
	}
	return name
}

// firstString is the first string argument in the order the model wrote them.
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

func firstLine(s string, n int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return text.Ellipsis(line, n)
}
