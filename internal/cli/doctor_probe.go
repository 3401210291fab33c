package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/daemon"
	"github.com/nanobot-go/nanobot/internal/doctor"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// probeWait bounds asking one provider or proxy.
const probeWait = 20 * time.Second

// serviceSymptom looks at the service of the default name.
func (c *command) serviceSymptom(ctx context.Context) []doctor.Symptom {
	s, err := daemon.NewManager("nanobot", false, c.Env)
	if err != nil {
		return nil // no services here
	}
	st := s.State(ctx)
	if !st.Installed {
		s.System = true
		if st = s.State(ctx); !st.Installed {
			return []doctor.Symptom{{ID: "service", State: doctor.Well, Detail: "it is not installed"}}
		}
	}
	out := doctor.Symptom{ID: "service", State: doctor.Well, Detail: st.Active + " " + st.Enabled + " (" + st.File + ")"}
	if st.Active != "active" {
		out.State, out.Fix = doctor.Doubt, "bring it up to date with: nanobot service install"
		if st.Problem != "" {
			out.Detail += ": " + st.Problem
		}
	}
	return []doctor.Symptom{out}
}

// skillSymptoms names installed skills that lack a program.
func (c *command) skillSymptoms() []doctor.Symptom {
	s, err := c.skills()
	if err != nil {
		return []doctor.Symptom{{ID: "skills", State: doctor.Doubt, Detail: err.Error()}}
	}
	list := s.List()
	var out []doctor.Symptom
	for _, k := range list {
		if !k.Available() && !slices.Contains(s.disabled, k.Name) {
			out = append(out, doctor.Symptom{ID: "skill." + k.Name, State: doctor.Skipped, Detail: "not usable here: " + k.Missing, Fix: "install what is missing, if you want it"})
		}
	}
	return append(out, doctor.Symptom{ID: "skills", State: doctor.Well, Detail: fmt.Sprintf("%d of %d are usable", len(list)-len(out), len(list))})
}

// proxySymptoms looks at the proxies of the environment.
func (c *command) proxySymptoms(ctx context.Context, offline bool) []doctor.Symptom {
	var out []doctor.Symptom
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		value := c.getenv(name)
		if value == "" {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		s := doctor.Symptom{ID: "proxy." + name, State: doctor.Well}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "":
			s.State, s.Detail, s.Fix = doctor.Broken, "it is no address", "set it to http://HOST:PORT, or unset it"
		case offline:
			s.State, s.Detail = doctor.Skipped, u.Host
		default:
			s.Detail = u.Host
			if err := dial(ctx, u); err != nil {
				s.State, s.Detail, s.Fix = doctor.Broken, u.Host+" cannot be reached: "+err.Error(), "start the proxy, or unset "+name
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
func (c *command) modelSymptoms(cmd *cobra.Command, l *config.Loaded, offline bool) []doctor.Symptom {
	ctx := cmd.Context()
	a, err := app.Inspect(ctx, app.Options{Config: c.lenientOptions(), Workspace: c.workspace, Env: c.Env, Version: nanobot.Version()})
	if err != nil {
		return []doctor.Symptom{{ID: "model", State: doctor.Broken, Detail: err.Error(), Fix: "set up a model with: nanobot onboard"}}
	}
	info := a.ModelInfo()
	if info.Demo {
		return []doctor.Symptom{{
			ID: "model", State: doctor.Well, Detail: "none is set up yet, so the built-in demo answers", Fix: "set up a model with: nanobot onboard",
		}}
	}
	if offline {
		return []doctor.Symptom{{ID: "model", State: doctor.Skipped, Detail: info.Name + " was not asked (--offline)"}}
	}
	out := []doctor.Symptom{c.modelSymptom(ctx, l, info)}
	for _, p := range c.providers(l) {
		if p.Name == info.Provider || p.Key == "" {
			continue
		}
		out = append(out, c.providerSymptom(ctx, l, p.Name))
	}
	return out
}

func (c *command) lenientOptions() config.Options {
	o := c.configOptions()
	o.Lenient = true
	return o
}

// modelSymptom makes one tiny call.
func (c *command) modelSymptom(ctx context.Context, l *config.Loaded, info app.ModelInfo) doctor.Symptom {
	s := doctor.Symptom{ID: "model", State: doctor.Well}
	name := ""
	if !l.IsSet("agents.defaults.model") && l.Config.Agents.Defaults.ModelPreset == "" {
		name = info.Name // found by itself
	}
	t, err := app.OpenTrial(c.mcpOptions(), l, name)
	if err != nil {
		s.State, s.Detail, s.Fix = doctor.Broken, err.Error(), "see: nanobot provider explain"
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
		s.State, s.Fix = doctor.Broken, "try it with: nanobot models test"
		app.SuggestModels(ctx, l, t)
		if len(t.Warnings) > 0 {
			s.Fix = strings.Join(t.Warnings, "; ")
		}
	}
	return s
}

// providerSymptom asks a provider for its models, which costs nothing and
// tells whether its name, its certificate and the key are good.
func (c *command) providerSymptom(ctx context.Context, l *config.Loaded, name string) doctor.Symptom {
	s := doctor.Symptom{ID: "provider." + name, State: doctor.Well}
	in := c.matchInput(l)
	in.Provider = name
	choice, err := llm.Match(in)
	if err != nil {
		s.State, s.Detail = doctor.Doubt, err.Error()
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	offers, err := app.ListModels(ctx, l, choice)
	switch e := llm.AsError(err); {
	case err == nil:
		s.Detail = fmt.Sprintf("it answers and offers %d models", len(offers))
	case e.Kind == llm.Auth || e.Kind == llm.Permission || e.Kind == llm.Billing || e.Kind == llm.Connection || e.Kind == llm.Timeout:
		s.State, s.Detail, s.Fix = doctor.Broken, agent.Explain(err, name), "see: nanobot provider list"
	default:
		s.State, s.Detail = doctor.Skipped, "it has no list of models to ask for: "+err.Error()
	}
	return s
}

// mcpSymptoms starts or calls every MCP server for a moment.
func (c *command) mcpSymptoms(ctx context.Context, l *config.Loaded, offline bool) []doctor.Symptom {
	list, err := c.mcpStates(ctx, l, !offline)
	if err != nil {
		return []doctor.Symptom{{ID: "mcp", State: doctor.Broken, Detail: err.Error()}}
	}
	var out []doctor.Symptom
	for _, j := range list {
		s := doctor.Symptom{ID: "mcp." + j.Name, State: doctor.Well, Detail: j.State}
		switch j.State {
		case "invalid":
			s.State, s.Detail, s.Fix = doctor.Broken, j.Error, "correct tools.mcpServers."+j.Name
		case string(mcp.PendingLogin):
			s.State, s.Fix = doctor.Doubt, "log in with: nanobot mcp login "+j.Name
		case string(mcp.Off):
		case string(mcp.Ready), string(mcp.Degraded):
			if j.Tools != nil {
				s.Detail = fmt.Sprintf("%s, %d tools", j.State, *j.Tools)
			}
		default:
			if offline {
				s.State, s.Detail = doctor.Skipped, "was not asked (--offline)"
				break
			}
			s.State, s.Detail, s.Fix = doctor.Broken, strings.TrimSpace(j.State+" "+j.Error), "see: nanobot mcp test "+j.Name
		}
		out = append(out, s)
	}
	return out
}
