package shell

import (
	"regexp"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// On Windows commands are PowerShell, for which there is no parser here. The
// same rules are applied to words: a simple splitter that respects quotes
// finds the commands, which is coarser than the syntax tree and errs towards
// refusing.

func (g *guard) checkPowerShell(command string) *refusal {
	if !g.powerShellAllowed(command) {
		if r := g.userDenied(command, nil); r != nil {
			return r
		}
		if r := powerShellRules(command); r != nil {
			return r
		}
		if len(g.allow) > 0 {
			return notListed()
		}
	}

	lower := strings.ReplaceAll(strings.ToLower(command), "/", `\`)
	for _, p := range g.protected {
		rest := lower
		for _, root := range g.openings() {
			if root != p && under(root, p) && !strings.Contains(rest, "..") {
				rest = strings.ReplaceAll(rest, strings.ReplaceAll(strings.ToLower(root), "/", `\`)+`\`, "")
			}
		}

		if strings.Contains(rest, strings.ReplaceAll(strings.ToLower(p), "/", `\`)) {
			return deny("it names a protected path", "Work without it.")
		}
	}

	if g.restrict {
		return g.powerShellPaths(lower, strings.Contains(command, `\\`))
	}
	return nil
}

var drivePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[^a-z0-9])([a-z]:\\[^\s"'|;,)]*)`) })

// powerShellPaths looks at the command in lower case and with backslashes only;
// share says that it named a network share before, which a URL then looks like.
func (g *guard) powerShellPaths(lower string, share bool) *refusal {
	out := deny("it names a path outside the workspace", "Only paths inside "+g.workspace+" may be used.")
	if share || strings.Contains(lower, `..\`) || strings.Contains(lower, "$home") || strings.Contains(lower, "$env:userprofile") {
		return out
	}

	for _, m := range drivePath().FindAllStringSubmatch(lower, -1) {
		inside := false
		for _, root := range append([]string{g.workspace}, g.roots...) {
			root = strings.ReplaceAll(strings.ToLower(root), "/", `\`)
			inside = inside || m[1] == root || strings.HasPrefix(m[1], root+`\`)
		}
		if !inside {
			return out
		}
	}

	return nil
}

// powerShellAllowed covers only plain pipelines; anything that can compute a
// command is left to the deny rules and then refused.
func (g *guard) powerShellAllowed(command string) bool {
	if len(g.allow) == 0 || strings.ContainsAny(command, "`$(){}@<>") {
		return false
	}

	for _, segment := range powerShellSegments(command) {
		covered := false
		for _, p := range g.allow {
			covered = covered || p.covers(segment)
		}
		if !covered {
			return false
		}
	}

	return true
}

// powerShellSegments splits at ; | & and newlines outside quotes.
func powerShellSegments(command string) []string {
	var out []string
	var quote rune
	start := 0
	cut := func(i int) {
		if s := strings.TrimSpace(command[start:i]); s != "" {
			out = append(out, s)
		}
	}
	for i, r := range command {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case strings.ContainsRune(";|&\n(){}", r):
			cut(i)
			start = i + 1
		}
	}

	cut(len(command))
	return out
}

// powerShellRules returns the built-in deny list for PowerShell and cmd.
func powerShellRules(command string) *refusal {
	for _, segment := range powerShellSegments(command) {
		words := strings.Fields(strings.ToLower(strings.NewReplacer(`"`, "", "'", "", "`", "", "^", "").Replace(segment)))
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || words[0] == "cmd" || words[0] == "cmd.exe" || words[0] == "/c") {
			words = words[1:]
		}

		if len(words) == 0 {
			continue
		}

		name, args := base(words[0]), words[1:]
		switch name {
		case "remove-item", "ri", "rm", "rmdir", "rd", "del", "erase":
			if hasSwitch(args, "-rec", "-r", "-fo", "/s", "/q", "/f") {
				return &refusal{tool.DeniedPolicy, name + " with these switches removes without asking", "Remove named files one by one, or ask the user."}
			}
		case "format", "format-volume", "clear-disk", "diskpart", "initialize-disk", "remove-partition":
			return &refusal{tool.DeniedPolicy, name + " destroys the contents of a disk", askUser}
		case "shutdown", "stop-computer", "restart-computer", "reboot":
			return &refusal{tool.DeniedPolicy, name + " would stop this machine", askUser}
		case "iex", "invoke-expression":
			return &refusal{tool.DeniedPolicy, "Invoke-Expression runs text that nobody has seen", "Write the command plainly or run a script file."}
		}
	}
	return nil
}
