package teams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// known reports by the headers whether a request may be one of Teams. Without
// the check of signatures only programs of this machine may send any.
func (b *bot) known(r *http.Request) bool {
	if b.o.ValidateInboundAuth {
		return strings.Count(bearerOf(r), ".") == 2
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	local := err == nil && httpsafe.LoopbackHost(host)
	for _, field := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		local = local && r.Header.Get(field) == ""
	}
	return local
}

// bearerOf returns the token of a request.
func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// receive answers a request: what is authentic and may concern us is held on
// the disk first.
func (b *bot) receive(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx := r.Context()
	var a activity
	if err := json.Unmarshal(body, &a); err != nil && (a.Type == "" || a.Conversation.ID == "") {
		b.complain(ctx, "it is not an activity", err)
		kit.Reply(w, http.StatusBadRequest)
		return
	}

	if b.o.ValidateInboundAuth {
		err := b.auth.verify(ctx, bearerOf(r), &a)
		if e, ok := errors.AsType[*forgedError](err); ok {
			b.complain(ctx, "its token is not one of Teams: "+e.why, nil)
			kit.Reply(w, http.StatusUnauthorized)
			return
		}

		if err != nil {
			b.complain(ctx, "its token cannot be checked now", err)
			kit.Reply(w, http.StatusServiceUnavailable)
			return
		}
	}

	if why := b.outside(&a); why != "" {
		b.complain(ctx, why, nil)
		accept(w)
		return
	}

	switch a.Type {
	case "message", "messageUpdate", "conversationUpdate", "installationUpdate":
	case "invoke":
		if a.Name != consentInvoke {
			kit.Reply(w, http.StatusNotImplemented)
			return
		}

	default:
		accept(w)
		return
	}

	b.hold(ctx, w, &a, body)
}

// hold keeps an activity and tells Teams that it arrived.
func (b *bot) hold(ctx context.Context, w http.ResponseWriter, a *activity, body []byte) {
	place, _ := a.place()
	sum := sha256.Sum256(body)
	key := a.Type + "/" + place + "/" + cmp.Or(a.ID, hex.EncodeToString(sum[:8]))
	if a.Type == "messageUpdate" {
		key += "/" + a.Timestamp
	}

	in := b.in.Load()
	if in == nil {
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}

	if err := in.Hold(ctx, place, key, *a); err != nil {
		if !errors.Is(err, chat.ErrStopping) {
			b.complain(ctx, "it cannot be kept and is left to Teams", err)
		}
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}

	accept(w)
}

// outside says why an authentic activity does not concern us, "" if it may.
func (b *bot) outside(a *activity) string {
	switch {
	case a.ChannelID != "msteams":
		return "it is of another service than Teams"
	case b.o.TenantID != "" && !strings.EqualFold(a.tenant(), b.o.TenantID):
		return "it is of another directory than tenantId"
	case !b.o.trusted(a.ServiceURL):
		return "its serviceUrl is not in trustedServiceUrlHosts"
	}
	return ""
}

// accept answers as Teams expects it.
func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}
