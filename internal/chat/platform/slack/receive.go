package slack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxHook   = 4 << 20         // bytes of a request
	maxFrame  = 8 << 20         // bytes of an envelope
	clockSkew = 5 * time.Minute // between Slack's clock and ours
)

// The kinds of payloads, by the words of Socket Mode.
const (
	kindEvent   = "events_api"
	kindTap     = "interactive"
	kindCommand = "slash_commands"
)

// listen receives by Socket Mode until ctx ends.
func (b *bot) listen(ctx context.Context, work *sync.WaitGroup) error {
	return socket.Run(ctx, socket.Options{
		Client:   b.http,
		MaxFrame: maxFrame,
		Ping:     b.silence / 3,
		Silence:  b.silence,
		Dial: func(ctx context.Context) (socket.Target, error) {
			_, address, err := b.api.StartSocketModeContext(ctx)
			return socket.Target{URL: address}, err
		},
		Open: func(open context.Context, c *socket.Conn) error {
			f, err := c.Next(open)
			if err != nil {
				return err
			}

			var hello struct {
				Type string `json:"type"`
			}
			if err := json.Unmarshal(f.Data, &hello); err != nil || hello.Type != "hello" {
				return fmt.Errorf("Slack does not say hello: %.100q", f.Data) //nolint:staticcheck // a name begins the sentence
			}

			b.connected(ctx, work)
			return nil
		},
		Receive: b.frame,
		Lost: func(err error) error {
			b.deps.Ready(b.identity(), err)
			switch fatal := b.web.refusedToken("appToken", err); {
			case chat.IsFatal(fatal):
				return socket.Fatal(fatal)
			case errors.Is(err, errDisabled):
				return socket.Fatal(chat.Fatal(err))
			case errors.Is(err, errRefresh):
				return socket.After(0, err)
			}

			return err
		},
	})
}

var (
	errRefresh  = errors.New("Slack asks for another connection")                                                                //nolint:staticcheck // a name begins the sentence
	errDisabled = errors.New("Socket Mode is switched off for the Slack app; enable it in the app's settings under Socket Mode") //nolint:staticcheck // a name begins the sentence
)

// frame handles one frame of Socket Mode. An envelope is confirmed once it is
// on disk; one that cannot be kept comes again.
func (b *bot) frame(ctx context.Context, c *socket.Conn, f socket.Frame) error {
	var e struct {
		ID      string          `json:"envelope_id"`
		Type    string          `json:"type"`
		Reason  string          `json:"reason"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(f.Data, &e); err != nil {
		b.web.report(ctx, "Slack sent something that is not understood", "frame", err)
		return nil
	}

	switch {
	case e.Type == "disconnect" && e.Reason == "link_disabled":
		return errDisabled
	case e.Type == "disconnect" && e.Reason != "warning":
		return errRefresh
	case e.ID == "":
		return nil
	}

	if err := b.accept(ctx, e.Type, e.Payload); err != nil {
		b.web.report(ctx, "an event of Slack could not be kept and is left for another try", "hold", err)
		return nil
	}

	ack, err := json.Marshal(map[string]string{"envelope_id": e.ID})
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: ack})
}

// accept keeps a payload. Nil means that Slack may forget it: also if nothing
// comes of it.
func (b *bot) accept(ctx context.Context, kind string, payload json.RawMessage) error {
	e := event{Bot: b.me.Load().UserID}
	var chatID, key string
	var err error
	switch kind {
	case kindEvent:
		var outer callback
		if err = json.Unmarshal(payload, &outer); err == nil {
			e.Message, err = b.interesting(outer.Event)
		}
		if m := e.Message; m != nil {
			chatID, key = m.Channel, b.id(m)
		}

	case kindTap:
		if err = json.Unmarshal(payload, &e.Tap); err == nil && e.Tap != nil && e.Tap.Type == "block_actions" && len(e.Tap.Actions) > 0 {
			chatID, key = e.Tap.Channel.ID, "tap."+e.Tap.Trigger
		}
	case kindCommand:
		if err = json.Unmarshal(payload, &e.Command); err == nil && e.Command != nil {
			chatID, key = e.Command.Channel, "command."+e.Command.Trigger
		}
	}

	if err != nil {
		b.web.report(ctx, "Slack sent something that is not understood", kind, err)
		return nil
	}

	in := b.in.Load()
	switch {
	case chatID == "":
		return nil
	case in == nil:
		return chat.ErrStopping
	}
	return in.Hold(ctx, chatID, key, e)
}

// post receives a request of the Events API.
func (b *bot) post(w http.ResponseWriter, r *http.Request, body []byte) {
	if !b.signed(r.Header, body) {
		kit.Reply(w, http.StatusUnauthorized)
		return
	}

	kind, payload, err := unwrap(r.Header.Get("Content-Type"), body)
	var outer callback
	if err == nil && kind == kindEvent {
		err = json.Unmarshal(payload, &outer)
	}

	switch {
	case err != nil:
		b.web.report(r.Context(), "Slack sent something that is not understood", "request", err)
		kit.Reply(w, http.StatusBadRequest)
	case outer.Type == "url_verification":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(outer.Challenge))
	default:
		if err := b.accept(r.Context(), kind, payload); err != nil {
			b.web.report(r.Context(), "an event of Slack could not be kept and is left for another try", "hold", err)
			kit.Reply(w, http.StatusServiceUnavailable)
			return
		}
		kit.Reply(w, http.StatusOK)
	}
}

// signed reports whether Slack sent a request, and sent it now.
func (b *bot) signed(h http.Header, body []byte) bool {
	stamp := h.Get("X-Slack-Request-Timestamp")
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || b.deps.Now().Sub(time.Unix(n, 0)).Abs() > clockSkew {
		return false
	}
	mac := hmac.New(sha256.New, []byte(b.o.SigningSecret.Reveal()))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(body)
	return kit.SameSecret(h.Get("X-Slack-Signature"), "v0="+hex.EncodeToString(mac.Sum(nil)))
}

// unwrap finds the payload of a request: JSON, or a form for buttons and
// commands.
func unwrap(contentType string, body []byte) (kind string, payload json.RawMessage, err error) {
	if t, _, _ := mime.ParseMediaType(contentType); t != "application/x-www-form-urlencoded" {
		return kindEvent, bytes.TrimSpace(body), nil
	}

	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", nil, err
	}
	if p := form.Get("payload"); p != "" {
		return kindTap, json.RawMessage(p), nil
	}

	all := map[string]string{}
	for k := range form {
		all[k] = form.Get(k)
	}

	payload, err = json.Marshal(all)
	return kindCommand, payload, err
}
