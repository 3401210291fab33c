package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Entry is a configured server, or why it cannot be used.
type Entry struct {
	Server
	Warnings []Warning
	Problem  error
}

// Entries reads configured servers; they are sorted by name.
func Entries(configured map[string]json.RawMessage) []Entry {
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		s, warnings, err := ParseServer(name, configured[name])
		s.Name = name
		out = append(out, Entry{s, warnings, err})
	}
	return out
}

// Target returns what a server is, without anything that may be a credential.
func (s *Server) Target() string {
	if s.Type == Stdio {
		words := append([]string{s.Command}, s.Args...)
		for i := range s.Args {
			if flag := words[i]; strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && httpsafe.SecretName(flag) {
				words[i+1] = "***"
			}
		}
		return httpsafe.RedactSecrets(strings.Join(words, " "))
	}

	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Summary is a server in lists for programs.
type Summary struct {
	Name      string   `json:"name"`
	Transport string   `json:"transport,omitempty"`
	Target    string   `json:"target,omitempty"`
	Auth      string   `json:"auth,omitempty"`
	State     string   `json:"state"` // configured, disabled, invalid, pending-login, or after a probe one of the pool's states
	Tools     *int     `json:"tools,omitempty"`
	Resources *int     `json:"resources,omitempty"`
	Prompts   *int     `json:"prompts,omitempty"`
	Protocol  string   `json:"protocol,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Summaries describes servers without connecting to them.
func Summaries(entries []Entry, auth *OAuth) []Summary {
	out := []Summary{}
	for _, e := range entries {
		j := Summary{Name: e.Name, State: "configured", Auth: e.Auth}
		for _, w := range e.Warnings {
			j.Warnings = append(j.Warnings, w.String())
		}

		switch {
		case e.Problem != nil:
			j.State, j.Error = "invalid", e.Problem.Error()
		default:
			j.Transport, j.Target = e.Type, e.Target()
			if e.Disabled {
				j.State = string(Off)
			} else if st, err := auth.State(e.Name, e.URL); e.Auth == WithLogin && err == nil && !st.LoggedIn {
				j.State = string(PendingLogin)
			}
		}

		out = append(out, j)
	}

	return out
}

// Probe describes servers after a moment's connection to each that can be used.
// The servers of o are not used.
func Probe(ctx context.Context, o Options, entries []Entry, auth *OAuth) ([]Summary, error) {
	out := Summaries(entries, auth)
	o.Servers = nil
	for _, e := range entries {
		if e.Problem == nil {
			o.Servers = append(o.Servers, e.Server)
		}
	}

	if len(o.Servers) == 0 {
		return out, nil
	}

	p, err := probe(ctx, o)
	if err != nil {
		return nil, err
	}

	for _, st := range p.Status {
		i := slices.IndexFunc(out, func(s Summary) bool { return s.Name == st.Name })
		out[i].Live(st)
	}
	return out, nil
}

// Live puts in what a connection to the server found out.
func (j *Summary) Live(st Status) {
	j.State = string(st.State)
	j.Error = st.Error
	j.Protocol = st.Protocol
	if st.State == Ready || st.State == Degraded {
		j.Tools = &st.Tools
		j.Resources = &st.Resources
		j.Prompts = &st.Prompts
	}
}
