package doctor

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// Examine looks at this machine like Checkup and, unless offline, asks those
// that the configuration names: the model, providers, MCP servers and chat
// platforms.
func Examine(ctx context.Context, o app.Options, offline bool) *Diagnosis {
	d := &Diagnosis{offline: offline}
	d.examine(ctx, o)
	return d
}

func (d *Diagnosis) examine(ctx context.Context, o app.Options) {
	d.checkup(ctx, o)
	if d.Config == nil {
		return
	}

	offline := d.offline
	d.add(serviceSymptom(ctx, o.Env)...)
	d.add(skillSymptoms(o, d.Config)...)
	d.add(proxySymptoms(ctx, app.Getenv(o.Env), offline)...)
	d.add(modelSymptoms(ctx, o, d.Config, offline)...)
	d.add(mcpSymptoms(ctx, o, d.Config, offline)...)
	if !offline {
		d.askChannels(ctx)
	}
}

// probeWait bounds asking one provider or proxy.
const probeWait = 20 * time.Second

// serviceSymptom looks at the service of the default name.
func serviceSymptom(ctx context.Context, env []string) []Symptom {
	s, err := daemon.NewManager("nanobot", false, env)
	if err != nil {
		return nil // no services here
	}

	st := s.State(ctx)
	if !st.Installed {
		s.System = true
		if st = s.State(ctx); !st.Installed {
			return []Symptom{{ID: "service", State: Well, Detail: "it is not installed"}}
		}
	}

	out := Symptom{ID: "service", State: Well, Detail: st.Active + " " + st.Enabled + " (" + st.File + ")"}
	if st.Active != "active" {
		out.State, out.Fix = Doubt, "update it with: nanobot service install"
		if st.Problem != "" {
			out.Detail += ": " + st.Problem
		}
	}
	return []Symptom{out}
}

// skillSymptoms names installed skills that lack a program.
func skillSymptoms(o app.Options, l *config.Loaded) []Symptom {
	ws, err := app.Workspace(o.Workspace, l)
	if err != nil {
		return []Symptom{{ID: "skills", State: Doubt, Detail: err.Error()}}
	}

	list := app.OpenSkills(l, ws, app.Getenv(o.Env), o.Log).List()
	var out []Symptom
	for _, k := range list {
		if !k.Available() && !slices.Contains(l.Config.Agents.Defaults.DisabledSkills, k.Name) {
			out = append(out, Symptom{ID: "skill." + k.Name, State: Skipped, Detail: "not usable here: " + k.Missing, Fix: "install the missing requirements to use it"})
		}
	}
	return append(out, Symptom{ID: "skills", State: Well, Detail: fmt.Sprintf("%d of %d are usable", len(list)-len(out), len(list))})
}

// proxySymptoms looks at the proxies of the environment.
func proxySymptoms(ctx context.Context, getenv func(string) string, offline bool) []Symptom {
	var out []Symptom
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		value := getenv(name)
		if value == "" {
			continue
		}

		if !strings.Contains(value, "://") {
			value = "http://" + value
		}

		s := Symptom{ID: "proxy." + name, State: Well}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "":
			s.State = Broken
			s.Detail = "it is not an address"
			s.Fix = "set it to http://HOST:PORT, or unset it"
		case offline:
			s.State, s.Detail = Skipped, u.Host
		default:
			s.Detail = u.Host
			if err := dial(ctx, u); err != nil {
				s.State, s.Detail, s.Fix = Broken, u.Host+" cannot be reached: "+err.Error(), "start the proxy, or unset "+name
			}
		}

		out = append(out, s)
	}

	return out
}

func dial(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		if port == "" {
			port = "80"
		}
	}

	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}

// modelSymptoms asks the model in use for a few words and every other provider
// with a key for its list of models.
func modelSymptoms(ctx context.Context, o app.Options, l *config.Loaded, offline bool) []Symptom {
	lenient := o
	lenient.Config.Lenient = true
	a, err := app.Inspect(ctx, lenient)
	if err != nil {
		return []Symptom{{ID: "model", State: Broken, Detail: err.Error(), Fix: "set up a model with: nanobot onboard"}}
	}

	info := a.ModelInfo()
	if info.Demo {
		return []Symptom{{
			ID: "model", State: Well, Detail: "none is configured yet, so the built-in demo answers", Fix: "set up a model with: nanobot onboard",
		}}
	}

	if offline {
		return []Symptom{{ID: "model", State: Skipped, Detail: info.Name + " was not checked (--offline)"}}
	}

	out := []Symptom{modelSymptom(ctx, o, l, info)}
	for _, p := range KeyedProviders(l, app.Getenv(o.Env)) {
		if p.Name == info.Provider || p.Key == "" {
			continue
		}
		out = append(out, providerSymptom(ctx, o, l, p.Name))
	}
	return out
}

// modelSymptom makes one tiny call.
func modelSymptom(ctx context.Context, o app.Options, l *config.Loaded, info provider.Info) Symptom {
	s := Symptom{ID: "model", State: Well}
	name := ""
	if !l.IsSet("agents.defaults.model") && l.Config.Agents.Defaults.ModelPreset == "" {
		name = info.Name // found by itself
	}

	t, err := provider.OpenTrial(ctx, app.ProviderOptions(l, o), name)
	if err != nil {
		s.State, s.Detail, s.Fix = Broken, err.Error(), "see: nanobot provider explain"
		return s
	}

	ctx, cancel := context.WithTimeout(ctx, 2*probeWait)
	defer cancel()
	t.Text(ctx, func(v trial.Verdict) {
		if v.Ability == "text" {
			s.Detail = fmt.Sprintf("%s at %s: %s", info.Name, t.Provider, v.Note)
			if v.Seconds > 0 {
				s.Detail += fmt.Sprintf(" (%.1f s)", v.Seconds)
			}
		}
	})

	if t.Err() != nil {
		s.State, s.Fix = Broken, "try it with: nanobot models test"
		provider.SuggestModels(ctx, l, t)
		if len(t.Warnings) > 0 {
			s.Fix = strings.Join(t.Warnings, "; ")
		}
	}

	return s
}

// providerSymptom asks a provider for its models, which costs nothing and
// tells whether its name, its certificate and the key are good.
func providerSymptom(ctx context.Context, o app.Options, l *config.Loaded, name string) Symptom {
	s := Symptom{ID: "provider." + name, State: Well}
	in := provider.MatchInput(l, app.Getenv(o.Env))
	in.Provider = name
	choice, err := catalog.Match(in)
	if err != nil {
		s.State, s.Detail = Doubt, err.Error()
		return s
	}

	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	offers, err := provider.ListModels(ctx, l, choice)
	switch e := llm.AsError(err); {
	case err == nil:
		s.Detail = fmt.Sprintf("it answers and offers %d models", len(offers))
	case e.Kind == llm.Auth || e.Kind == llm.Permission || e.Kind == llm.Billing || e.Kind == llm.Connection || e.Kind == llm.Timeout:
		s.State, s.Detail, s.Fix = Broken, explain.Error(err, name), "see: nanobot provider list"
	default:
		s.State, s.Detail = Skipped, "it does not list its models: "+err.Error()
	}

	return s
}

// mcpSymptoms starts or calls every MCP server for a moment.
func mcpSymptoms(ctx context.Context, o app.Options, l *config.Loaded, offline bool) []Symptom {
	list, err := mcpStates(ctx, o, l, offline)
	if err != nil {
		return []Symptom{{ID: "mcp", State: Broken, Detail: err.Error()}}
	}

	var out []Symptom
	for _, j := range list {
		s := Symptom{ID: "mcp." + j.Name, State: Well, Detail: j.State}
		switch j.State {
		case "invalid":
			s.State = Broken
			s.Detail = j.Error
			s.Fix = "correct tools.mcpServers." + j.Name
		case string(mcp.PendingLogin):
			s.State, s.Fix = Doubt, "log in with: nanobot mcp login "+j.Name
		case string(mcp.Off):
		case string(mcp.Ready), string(mcp.Degraded):
			if j.Tools != nil {
				s.Detail = fmt.Sprintf("%s, %d tools", j.State, *j.Tools)
			}
		default:
			if offline {
				s.State, s.Detail = Skipped, "was not checked (--offline)"
				break
			}
			s.State, s.Detail, s.Fix = Broken, strings.TrimSpace(j.State+" "+j.Error), "see: nanobot mcp test "+j.Name
		}

		out = append(out, s)
	}

	return out
}

func mcpStates(ctx context.Context, o app.Options, l *config.Loaded, offline bool) ([]mcp.Summary, error) {
	auth, err := app.MCPLogins(l, o)
	switch {
	case err != nil:
		return nil, err
	case offline:
		return mcp.Summaries(app.MCPEntries(l), auth), nil
	}
	return app.ProbeMCP(ctx, l, o, auth)
}

// Fix repairs what does not need a decision, such as permissions that are too
// wide and missing folders, and names the symptoms.
func (d *Diagnosis) Fix() ([]string, error) {
	var done []string
	for _, s := range d.Symptoms {
		if !s.fixable() {
			continue
		}

		for _, name := range slices.Sorted(maps.Keys(s.Mode)) {
			if err := os.Chmod(name, s.Mode[name]); err != nil {
				return done, err
			}
		}

		for _, dir := range s.Make {
			if err := diskio.MkdirAll(dir, 0o700); err != nil {
				return done, err
			}
		}

		done = append(done, s.ID)
	}

	return done, nil
}

// askChannels asks the platforms of channels whose settings are valid whether
// they work.
func (d *Diagnosis) askChannels(ctx context.Context) {
	for i := range d.Symptoms {
		s := &d.Symptoms[i]
		name, ok := strings.CutPrefix(s.ID, "channel.")
		if !ok || s.State != Well {
			continue
		}

		askChannel(ctx, d.Config, name, s)
		if d.found != nil {
			d.found(*s)
		}
	}
}

func askChannel(ctx context.Context, l *config.Loaded, name string, s *Symptom) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	report, err := gateway.Accounts{Loaded: l}.Test(ctx, name)
	fix := "see: nanobot channels test " + name
	switch {
	case err != nil:
		s.State, s.Detail, s.Fix = Broken, err.Error(), fix
		return
	case report.Identity != "":
		s.Detail = "works as " + report.Identity
	}

	for _, c := range report.Checks {
		if !c.OK {
			s.State = Doubt
			s.Detail = c.Name + ": " + c.Detail
			s.Fix = fix
		}
	}
}
