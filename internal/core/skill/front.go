package skill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	maxDescription = 1024 // code points
	maxNeeds       = 32   // entries of one list of needs
)

// parse reads a skill file. It always succeeds; the notes say what was odd.
// Body is kept only for always-skills.
func parse(name, data string) Skill {
	front, body, found := split(data)
	s := Skill{Name: name}
	var fields map[string]any
	if found {
		var notes []note
		fields, notes = parseYAML(front)
		for _, n := range notes {
			s.Notes = append(s.Notes, n.String())
		}
	} else {
		s.Notes = []string{"no front matter between --- lines at the start"}
	}

	if note := oddName(name); note != "" {
		s.Notes = append(s.Notes, note)
	}
	if given := scalar(fields["name"]); given != "" && given != name {
		s.Notes = append(s.Notes, fmt.Sprintf("name is %q, but the directory's name %q counts", text.Ellipsis(given, 64), name))
	}

	s.Description = text.Label(scalar(fields["description"]), maxDescription)
	if s.Description == "" {
		s.Description = name
		s.Notes = append(s.Notes, "no description")
	}

	s.Always = truth(fields["always"])
	s.Homepage = text.Label(scalar(fields["homepage"]), 0)
	s.describe(vendor(fields["metadata"]))
	if s.Always {
		s.Body = body
	}
	return s
}

// describe takes over what the metadata block of our own name says.
func (s *Skill) describe(meta map[string]any) {
	s.Emoji = text.Label(scalar(meta["emoji"]), 0)
	s.Always = s.Always || truth(meta["always"])
	for _, name := range words(meta["os"]) {
		switch name = strings.ToLower(name); name {
		case "macos", "mac", "osx":
			name = "darwin"
		case "win32", "win":
			name = "windows"
		}
		s.OS = append(s.OS, name)
	}

	if requires, ok := meta["requires"].(map[string]any); ok {
		s.Bins, s.Env, s.Tools = words(requires["bins"]), words(requires["env"]), words(requires["tools"])
	} else if meta["requires"] != nil {
		s.Notes = append(s.Notes, "metadata: requires is not a map")
	}
}

// split separates front matter and body. Line ends become "\n", invalid UTF-8
// is replaced, outer blank lines of the body go, and a long body is cut.
func split(data string) (front, body string, found bool) {
	data = normal(data)
	body = data
	if first, rest, ok := strings.Cut(data, "\n"); ok && isFence(first) {
		for at := 0; at < min(len(rest), maxFront); {
			line, _, _ := strings.Cut(rest[at:], "\n")
			next := min(at+len(line)+1, len(rest))
			if isFence(line) || strings.TrimRight(line, " \t") == "..." {
				front = rest[:at]
				body = rest[next:]
				found = true
				break
			}

			at = next
		}
	}

	body = strings.TrimSpace(body)
	if len(body) > maxBody {
		at := maxBody
		for at > 0 && body[at]&0xC0 == 0x80 {
			at--
		}
		body = body[:at] + bodyMarker
	}

	return front, body, found
}

// normal returns a file's text in valid UTF-8 with "\n" as line end.
func normal(data string) string {
	data = text.Valid(strings.TrimPrefix(data, "\uFEFF"))
	if strings.Contains(data, "\r") {
		data = strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\r", "\n")
	}
	return data
}

func isFence(line string) bool { return strings.TrimRight(line, " \t") == "---" }

// oddName says how a name departs from what skills should be called.
func oddName(name string) string {
	odd := func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	if strings.ContainsFunc(name, odd) || strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") || strings.Contains(name, "--") {
		return "names should be lower-case letters and digits with single hyphens"
	}
	return ""
}

// vendor finds our part of the metadata field, which may also be JSON in a string.
func vendor(metadata any) map[string]any {
	if s, ok := metadata.(string); ok {
		metadata = parseFlow(s)
	}

	all, _ := metadata.(map[string]any)
	for _, key := range []string{"nanobot", "openclaw"} {
		if m, ok := all[key].(map[string]any); ok {
			return m
		}
	}
	return nil
}

// scalar is v if it is a plain value, else "".
func scalar(v any) string {
	s, _ := v.(string)
	return s
}

func truth(v any) bool {
	switch strings.ToLower(scalar(v)) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

// words makes a list of names of a list, or of one name.
func words(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}

	var names []string
	for _, item := range list {
		if name := text.Label(scalar(item), 0); name != "" && !slices.Contains(names, name) && len(names) < maxNeeds {
			names = append(names, text.Cut(name, 100))
		}
	}
	return names
}
