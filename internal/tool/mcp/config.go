package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// The transports of Server.Type.
const (
	Stdio          = "stdio"
	transportSSE   = "sse"
	StreamableHTTP = "streamableHttp"
)

// The values of Server.Auth: who asks for tokens.
const (
	WithLogin  = "oauth"              // a person logs in with a browser
	withClient = "client_credentials" // nanobot, with the secret of Client
)

// Limits of a call's time.
const (
	defaultToolTimeout = 30 * time.Second
	maxToolTimeout     = time.Hour
)

// Server says how a server is reached and what of it may be used. It is made
// by ParseServer; zero values of a hand-made one mean the same as absent keys,
// except that a nil EnabledTools allows everything.
type Server struct {
	Name string
	Type string // Stdio, SSE or StreamableHTTP

	Command string // of a stdio server, with its arguments
	Args    []string
	Env     map[string]httpsafe.Secret // added to the few variables every server gets
	Cwd     string

	URL     string // of an HTTP server
	Headers map[string]httpsafe.Secret
	Auth    string // "", WithLogin or withClient
	Client  Client // at the login server; zero if we register ourselves

	ToolTimeout time.Duration // of one call; 0 is 30 s

	// EnabledTools lists raw or offered names; "*" is all, an empty list none.
	EnabledTools []string
	// EnabledResources and EnabledPrompts are the same for resources (also by
	// URI) and prompts. nil follows EnabledTools: all when that has "*", else none.
	EnabledResources, EnabledPrompts []string

	// Trusted makes the server's own hints count: a tool it calls read-only
	// runs beside others and is not asked about.
	Trusted bool
	Guests  bool // others than the owner may use it
	Sandbox bool // a stdio server runs inside the sandbox
	// AllowedHosts are the hosts that a server in the sandbox may use besides
	// reading from package hosts.
	AllowedHosts []string
	Disabled     bool // the server is configured but not used
}

// Warning is something in a server's configuration that has no effect or
// another one than it seems.
type Warning struct {
	Key  string // as it was written
	Text string
}

func (w Warning) String() string { return w.Key + ": " + w.Text }

// ParseServer reads one entry of tools.mcpServers, in the form other MCP
// clients use too. Keys may be written in camelCase or snake_case. Keys that
// are not known are warned about and ignored.
func ParseServer(name string, raw json.RawMessage) (Server, []Warning, error) {
	s := Server{Name: name, ToolTimeout: defaultToolTimeout, EnabledTools: []string{"*"}}
	if strings.TrimSpace(name) == "" {
		return s, nil, errors.New("a server needs a name")
	}

	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return s, nil, errors.New("want an object with a command or a url")
	}

	var warns []Warning
	fields := s.fields()
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) { // camelCase sorts before snake_case
		plain := plainKey(key)
		set, ok := fields[plain]
		switch {
		case !ok:
			warns = append(warns, Warning{key, unknownKey(key, fields)})
			continue
		case seen[plain] != "":
			warns = append(warns, Warning{key, "ignored, because " + seen[plain] + " is set too"})
			continue
		case string(all[key]) == "null":
			continue
		}

		seen[plain] = key
		if err := set(all[key]); err != nil {
			return s, warns, fmt.Errorf("%s: %w", key, err)
		}
	}

	more, err := s.resolve()
	return s, append(warns, more...), err
}

// plainKey returns a key without the differences between camelCase and snake_case.
func plainKey(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
}

// fields returns the list of keys by their plain spelling.
func (s *Server) fields() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{
		"type":             into(&s.Type, "a string"),
		"transport":        into(&s.Type, "a string"),
		"command":          into(&s.Command, "a string"),
		"args":             into(&s.Args, "a list of strings"),
		"env":              into(&s.Env, "an object of strings"),
		"cwd":              into(&s.Cwd, "a string"),
		"url":              into(&s.URL, "a string"),
		"serverurl":        into(&s.URL, "a string"),
		"headers":          into(&s.Headers, "an object of strings"),
		"auth":             into(&s.Auth, "a string"),
		"clientid":         into(&s.Client.ID, "a string"),
		"clientsecret":     into(&s.Client.Secret, "a string"),
		"scope":            into(&s.Client.Scope, "a string"),
		"tooltimeout":      s.readTimeout,
		"timeout":          s.readTimeout,
		"enabledtools":     into(&s.EnabledTools, "a list of strings"),
		"enabledresources": into(&s.EnabledResources, "a list of strings"),
		"enabledprompts":   into(&s.EnabledPrompts, "a list of strings"),
		"trusted":          into(&s.Trusted, "true or false"),
		"guests":           into(&s.Guests, "true or false"),
		"sandbox":          into(&s.Sandbox, "true or false"),
		"allowedhosts":     into(&s.AllowedHosts, "a list of strings"),
		"disabled":         into(&s.Disabled, "true or false"),
		"enabled": func(raw json.RawMessage) error {
			on := true
			err := into(&on, "true or false")(raw)
			s.Disabled = !on
			return err
		},
		"description": func(json.RawMessage) error { return nil }, // for people only
		"comment":     func(json.RawMessage) error { return nil }, // as the documents of Python nanobot have it
	}
}

// into reads a value of one type. Errors do not repeat the value: it may be a
// secret in the wrong place.
func into[T any](dst *T, want string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var v T
		if json.Unmarshal(raw, &v) != nil {
			return errors.New("want " + want)
		}
		*dst = v
		return nil
	}
}

func (s *Server) readTimeout(raw json.RawMessage) error {
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds <= 0 {
		return errors.New("want a number of seconds above 0")
	}
	s.ToolTimeout = maxToolTimeout
	if seconds < maxToolTimeout.Seconds() {
		s.ToolTimeout = time.Duration(seconds * float64(time.Second))
	}
	return nil
}

func unknownKey(key string, fields map[string]func(json.RawMessage) error) string {
	switch plainKey(key) {
	case "autoapprove", "alwaysallow":
		return "ignored; approvals are set in tools.approval"
	}

	known := []string{
		"type", "command", "args", "env", "cwd", "url", "headers", "auth", "clientId", "clientSecret", "scope", "toolTimeout", "enabledTools",
		"enabledResources", "enabledPrompts", "trusted", "sandbox", "allowedHosts", "disabled",
	}
	if near := text.Nearest(key, known); near != "" && fields[plainKey(near)] != nil {
		return "not known, ignored; did you mean " + near + "?"
	}
	return "not known, ignored"
}

// resolve chooses the transport and checks what belongs to it.
func (s *Server) resolve() ([]Warning, error) {
	switch plainKey(s.Type) {
	case "":
		switch {
		case s.Command != "":
			s.Type = Stdio
		case strings.HasSuffix(strings.TrimRight(pathOf(s.URL), "/"), "/sse"):
			s.Type = transportSSE
		case s.URL != "":
			s.Type = StreamableHTTP
		default:
			return nil, errors.New("has neither a command nor a url")
		}

	case "stdio":
		s.Type = Stdio
	case "sse":
		s.Type = transportSSE
	case "streamablehttp", "http", "streamable":
		s.Type = StreamableHTTP
	default:
		return nil, fmt.Errorf("type: want %s, %s or %s", Stdio, transportSSE, StreamableHTTP)
	}

	switch plainKey(s.Auth) {
	case "":
	case WithLogin:
		s.Auth = WithLogin
	case plainKey(withClient):
		s.Auth, s.Client.Alone = withClient, true
		if s.Client.ID == "" || s.Client.Secret.IsZero() {
			return nil, fmt.Errorf("auth: %q needs clientId and clientSecret", withClient)
		}

	default:
		return nil, fmt.Errorf("auth: want %q, %q or nothing", WithLogin, withClient)
	}

	if s.Type == Stdio {
		return s.checkStdio()
	}
	return s.checkHTTP()
}

func (s *Server) checkStdio() (warns []Warning, err error) {
	if s.Command == "" {
		return nil, errors.New("a stdio server needs a command")
	}
	if strings.ContainsRune(s.Command+s.Cwd+strings.Join(s.Args, ""), 0) {
		return nil, errors.New("command, args and cwd must not contain a NUL byte")
	}

	if s.URL != "" || len(s.Headers) > 0 {
		warns = append(warns, Warning{"url", "ignored, because the server is started by its command"})
		s.URL, s.Headers = "", nil
	}

	for _, host := range s.AllowedHosts {
		if _, err := httpsafe.ParseHostRule(host); err != nil {
			warns = append(warns, Warning{"allowedHosts", "ignored: " + err.Error()})
		}
	}

	if len(s.AllowedHosts) > 0 && !s.Sandbox {
		warns = append(warns, Warning{"allowedHosts", "without effect, because the server does not run in the sandbox"})
	}
	if s.Auth != "" {
		warns = append(warns, Warning{"auth", "ignored, because only HTTP servers have it"})
		s.Auth = ""
	}

	s.Client = Client{}
	for k := range s.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return warns, errors.New("env: a name of a variable must not be empty or contain =")
		}
	}
	return warns, nil
}

func (s *Server) checkHTTP() (warns []Warning, err error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url: want an http or https URL")
	}

	u.Fragment = ""
	s.URL = u.String()
	if s.Command != "" {
		warns = append(warns, Warning{"command", "ignored, because the server is reached by its url"})
		s.Command = ""
		s.Args = nil
		s.Env = nil
		s.Cwd = ""
	}

	if s.Client.ID+s.Client.Scope != "" && s.Auth == "" {
		warns = append(warns, Warning{"clientId", `without effect, because auth is not set to "oauth" or "client_credentials"`})
	}
	if s.Sandbox {
		warns = append(warns, Warning{"sandbox", "ignored, because nothing is started for an HTTP server"})
		s.Sandbox = false
	}

	for k, v := range s.Headers {
		if !headerName(k) || strings.ContainsAny(v.Reveal(), "\r\n\x00") {
			return warns, errors.New("headers: a name or value has characters that headers must not have")
		}
		if s.Auth != "" && strings.EqualFold(k, "Authorization") {
			warns = append(warns, Warning{"headers", "Authorization is ignored, because auth is set"})
		}
	}

	return warns, nil
}

func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Path
}

// origin returns the part of a URL that may be shown and compared.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if strings.EqualFold(u.Scheme, "https") {
			port = "443"
		}
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
