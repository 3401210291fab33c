package socket

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// settings is the section of the configuration.
type settings struct {
	chat.Common
	Host             string          `json:"host" doc:"Address of a listener of its own; empty uses the gateway's."`
	Port             int             `json:"port" doc:"Port of a listener of its own; 0 uses the gateway's."`
	Path             string          `json:"path" doc:"Path of the socket."`
	Token            httpsafe.Secret `json:"token" doc:"Token that clients connect with."`
	TokenIssuePath   string          `json:"tokenIssuePath" doc:"Path at which clients get a token for one connection."`
	TokenIssueSecret httpsafe.Secret `json:"tokenIssueSecret" doc:"Secret for tokenIssuePath."`
	TokenTTLS        int             `json:"tokenTtlS" min:"30" max:"86400" doc:"How long such a token is good for, in seconds."`
	RequiresToken    bool            `json:"websocketRequiresToken" doc:"Refuse clients without a token."`
	MaxMessageBytes  int64           `json:"maxMessageBytes" min:"1024" max:"41943040" doc:"Largest frame of a client, in bytes."`
	MaxConnections   int             `json:"maxConnections" min:"1" max:"1000000" doc:"Connections at once; more are refused."`
	PingIntervalS    float64         `json:"pingIntervalS" min:"5" max:"300" doc:"Time between two pings, in seconds."`
	PingTimeoutS     float64         `json:"pingTimeoutS" min:"5" max:"300" doc:"Longest time without an answer to a ping, in seconds."`
	CertFile         string          `json:"sslCertfile" doc:"Certificate file, for TLS."`
	KeyFile          string          `json:"sslKeyfile" doc:"Key file, for TLS."`
	UnixSocketPath   string          `json:"unixSocketPath" doc:"Listen on this Unix socket instead of a port."`
	PublicURL        string          `json:"publicWsUrl" doc:"Address that clients are told to connect to."`
	TrustedProxy     *trustedProxy   `json:"trustedProxyAuth" doc:"A proxy in front that says who is signed in."`
	AllowedOrigins   []string        `json:"allowedOrigins" doc:"Web pages that may connect, by their origin."`

	own        bool // a listener of our own instead of the gateway's
	publicHost string
}

// trustedProxy lets a proxy in front of us say who is signed in.
type trustedProxy struct {
	PeerCIDRs       []string `json:"trustedPeerCidrs" doc:"Addresses of the proxy."`
	AssertionHeader string   `json:"assertionHeader" doc:"Header in which the proxy names the person."`

	peers []netip.Prefix
}

func defaults() *settings {
	return &settings{
		Path: "/", TokenTTLS: 300, RequiresToken: true, MaxMessageBytes: 37748736, MaxConnections: 10_000, PingIntervalS: 20, PingTimeoutS: 20,
	}
}

func decode(section json.RawMessage) (*settings, error) {
	s := defaults()
	if err := chat.Decode(section, s); err != nil {
		return nil, err
	}

	s.own = s.Host != "" || s.Port != 0 || s.UnixSocketPath != "" || s.CertFile != "" || s.KeyFile != ""
	if s.Host == "" {
		s.Host = "127.0.0.1"
	}
	if s.Port == 0 {
		s.Port = 8765
	}
	if s.AllowFrom == nil {
		s.AllowFrom = []string{"*"}
	}

	for _, check := range []func() error{s.checkRanges, s.checkPaths, s.checkFiles, s.checkPublic, s.checkOrigins, s.checkProxy, s.checkExposure} {
		if err := check(); err != nil {
			return nil, chat.Fatal(err)
		}
	}
	return s, nil
}

func (s *settings) checkRanges() error {
	for _, r := range []struct {
		name           string
		value, lo, top float64
	}{
		{"port", float64(s.Port), 1, 65535},
		{"tokenTtlS", float64(s.TokenTTLS), 30, 86400},
		{"maxMessageBytes", float64(s.MaxMessageBytes), 1024, 41943040},
		{"maxConnections", float64(s.MaxConnections), 1, 1_000_000},
		{"pingIntervalS", s.PingIntervalS, 5, 300},
		{"pingTimeoutS", s.PingTimeoutS, 5, 300},
	} {
		if r.value < r.lo || r.value > r.top {
			return fmt.Errorf("%s: %v is not between %v and %v", r.name, r.value, r.lo, r.top)
		}
	}
	return nil
}

// checkPaths takes trailing slashes off, which make no difference.
func (s *settings) checkPaths() error {
	for _, p := range []struct {
		name  string
		value *string
	}{{"path", &s.Path}, {"tokenIssuePath", &s.TokenIssuePath}} {
		v := *p.value
		if v == "" && p.name != "path" {
			continue
		}
		if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "{}?# ") {
			return fmt.Errorf("%s: %q must be a path that begins with /", p.name, v)
		}

		if v = strings.TrimRight(v, "/"); v == "" {
			v = "/"
		}

		if reserved(v) {
			return fmt.Errorf("%s: %q answers something else; choose another", p.name, v)
		}
		*p.value = v
	}

	if s.Path == s.TokenIssuePath {
		return errors.New("tokenIssuePath: must not be the same as path")
	}
	return nil
}

// reserved reports paths that have a use of their own, on our listener or on that
// of the gateway.
func reserved(path string) bool {
	switch path {
	case bootstrapPath, "/health", "/healthz", "/livez", "/readyz":
		return true
	}
	return strings.HasPrefix(path+"/", apiPath) || strings.HasPrefix(path+"/", "/v1/")
}

func (s *settings) checkFiles() error {
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("sslCertfile and sslKeyfile: set both or none")
	}
	if s.UnixSocketPath != "" && !filepath.IsAbs(s.UnixSocketPath) {
		return fmt.Errorf("unixSocketPath: %q must be an absolute path", s.UnixSocketPath)
	}
	return nil
}

func (s *settings) checkPublic() error {
	if s.PublicURL == "" {
		return nil
	}

	u, err := url.Parse(s.PublicURL)
	switch {
	case err != nil:
		return fmt.Errorf("publicWsUrl: %w", err)
	case u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "":
		return fmt.Errorf("publicWsUrl: %q must begin with ws:// or wss://", s.PublicURL)
	case u.User != nil:
		return errors.New("publicWsUrl: must hold no name or password")
	case strings.TrimRight(u.Path, "/") != strings.TrimRight(s.Path, "/"):
		return fmt.Errorf("publicWsUrl: its path must be %q as in path", s.Path)
	}

	s.publicHost = u.Host
	return nil
}

func (s *settings) checkOrigins() error {
	for _, o := range s.AllowedOrigins {
		if _, err := path.Match(o, ""); err != nil {
			return fmt.Errorf("allowedOrigins: %q: %w", o, err)
		}
	}
	return nil
}

func (s *settings) checkProxy() error {
	p := s.TrustedProxy
	if p == nil {
		return nil
	}
	if len(p.PeerCIDRs) == 0 || p.AssertionHeader == "" {
		return errors.New("trustedProxyAuth: set both trustedPeerCidrs and assertionHeader")
	}

	for _, c := range p.PeerCIDRs {
		prefix, err := netip.ParsePrefix(c)
		if err != nil {
			return fmt.Errorf("trustedProxyAuth.trustedPeerCidrs: %w", err)
		}

		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}

		if prefix.Bits() == 0 {
			return fmt.Errorf("trustedProxyAuth.trustedPeerCidrs: %q covers all addresses; write those of the proxy", c)
		}
		p.peers = append(p.peers, prefix)
	}

	h := strings.ToLower(p.AssertionHeader)
	if slices.Contains([]string{"host", "forwarded", "x-real-ip", "cf-connecting-ip"}, h) || strings.HasPrefix(h, "x-forwarded-") {
		return fmt.Errorf("trustedProxyAuth.assertionHeader: %q says where a request came from, not who sent it", p.AssertionHeader)
	}
	return nil
}

// minToken is how many characters a token has that others may try to guess.
const minToken = 16

// checkExposure refuses to listen for other machines without a proof of who asks, or
// for something that can be guessed.
func (s *settings) checkExposure() error {
	if !s.own || s.UnixSocketPath != "" || httpsafe.LoopbackHost(s.Host) {
		return nil
	}
	if err := s.checkGuessing(s.Host); err != nil {
		return err
	}
	if s.secured() {
		return nil
	}
	return fmt.Errorf("host: %s can be reached by others; set token, tokenIssueSecret or trustedProxyAuth", s.Host)
}

// checkGuessing refuses secrets that are too short where others can try them.
func (s *settings) checkGuessing(where string) error {
	for name, secret := range map[string]httpsafe.Secret{"token": s.Token, "tokenIssueSecret": s.TokenIssueSecret} {
		if !secret.IsZero() && len(secret.Reveal()) < minToken {
			return fmt.Errorf("%s: %s can be reached by others, who could guess it; at least %d characters are needed", name, where, minToken)
		}
	}
	return nil
}

// secured reports whether there is a way to prove who one is.
func (s *settings) secured() bool {
	return !s.Token.IsZero() || !s.TokenIssueSecret.IsZero() || s.TrustedProxy != nil
}

func (s *settings) streaming() bool { return s.Streaming == nil || *s.Streaming }

// wants reports whether the section lets this kind of message through. Where it
// says nothing, clients choose for themselves.
func (s *settings) wants(k bus.Kind) bool {
	var v *bool
	switch k {
	case bus.Progress:
		v = s.SendProgress
	case bus.ToolHint:
		v = s.SendToolHints
	case bus.Reasoning:
		v = s.ShowReasoning
	}

	return v == nil || *v
}

func (s *settings) tokenTTL() time.Duration { return time.Duration(s.TokenTTLS) * time.Second }

// span is a setting in seconds.
func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
