package socket

import (
	"encoding/json"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// bootstrapPath is where clients of the newer generation begin: it gives them a
// token for one connection, the address to use it at, and the limits.
const bootstrapPath = "/webui/bootstrap"

// envelopeBytes is what a frame needs besides texts and files.
const envelopeBytes = 64 << 10

type bootstrap struct {
	Token    string `json:"token"`
	APIToken string `json:"api_token,omitempty"` // for /api/, of who proved who they are
	Path     string `json:"ws_path"`
	URL      string `json:"ws_url"`
	Expires  int    `json:"expires_in"`
	Limits   struct {
		Transport struct {
			Frame   int64 `json:"max_frame_bytes"`
			Reserve int   `json:"envelope_reserve_bytes"`
		} `json:"transport"`
		Message struct {
			Text int `json:"max_text_bytes"`
		} `json:"message"`
		Attachments struct {
			Count int `json:"max_count"`
			File  int `json:"max_file_bytes"`
			Total int `json:"max_total_bytes"`
		} `json:"attachments"`
	} `json:"limits"`
	Model        string          `json:"model_name,omitempty"`
	Surface      string          `json:"runtime_surface"`
	Capabilities map[string]bool `json:"runtime_capabilities"`
}

// serveBootstrap answers who knows a secret of ours. Where there is none, it
// answers only if programs of this machine need no token anyway: a command that
// the agent runs is one, and must not become the owner.
func (c *Channel) serveBootstrap(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !wantsBody(w, r) {
		return
	}
	if !c.running() {
		refuse(w, http.StatusServiceUnavailable, "not running")
		return
	}

	secrets := c.secrets()
	switch {
	case len(secrets) > 0:
		given := auth.Bearer(r)
		if given == "" {
			given = r.Header.Get("X-Nanobot-Auth")
		}

		if !auth.AnyOf(secrets, given) {
			refuse(w, http.StatusUnauthorized, "wrong or missing secret")
			return
		}
		if !c.originAllowed(r) {
			refuse(w, http.StatusForbidden, "this origin is not allowed; see allowedOrigins")
			return
		}
	case c.set.RequiresToken || !c.isLocal(r) || !c.originAllowed(r) || embedded(r):
		refuse(w, http.StatusForbidden, "set token or tokenIssueSecret, and send it")
		return
	}

	b := bootstrap{Path: c.set.Path, URL: c.socketURL(r), Expires: c.set.TokenTTLS, Surface: "gateway"}
	proven, now := len(secrets) > 0, c.d.Now()
	var ok bool
	if b.Token, ok = c.issued.Issue(now, c.set.tokenTTL(), proven); ok && proven && c.o.API != nil {
		b.APIToken, ok = c.access.Issue(now, c.set.tokenTTL(), true)
	}

	if !ok {
		refuse(w, http.StatusTooManyRequests, "too many tokens are waiting to be used")
		return
	}

	b.Capabilities = map[string]bool{
		"desk": b.APIToken != "", "fork_chat": c.o.Fork != nil, "transcribe_audio": c.o.Transcribe != nil || c.d.Transcribe != nil,
		"workspace_scope": c.o.Scope != nil, "temporary_chats": true, "resume": true,
	}
	b.Limits.Transport.Frame, b.Limits.Transport.Reserve = c.set.MaxMessageBytes, envelopeBytes
	b.Limits.Message.Text = maxText
	b.Limits.Attachments.Count, b.Limits.Attachments.File, b.Limits.Attachments.Total = maxFiles, maxFileBytes, maxTotalBytes
	if c.o.Model != nil {
		b.Model = c.o.Model()
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(b) //nolint:gosec // handing out tokens is what it is for
}

// secrets returns what a client may prove itself with.
func (c *Channel) secrets() (out []httpsafe.Secret) {
	for _, s := range []httpsafe.Secret{c.set.TokenIssueSecret, c.set.Token} {
		if !s.IsZero() {
			out = append(out, s)
		}
	}
	return out
}

// socketURL is the address of the socket as this client reaches us.
func (c *Channel) socketURL(r *http.Request) string {
	switch {
	case c.set.PublicURL != "":
		return c.set.PublicURL
	case r.TLS != nil:
		return "wss://" + r.Host + c.set.Path
	}
	return "ws://" + r.Host + c.set.Path
}

// running reports whether connections are taken.
func (c *Channel) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil
}
