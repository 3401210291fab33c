package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Severity of a finding.
type Severity string

// The severities, worst first.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// severities lists them, worst first.
func severities() []Severity { return []Severity{Critical, High, Medium, Low} }

// Check is one look at the protection. A check with Severity "" found nothing.
type Check struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity,omitempty"`
	Detail   string   `json:"detail"`        // what is the case
	Fix      string   `json:"fix,omitempty"` // how to close it, for a person

	// Set is the setting that closes it, Mode the permissions and Do anything
	// else, for --fix; empty when a person has to decide.
	Set  map[string]string               `json:"-"`
	Mode map[string]fs.FileMode          `json:"-"`
	Do   func(ctx context.Context) error `json:"-"`
}

// Fixable reports whether the check can be closed without a decision.
func (c Check) Fixable() bool { return c.Severity != "" && (len(c.Set)+len(c.Mode) > 0 || c.Do != nil) }

// SecurityReport is the effective protection and what is open.
type SecurityReport struct {
	Level  string   `json:"level"` // in words
	Checks []Check  `json:"checks"`
	Notes  []string `json:"notes,omitempty"` // what stays possible by design
}

// Findings returns the checks that found something, worst first.
func (r SecurityReport) Findings() []Check {
	found := slices.DeleteFunc(slices.Clone(r.Checks), func(c Check) bool { return c.Severity == "" })
	slices.SortStableFunc(found, func(a, b Check) int {
		return cmp.Compare(slices.Index(severities(), a.Severity), slices.Index(severities(), b.Severity))
	})
	return found
}

// inspection collects checks.
type inspection struct {
	l   *config.Loaded
	p   guard.Posture
	ws  string
	out []Check
}

// Security looks at the protection that is in force. It changes nothing.
func Security(ctx context.Context, o app.Options) (SecurityReport, error) {
	l, ws, err := app.Load(&o)
	if err != nil {
		return SecurityReport{}, err
	}

	i := &inspection{l: l, p: app.Posture(l), ws: ws}
	level := i.sandbox(ctx)
	i.reach()
	i.approval()
	i.files()
	i.secretsAt(o.Env)
	i.sessions(ctx)
	i.network()
	i.servers()
	i.people()
	return SecurityReport{Level: level, Checks: i.out, Notes: i.notes()}, nil
}

func (i *inspection) ok(id, detail string) { i.out = append(i.out, Check{ID: id, Detail: detail}) }

func (i *inspection) found(c Check) { i.out = append(i.out, c) }

// check adds a finding when bad, else the good news.
func (i *inspection) check(bad bool, good string, c Check) {
	if bad {
		i.found(c)
		return
	}
	i.ok(c.ID, good)
}

// sandbox looks at what holds commands and returns the level of protection.
func (i *inspection) sandbox(ctx context.Context) string {
	const id = "exec.sandbox"
	switch {
	case !i.l.Config.Tools.Exec.Enable:
		i.ok(id, "commands are disabled")
		return "no commands"
	case i.p.Sandbox == sandbox.None:
		return i.noSandbox(ctx, id)
	}

	box, err := sandbox.Open(ctx, sandbox.Options{Mode: i.p.Sandbox})
	if err != nil {
		i.ok(id, fmt.Sprintf("commands do not run, because the sandbox cannot be used: %v", err))
		return "no commands"
	}

	l := box.Level()
	i.ok(id, l.String())
	i.check(!l.Seccomp, "system calls are filtered", Check{
		ID: "exec.seccomp", Severity: Medium, Detail: "system calls of commands are not filtered on this machine",
		Fix: "use a kernel with seccomp filters",
	})
	i.check(!l.PIDNS && l.LandlockABI < 6, "commands cannot reach other processes", Check{
		ID: "exec.processes", Severity: Medium, Detail: "commands can see and signal other processes of your user",
		Fix: "allow unprivileged user namespaces, or use kernel 6.12 or newer",
	})
	return l.String()
}

// noSandbox names what commands without a sandbox can do, and closes it with
// the strongest that this machine has.
func (i *inspection) noSandbox(ctx context.Context, id string) string {
	set := map[string]string{"tools.exec.sandbox": "auto", "tools.exec.network": "proxy"}
	fix := "set tools.exec.sandbox to auto and tools.exec.network to proxy"
	switch l := sandbox.Probe(ctx, sandbox.Options{Mode: sandbox.Auto}); {
	case l.Mode == sandbox.Auto && len(l.Missing) > 0 && !l.MountNS && l.LandlockABI == 0:
		set = nil // then commands would not run at all
		fix = "there is no sandbox for this machine (" + strings.Join(l.Missing, "; ") + "); set tools.exec.enable to false, or run nanobot as a dedicated user"
	case !l.NetNS:
		set["tools.exec.network"] = "none"
		fix = "set tools.exec.sandbox to auto and tools.exec.network to none"
	}

	if _, err := sandbox.Open(ctx, sandbox.Options{Mode: sandbox.Hide}); err != nil {
		i.found(Check{
			ID: id, Severity: Critical, Fix: fix, Set: set,
			Detail: "commands run with all rights of your user, can read your keys, and can change the records of spending and trust; these cannot be hidden here: " + err.Error(),
		})
		return "no sandbox, nothing hidden"
	}

	i.found(Check{
		ID: id, Severity: High, Fix: fix, Set: set,
		Detail: "commands run with all rights of your user; nanobot's own data and other processes are hidden from them, but changes to your files may run later, outside",
	})
	return "no sandbox, nanobot's own data hidden"
}

// reach looks at what tools may touch.
func (i *inspection) reach() {
	t := i.l.Config.Tools
	i.check(!i.p.Restrict, "file tools stay inside the workspace", Check{
		ID: "files.restrict", Severity: Medium, Detail: "file tools may read and change every file of your user except protected ones",
		Fix: "set tools.restrictToWorkspace to true", Set: map[string]string{"tools.restrictToWorkspace": "true"},
	})
	i.ok("files.protect", "file tools cannot reach the configuration, credentials and other data of nanobot")
	home, _ := os.UserHomeDir()
	holdsHome := i.ws == home || i.ws == filepath.Dir(home) || i.ws == string(filepath.Separator)
	holdsData := i.ws != i.l.DataDir && diskio.Within(i.l.DataDir, i.ws)
	i.check(holdsHome || holdsData, "the workspace contains neither your home nor nanobot's data", Check{
		ID: "files.workspace", Severity: High, Detail: "the workspace " + i.ws + " contains your whole home or nanobot's own data",
		Fix: "set agents.defaults.workspace to a dedicated folder",
	})
	var binds []string
	for _, b := range t.Exec.SandboxRWBinds {
		if b == string(filepath.Separator) || b == home || diskio.Within(i.l.DataDir, b) || strings.HasSuffix(b, "docker.sock") || strings.HasPrefix(b, "/etc") {
			binds = append(binds, b)
		}
	}

	i.check(len(binds) > 0, "the sandbox opens no dangerous folders", Check{
		ID: "exec.binds", Severity: Critical, Detail: "commands may write to " + strings.Join(binds, ", ") + ", which defeats the sandbox",
		Fix: "remove these from tools.exec.sandboxRwBinds",
	})
	var env []string
	for _, name := range t.Exec.AllowedEnvKeys {
		if httpsafe.SecretName(name) {
			env = append(env, name)
		}
	}

	i.check(len(env) > 0, "commands see no credentials of the environment", Check{
		ID: "exec.env", Severity: High, Detail: "commands see " + strings.Join(env, ", "),
		Fix: "remove these from tools.exec.allowedEnvKeys",
	})
}

// approval looks at who is asked.
func (i *inspection) approval() {
	cfg := i.l.Config.Tools.Approval
	i.check(i.p.Approval == approve.Off || i.p.Approval == "", "risky calls need approval (mode "+string(i.p.Approval)+")", Check{
		ID: "approval.mode", Severity: Medium, Detail: "risky calls need no approval, even after the agent read content from outside",
		Fix: "set tools.approval.mode to auto", Set: map[string]string{"tools.approval.mode": "auto"},
	})
	i.check(cfg.Fallback == "allow", "calls without an answer are refused", Check{
		ID: "approval.fallback", Severity: High, Detail: "calls without an answer are allowed",
		Fix: "set tools.approval.fallback to deny", Set: map[string]string{"tools.approval.fallback": "deny"},
	})
	wide := slices.ContainsFunc(cfg.Rules, func(r config.ApprovalRule) bool {
		return r.Action == "allow" && r.Match == "" && (r.Tool == "*" || r.Tool == "exec" || strings.HasPrefix(r.Tool, "mcp_*"))
	})
	i.check(wide, "no rule allows everything", Check{
		ID: "approval.rules", Severity: High, Detail: "a rule in tools.approval.rules allows every call of a powerful tool",
		Fix: "give the rule a match, or remove it",
	})
}

// files looks at who else on this machine can read our data.
func (i *inspection) files() {
	if runtime.GOOS == "windows" {
		return
	}

	open := map[string]fs.FileMode{}
	look := func(path string, want fs.FileMode) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
			open[path] = want
		}
	}

	look(i.l.File, 0o600)
	look(i.l.DataDir, 0o700)
	for _, e := range datadir.Data() {
		if e.Owner != "" && e.Name != datadir.Config { // what others put there is looked at by its owner
			look(e.Name.In(i.l.DataDir), e.Mode)
		}
	}

	var names []string
	for p := range open {
		names = append(names, p)
	}

	slices.Sort(names)
	i.check(len(open) > 0, "other users of this machine cannot read nanobot's files", Check{
		ID: "files.modes", Severity: High, Detail: "other users of this machine can read " + strings.Join(names, ", "),
		Fix: "chmod go= on these", Mode: open,
	})
}

// secretsAt looks at credentials that cannot be hidden from texts.
func (i *inspection) secretsAt(env []string) {
	r := &httpsafe.Registry{}
	for name, s := range i.l.Secrets() {
		_ = r.Add(name, s) // the reason is in Skipped
	}

	r.AddEnv(env)
	var weak []string
	for name := range r.Skipped() {
		weak = append(weak, name)
	}

	slices.Sort(weak)
	i.check(len(weak) > 0, "every credential is recognised in texts and removed", Check{
		ID: "secrets.weak", Severity: Low, Detail: "too short or ordinary to be recognised in texts: " + strings.Join(weak, ", "),
		Fix: "use longer, random values",
	})
}

// network looks at what may be reached and who may reach us.
func (i *inspection) network() {
	c := i.l.Config
	worst, nets := Severity(""), []string{}
	for _, p := range app.Networks(c.Tools.SSRFWhitelist) {
		nets = append(nets, p.String())
		switch {
		case p.Contains(netip.MustParseAddr("169.254.169.254")), p.Contains(netip.MustParseAddr("127.0.0.1")), p.Contains(netip.MustParseAddr("::1")):
			worst = High
		case worst == "" && p.Addr().Is4() && p.Bits() < 24:
			worst = Medium
		}
	}

	i.check(worst != "", "web tools cannot reach private networks", Check{
		ID: "web.private", Severity: worst, Detail: "web tools can reach " + strings.Join(nets, ", "),
		Fix: "list single addresses in tools.ssrfWhitelist",
	})
	i.check(c.Tools.Web.Fetch.UseJinaReader, "pages are read directly", Check{
		ID: "web.reader", Severity: Low, Detail: "r.jina.ai sees every address that is read",
		Fix: "set tools.web.fetch.useJinaReader to false", Set: map[string]string{"tools.web.fetch.useJinaReader": "false"},
	})
	i.check(!httpsafe.LoopbackHost(c.API.Host) && c.API.APIKey.IsZero(), "listeners accept only this machine or require a key", Check{
		ID: "api.key", Severity: Critical, Detail: "the API listens on " + c.API.Host + " without a key",
		Fix: "set api.apiKey, or api.host to 127.0.0.1", Set: map[string]string{"api.host": "127.0.0.1"},
	})
	hosts := []string{c.Gateway.Host}
	if ws := c.Channels.Each["websocket"]; ws.Enabled {
		var set struct{ Host string }
		if _ = json.Unmarshal(ws.Raw.JSON(), &set); set.Host != "" { // the channel says what is wrong with it
			hosts = append(hosts, set.Host)
		}
	}

	open := slices.ContainsFunc(hosts, func(h string) bool { return !httpsafe.LoopbackHost(h) })
	i.check(open && c.Gateway.WebUI.Enabled != nil && *c.Gateway.WebUI.Enabled, "only this machine can reach the web interface", Check{
		ID: "webui.reach", Severity: Medium, Detail: "other machines can reach the web interface; without TLS, others on the way can read what a device sends and act as that device",
		Fix: "set gateway.host to 127.0.0.1 behind a proxy with TLS, or gateway.webui.enabled to false", Set: map[string]string{"gateway.webui.enabled": "false"},
	})
}

// servers looks at MCP servers.
func (i *inspection) servers() {
	list, _ := app.MCPServers(i.l)
	for _, s := range list {
		plain := strings.HasPrefix(s.URL, "http://") && !httpsafe.IsLocal(s.URL)
		i.check(plain, "MCP server "+s.Name+" is reached safely", Check{
			ID: "mcp." + s.Name + ".url", Severity: Medium, Detail: "MCP server " + s.Name + " is reached without encryption",
			Fix: "use https in tools.mcpServers." + s.Name + ".url",
		})
		i.check(s.Trusted && s.URL != "" && !httpsafe.IsLocal(s.URL), "MCP server "+s.Name+" needs approval for changes", Check{
			ID: "mcp." + s.Name + ".trusted", Severity: Low, Detail: "MCP server " + s.Name + " decides which of its tools need no approval",
			Fix: "remove trusted from tools.mcpServers." + s.Name,
		})
	}
}

// people looks at who may talk to the agent.
func (i *inspection) people() {
	var open []string
	for name, ch := range i.l.Config.Channels.Each {
		if ch.Enabled && name != "websocket" && slices.Contains(ch.AllowFrom, "*") {
			open = append(open, name)
		}
	}

	slices.Sort(open)
	i.check(len(open) > 0, "only people on a list may talk to the agent", Check{
		ID: "channels.open", Severity: High, Detail: "all people may use the agent over " + strings.Join(open, ", "),
		Fix: "list people in allowFrom, or leave it empty and approve them with a pairing code",
	})
}

// Exposed names what is open in a configuration and easily overlooked, such as
// one of an older version, which knew no other way. It is for every start, so
// it only looks at what is cheap; Security looks at the rest.
func Exposed(l *config.Loaded) []string {
	var out []string
	p, t := app.Posture(l), l.Config.Tools
	const fix = "; close it with: nanobot doctor security --fix"
	switch none := t.Exec.Enable && p.Sandbox == sandbox.None; {
	case none && !p.Restrict:
		out = append(out, "commands run without a sandbox and file tools can reach the whole disk except protected paths"+fix)
	case none:
		out = append(out, "commands run without a sandbox, so tools.restrictToWorkspace does not confine them"+fix)
	case !p.Restrict:
		out = append(out, "file tools can reach the whole disk except protected paths"+fix)
	case t.Exec.Enable && p.Network == sandbox.NetHost:
		out = append(out, "commands can send data to any public host; tools.exec.network proxy asks first, none disables it")
	}

	if info, err := os.Stat(l.File); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		out = append(out, "other users of this machine can read "+l.File+"; close it with: chmod 600")
	}
	return out
}

// notes name what stays possible although nothing is wrong.
func (i *inspection) notes() []string {
	var notes []string
	if t := i.l.Config.Tools.Exec; t.Enable && i.p.Sandbox != sandbox.None && i.p.Network == sandbox.NetHost {
		notes = append(notes, "Commands in the sandbox reach every public host; tools.exec.network proxy asks first, none disables it.")
	}
	if os.Geteuid() == 0 {
		notes = append(notes, "This runs as root; a dedicated user would limit the effect of mistakes.")
	}
	return notes
}
