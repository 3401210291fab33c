package settings

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// connecting reads a payload about the login of a channel. Platforms whose keys
// stand in the settings have none.
func (ch *channels) connecting(payload json.RawMessage) (in connectInput, err error) {
	if err := web.Decode(payload, &in); err != nil {
		return in, err
	}
	if err := ch.known(in.Name); err != nil {
		return in, err
	}
	if kind, _, _ := strings.Cut(in.Name, "."); ch.Drivers[kind].Login == nil {
		return in, web.Refuse(http.StatusNotImplemented, "%s needs no login: its keys stand in its settings; use settings.channel.configure", in.Name)
	}
	return in, nil
}

type connectInput struct {
	Name   string `json:"name"`
	Force  bool   `json:"force"`  // discard an earlier login
	Answer string `json:"answer"` // to what the step asks
}

// connect starts a login. It goes on after the request.
func (ch *channels) connect(ctx context.Context, payload json.RawMessage) (any, error) {
	in, err := ch.connecting(payload)
	if err != nil {
		return nil, err
	}
	return ch.logins.begin(ctx, "channel:"+in.Name, func(ctx context.Context, l *login) error {
		r, err := ch.LoginChannel(ctx, in.Name, webDialog{l}, in.Force)
		if err == nil {
			ch.Notify(ctx, connected(in.Name, r.Identity))
		}
		return err
	})
}

func connected(name, identity string) phrase.Sentence {
	if identity == "" {
		return phrase.Later("%s was connected in the web interface.", name)
	}
	return phrase.Later("%s was connected in the web interface as %s.", name, identity)
}

// pollConnect waits for the next step of a login, after an answer if there is
// one.
func (ch *channels) pollConnect(ctx context.Context, payload json.RawMessage) (any, error) {
	in, err := ch.connecting(payload)
	if err != nil {
		return nil, err
	}
	return ch.logins.proceed(ctx, "channel:"+in.Name, in.Answer)
}

func (ch *channels) cancelConnect(ctx context.Context, payload json.RawMessage) (any, error) {
	in, err := ch.connecting(payload)
	if err != nil {
		return nil, err
	}
	return map[string]any{}, ch.logins.stop(ctx, "channel:"+in.Name)
}

// logout makes a channel forget its account.
func (ch *channels) logout(ctx context.Context, payload json.RawMessage) (any, error) {
	in, err := ch.connecting(payload)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := strings.Cut(in.Name, "."); ch.Drivers[kind].Logout == nil {
		return nil, web.Refuse(http.StatusNotImplemented, "%s needs no login: its keys stand in its settings; use settings.channel.configure", in.Name)
	}
	if _, ok := ch.Config().Config.Channels.Each[in.Name]; !ok {
		return nil, web.Refuse(http.StatusConflict, "channels.%s is not configured; use settings.channel.configure first", in.Name)
	}

	ch.Log.InfoContext(ctx, "a channel is logged out from the web interface", "channel", in.Name)
	return map[string]any{"name": in.Name}, ch.Channels.Logout(ctx, in.Name)
}

// webDialog is a person at a page.
type webDialog struct{ l *login }

// Tell implements chat.Dialog.
func (d webDialog) Tell(s chat.Step) {
	step := loginStep{URL: s.URL, Code: s.Code, Note: s.Note, QR: s.QR}
	if !s.Expires.IsZero() {
		step.Expires = s.Expires.UTC().Format("2006-01-02T15:04:05Z")
	}
	step.Image = picture(s.QR)
	d.l.publish(step)
}

// picture returns a QR code as an address of itself, "" for nothing.
func picture(text string) string {
	if text == "" {
		return ""
	}
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return ""
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(code.PNG())
}

// invite makes a code with which the owner introduces themselves to a channel, by
// a link if the platform has such.
func (ch *channels) invite(_ context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}
	if err := ch.known(name); err != nil {
		return nil, err
	}
	if kind, _, _ := strings.Cut(name, "."); kind != "telegram" {
		return nil, web.Refuse(http.StatusNotImplemented, "%s has no links with a code; write to the bot and approve the code that it answers with", name)
	}

	for _, s := range ch.Channels.Status() {
		bot, ok := strings.CutPrefix(s.Identity, "@")
		if s.Name != name || s.State != deliver.Running || !ok {
			continue
		}
		code, expires := ch.Channels.Book().Invite(name)
		link := "https://t.me/" + url.PathEscape(bot) + "?start=" + code
		return map[string]any{"url": link, "qr_image": picture(link), "expires": expires.UTC().Truncate(time.Second)}, nil
	}

	return nil, web.Refuse(http.StatusConflict, "%s is not connected yet; try again when it is", name)
}

// restart connects a channel again. The socket of this page is left alone.
func (ch *channels) restart(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := strings.Cut(name, "."); kind == "websocket" {
		return nil, web.Refuse(http.StatusConflict, "%s carries this page; restart the gateway instead", name)
	}

	for _, s := range ch.Channels.Status() {
		if s.Name == name && s.Enabled {
			ch.Log.InfoContext(ctx, "a channel is restarted from the web interface", "channel", name)
			return map[string]any{"name": name}, ch.Channels.Restart(ctx, name)
		}
	}
	return nil, web.Refuse(http.StatusConflict, "channels.%s is not switched on", name)
}

// Ask implements chat.Dialog.
func (d webDialog) Ask(ctx context.Context, q chat.Question) (string, error) {
	d.l.publish(loginStep{Ask: q.Text, Hidden: q.Hidden})
	select {
	case text := <-d.l.pasted:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readSchema describes the settings of a platform, for a form: ?name=telegram.
func (ch *channels) readSchema(_ context.Context, r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	if err := ch.known(name); err != nil {
		return nil, err
	}

	kind, _, _ := strings.Cut(name, ".")
	var all struct {
		Properties struct {
			Channels struct {
				Properties map[string]json.RawMessage `json:"properties"`
				Rest       json.RawMessage            `json:"additionalProperties"`
			} `json:"channels"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(config.Schema(ch.File.Sections), &all); err != nil {
		return nil, err
	}

	schema := all.Properties.Channels.Properties[kind]
	if schema == nil {
		schema = all.Properties.Channels.Rest
	}

	shown, err := shownSections(ch.Config())
	if err != nil {
		return nil, err
	}

	needed := []string{}
	for _, f := range ch.Drivers[kind].Fields() {
		needed = append(needed, f.Name)
	}
	return map[string]any{"name": name, "title": ch.Drivers[kind].Title, "schema": schema, "needed": needed, "settings": shown.Channels[name]}, nil
}
