package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
)

// maxSecretBytes bounds what ${file:...} reads.
const maxSecretBytes = 64 << 10

// resolve replaces references in texts of the file: ${VAR}, ${VAR:-default},
// ${VAR:?text}, ${file:path}, ${keyring:name} and ${cmd:...}; $${ stands for ${. The text as
// written stays with the node. Values from elsewhere are taken literally: the shell or
// service manager has expanded them already.
func (r *reader) resolve(root *node) {
	if r.keep {
		return
	}

	optional := r.optional(root)
	var visit func(n *node, path []string)
	visit = func(n *node, path []string) {
		if n.unknown {
			return
		}

		for _, m := range n.members {
			visit(m.val, append(path, m.name))
		}

		for i, it := range n.items {
			visit(it, append(path, itoa(i)))
		}

		if n.kind != '"' || n.from.layer != LayerFile || !strings.Contains(n.text, "${") {
			return
		}

		x := expander{in: r}
		n.raw, n.text = n.text, x.expand(n.text, 0)
		for _, msg := range x.problems {
			p := r.where(n, Problem{Path: showPath(path), Message: msg, at: joinPath(path)})
			if optional(path) {
				p.Hint = "ignored, because it is not in use"
				r.warn(p)
			} else {
				r.missing = append(r.missing, p)
			}
		}
	}

	visit(root, nil)
}

type expander struct {
	in       *reader
	problems []string
}

// expand replaces the references in s. Text that looks like a reference but is
// none stays as it is.
func (x *expander) expand(s string, depth int) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 || depth > 8 {
			return b.String() + s
		}

		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}

		b.WriteString(s[:i])
		body, rest, ok := braces(s[i+2:])
		if !ok {
			return b.String() + s[i:]
		}

		if v, ok := x.reference(body, depth); ok {
			b.WriteString(v)
		} else {
			b.WriteString(s[i : len(s)-len(rest)])
		}

		s = rest
	}
}

// braces splits s at the } that matches a { before it.
func braces(s string) (body, rest string, ok bool) {
	depth := 1
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}

	return "", "", false
}

// reference resolves what stands between the braces; ok is false when that is
// no reference at all.
func (x *expander) reference(body string, depth int) (string, bool) {
	name, arg, special := strings.Cut(body, ":")
	switch {
	case !envName(name):
		return "", false
	case !special:
		v, ok := x.in.lookup(name)
		if !ok {
			x.problems = append(x.problems, "environment variable "+name+" is not set")
		}
		return v, true

	case strings.HasPrefix(arg, "-"):
		if v, _ := x.in.lookup(name); v != "" {
			return v, true
		}
		return x.expand(arg[1:], depth+1), true

	case strings.HasPrefix(arg, "?"):
		v, _ := x.in.lookup(name)
		if v == "" {
			msg := "environment variable " + name + " is not set"
			if arg != "?" {
				msg += ": " + arg[1:]
			}
			x.problems = append(x.problems, msg)
		}

		return v, true

	case name == "file":
		return x.secretFile(arg), true
	case name == "keyring":
		return x.key(arg), true
	case name == "cmd":
		return x.command(arg), true
	}

	return "", false
}

func envName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// secretFile reads a mounted secret. Line ends at the end are not part of it.
func (x *expander) secretFile(path string) string {
	path = expandHome(path, x.in.home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(x.in.doc.file), path)
	}

	info, err := os.Stat(path)
	switch {
	case err != nil:
		x.problems = append(x.problems, "the file of ${file:...} cannot be read: "+reason(err))
		return ""
	case !info.Mode().IsRegular() || info.Size() > maxSecretBytes:
		x.problems = append(x.problems, "the file of ${file:...} is not a regular file of at most 64 KiB")
		return ""
	}

	b, err := os.ReadFile(path)
	if err != nil {
		x.problems = append(x.problems, "the file of ${file:...} cannot be read: "+reason(err))
		return ""
	}
	return strings.TrimRight(string(b), "\r\n")
}

// key asks for a stored key. The keyring is opened with the first reference, so
// that a configuration without one costs nothing, and once, so that one that
// does not answer is not waited for again.
func (x *expander) key(name string) string {
	if x.in.ring == nil {
		x.in.ring = keyring.Open(keyring.Options{
			DataDir: filepath.Dir(x.in.doc.file),
			Getenv:  func(name string) string { v, _ := x.in.lookup(name); return v },
		})
	}

	value, err := x.in.ring.Get(context.Background(), name) // the ring bounds it
	if err != nil {
		x.problems = append(x.problems, err.Error())
	}
	return value
}

// optional returns a test for paths whose missing references are not a reason
// to stop: channels that are off, and providers nothing points at. With
// provider auto that is only certain when the model names a provider that has
// credentials.
func (r *reader) optional(root *node) func(path []string) bool {
	used := r.usedProviders(root)
	return func(path []string) bool {
		if len(path) < 3 {
			return false
		}

		switch path[0] {
		case "channels":
			return !channelOn(root.get("channels").get(path[1]))
		case "providers":
			return used != nil && !slices.Contains(used, path[1])
		}
		return false
	}
}

func channelOn(n *node) bool {
	if n == nil {
		return false
	}
	if n.kind == '[' {
		return slices.ContainsFunc(n.items, channelOn)
	}

	on := n.get("enabled")
	if on == nil {
		return false
	}

	b, ok := boolOf(on)
	return b || !ok
}

// usedProviders lists the providers the settings point at, or nil when that
// cannot be told.
func (r *reader) usedProviders(root *node) []string {
	var used []string
	agent := root.get("agents").get("defaults")
	add := func(n *node) bool {
		provider := text(n.get("provider"))
		if provider != "" && provider != "auto" {
			used = append(used, snake(provider))
			return true
		}

		prefix, _, ok := strings.Cut(text(n.get("model")), "/")
		entry := root.get("providers").get(snake(prefix))
		if ok && entry != nil && text(entry.get("apiKey"))+text(entry.get("apiBase")) != "" {
			used = append(used, snake(prefix))
			return true
		}
		return false
	}

	sources := []*node{agent}
	if presets := root.get("modelPresets"); presets != nil {
		if active := presets.get(text(agent.get("modelPreset"))); active != nil {
			sources[0] = active
		}
		for _, m := range presets.members {
			sources = append(sources, m.val)
		}
	}

	if f := agent.get("fallbackModels"); f != nil {
		for _, it := range f.items {
			if it.kind == '{' {
				sources = append(sources, it)
			}
		}
	}

	for _, n := range sources {
		if !add(n) {
			return nil
		}
	}

	for _, n := range []*node{root.get("transcription").get("provider"), root.get("tools").get("imageGeneration").get("provider")} {
		if s := text(n); s != "" {
			used = append(used, snake(s))
		}
	}
	return used
}

func text(n *node) string {
	if n == nil || n.kind != '"' {
		return ""
	}
	return n.text
}
