package settings

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// channels are chat platforms, who may talk there, and the API.
type channels struct {
	*editor

	logins   *logins
	Channels *deliver.Manager
	Drivers  map[string]chat.Driver
	// TryChannels makes channels that are never run.
	TryChannels func(l *config.Loaded, sections map[string]json.RawMessage) (*deliver.Manager, error)
	// LoginChannel connects a channel to an account.
	LoginChannel func(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error)
	// API tells where the API listens, and whether it is served there.
	API func(cfg config.Config) (net.Addr, bool)
}

// Routes implements web.Subject.
func (ch *channels) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"settings/api-service":      ch.readAPIService,
			"settings/pairing":          ch.readPairing,
			"settings/nanobot-features": ch.readFeatures,
			"settings/channel-schema":   ch.readSchema,
		},
		Actions: map[string]web.Action{
			"settings.feature.enable":         web.Changing(ch.switchChannel(true), web.TopicChannels, web.TopicSettings),
			"settings.feature.disable":        web.Changing(ch.switchChannel(false), web.TopicChannels, web.TopicSettings),
			"settings.channel.validate":       web.Changing(ch.validateChannel),
			"settings.channel.configure":      web.Changing(ch.configureChannel, web.TopicChannels, web.TopicSettings),
			"settings.api_service.start":      web.Changing(ch.switchAPI(true), web.TopicSettings),
			"settings.api_service.stop":       web.Changing(ch.switchAPI(false), web.TopicSettings),
			"settings.pairing.approve":        web.Changing(ch.answerPairing(true), web.TopicPairing),
			"settings.pairing.deny":           web.Changing(ch.answerPairing(false), web.TopicPairing),
			"settings.pairing.revoke":         web.Changing(ch.revokePairing, web.TopicPairing),
			"settings.pairing.invite":         web.Changing(ch.invite, web.TopicPairing),
			"settings.channel.restart":        web.Changing(ch.restart, web.TopicChannels, web.TopicSettings),
			"settings.channel.logout":         web.Changing(ch.logout, web.TopicChannels, web.TopicSettings),
			"settings.channel.connect.start":  web.Changing(ch.connect, web.TopicChannels, web.TopicSettings),
			"settings.channel.connect.poll":   web.Changing(ch.pollConnect, web.TopicChannels, web.TopicSettings),
			"settings.channel.connect.cancel": web.Changing(ch.cancelConnect, web.TopicChannels, web.TopicSettings),
		},
	}
}

// known refuses a channel whose platform is unknown; a second account has a
// name such as telegram.work.
func (ch *channels) known(name string) error {
	kind, _, _ := strings.Cut(name, ".")
	all := ch.Drivers
	if all[kind].New != nil && plainName(name) && !strings.HasSuffix(name, ".") {
		return nil
	}
	return web.Refuse(http.StatusNotFound, "unknown channel %q; known channels: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// judgeChannel says why a section cannot be used; it makes the channel without
// running it, whether or not it is switched on.
func (ch *channels) judgeChannel(l *config.Loaded, name string) error {
	var section map[string]json.RawMessage
	if json.Unmarshal(l.Config.Channels.Each[name].Raw.JSON(), &section) != nil || section == nil {
		section = map[string]json.RawMessage{}
	}

	section["enabled"] = json.RawMessage("true")
	text, err := json.Marshal(section)
	if err != nil {
		return err
	}

	m, err := ch.TryChannels(l, map[string]json.RawMessage{name: text})
	if err != nil {
		return err
	}

	for _, s := range m.Status() {
		if s.Error != "" {
			return web.Refuse(http.StatusUnprocessableEntity, "channels.%s: %s", s.Name, s.Error)
		}
	}
	return nil
}

// probeWait is how long a platform may take to say whether a section works.
const probeWait = 30 * time.Second

// probeChannel asks the platform whether a section works.
func (ch *channels) probeChannel(ctx context.Context, l *config.Loaded, name string) (chat.Report, error) {
	m, err := ch.TryChannels(l, map[string]json.RawMessage{name: l.Config.Channels.Each[name].Raw.JSON()})
	if err != nil {
		return chat.Report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	return m.Probe(ctx, name)
}

func (ch *channels) switchChannel(on bool) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}
		if err := ch.known(in.Name); err != nil {
			return nil, err
		}

		e := edit{make: func(now *config.Loaded) (any, error) {
			if _, ok := now.Config.Channels.Each[in.Name]; !ok && !on {
				return nil, web.Refuse(http.StatusNotFound, "channels.%s is not configured", in.Name)
			}
			return under(on, "channels", in.Name, "enabled"), nil
		}}
		if on {
			e.check = func(next *config.Loaded) error { return ch.judgeChannel(next, in.Name) }
		}
		return ch.change(ctx, e)
	}
}

// validateChannel says whether a section could be used, without saving it, and
// asks its platform.
func (ch *channels) validateChannel(ctx context.Context, payload json.RawMessage) (any, error) {
	e, err := ch.channelEdit(payload, true)
	if err != nil {
		return nil, err
	}

	_, next, _, err := ch.prepare(e)
	why, refused := errors.AsType[*web.Error](refuseEdit(err))
	switch {
	case err == nil:
		report, err := ch.probeChannel(ctx, next, e.channel)
		if err != nil {
			return map[string]any{"valid": false, "error": ch.Secrets.Redact(err.Error())}, nil
		}
		return map[string]any{"valid": true, "identity": report.Identity, "checks": append([]chat.Check{}, report.Checks...)}, nil
	case refused && why.Status == http.StatusUnprocessableEntity:
		return map[string]any{"valid": false, "error": why.Message}, nil
	}

	return nil, refuseEdit(err)
}

func (ch *channels) configureChannel(ctx context.Context, payload json.RawMessage) (any, error) {
	e, err := ch.channelEdit(payload, false)
	if err != nil {
		return nil, err
	}
	return ch.change(ctx, e)
}

// channelEdit reads a payload with the settings of a channel. One that is
// switched off may be incomplete, unless always is set.
func (ch *channels) channelEdit(payload json.RawMessage, always bool) (edit, error) {
	var in named
	if err := web.Decode(payload, &in); err != nil {
		return edit{}, err
	}

	if always && len(in.Settings) == 0 {
		in.Settings = json.RawMessage("{}")
	}

	if err := isObject(in.Settings, "settings"); err != nil {
		return edit{}, err
	}
	if err := ch.known(in.Name); err != nil {
		return edit{}, err
	}
	return edit{
		channel: in.Name,
		make:    func(*config.Loaded) (any, error) { return under(in.Settings, "channels", in.Name), nil },
		check: func(next *config.Loaded) error {
			if !always && !next.Config.Channels.Each[in.Name].Enabled {
				return nil
			}
			return errors.Join(ch.judgeChannel(next, in.Name), lockOut(next, in.Name))
		},
	}, nil
}

// lockOut refuses settings of the socket with which the person who changes them
// could not come back.
func lockOut(l *config.Loaded, name string) error {
	var s struct {
		AllowFrom        []string        `json:"allowFrom"`
		Token            string          `json:"token"`
		TokenIssueSecret string          `json:"tokenIssueSecret"`
		TrustedProxyAuth json.RawMessage `json:"trustedProxyAuth"`
	}
	if kind, _, _ := strings.Cut(name, "."); kind != "websocket" {
		return nil
	}
	if err := json.Unmarshal(l.Config.Channels.Each[name].Raw.JSON(), &s); err != nil {
		return web.Refuse(http.StatusUnprocessableEntity, "channels.%s: %v", name, err)
	}

	switch {
	case s.AllowFrom != nil && len(s.AllowFrom) == 0:
		return web.Refuse(http.StatusUnprocessableEntity, "channels.%s.allowFrom: no client could connect; list client ids, or \"*\" for all clients with the token", name)
	case s.Token == "" && s.TokenIssueSecret == "" && (len(s.TrustedProxyAuth) == 0 || string(s.TrustedProxyAuth) == "null"):
		return web.Refuse(http.StatusUnprocessableEntity, "channels.%s: no client could change settings here; keep token, tokenIssueSecret or trustedProxyAuth, or remove them from the file by hand", name)
	}
	return nil
}

// featureState is a chat platform this program knows, or a section.
type featureState struct {
	Name       string            `json:"name"`
	Title      string            `json:"title,omitempty"` // of the platform
	Login      bool              `json:"login,omitempty"` // it is connected with settings.channel.connect
	Logout     bool              `json:"logout,omitempty"`
	Configured bool              `json:"configured"`
	Enabled    bool              `json:"enabled"`
	State      deliver.Condition `json:"state"`
	Reason     string            `json:"reason,omitempty"`
	Identity   string            `json:"identity,omitempty"`
	Since      time.Time         `json:"since,omitzero"` // of the state
	Retry      time.Time         `json:"retry,omitzero"`
	Received   int               `json:"received,omitempty"`
	Sent       int               `json:"sent,omitempty"`
}

func (ch *channels) readFeatures(context.Context, *http.Request) (any, error) {
	list := map[string]featureState{}
	for name := range ch.Drivers {
		list[name] = featureState{Name: name, State: deliver.Stopped}
	}

	for name, c := range ch.Config().Config.Channels.Each {
		list[name] = featureState{Name: name, Configured: true, Enabled: c.Enabled, State: deliver.Stopped}
	}

	for _, s := range ch.Channels.Status() {
		if _, known := list[s.Name]; !known {
			continue // the terminals of this machine: nothing can be set
		}
		list[s.Name] = featureState{
			Name:       s.Name,
			Configured: true,
			Enabled:    s.Enabled,
			State:      s.State,
			Reason:     s.Error,
			Identity:   s.Identity,
			Since:      s.Since.UTC(),
			Retry:      s.Retry.UTC(),
			Received:   s.Received,
			Sent:       s.Sent,
		}
	}

	out := []featureState{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		f := list[name]
		kind, _, _ := strings.Cut(name, ".")
		d := ch.Drivers[kind]
		f.Title = d.Title
		f.Login = d.Login != nil
		f.Logout = d.Logout != nil && f.Configured
		out = append(out, f)
	}

	return map[string]any{"channels": out}, nil
}

// switchAPI turns the API on the gateway's port on or off.
func (ch *channels) switchAPI(on bool) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		in := struct {
			Settings json.RawMessage `json:"settings"`
		}{}
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}

		patch := map[string]any{"gateway": map[string]any{"api": on}}
		if len(in.Settings) > 0 {
			if err := isObject(in.Settings, "settings"); err != nil {
				return nil, err
			}
			patch["api"] = in.Settings
		}

		done, err := ch.change(ctx, edit{make: always(patch)})
		if err != nil {
			return nil, err
		}
		return struct {
			edited
			Service apiState `json:"service"`
		}{done, ch.apiService()}, nil
	}
}

// apiState is how the API of the gateway is served.
type apiState struct {
	Enabled bool   `json:"enabled"`
	Served  bool   `json:"served"`
	Address string `json:"address,omitempty"` // "": the program around us serves it
	BaseURL string `json:"base_url,omitempty"`
	Key     bool   `json:"key_required"`
	Reason  string `json:"reason,omitempty"` // why it is not served
}

func (ch *channels) apiService() apiState {
	cfg := ch.Config().Config
	s := apiState{Enabled: cfg.Gateway.API, Key: !cfg.API.APIKey.IsZero()}
	addr, legal := ch.API(cfg)
	if addr != nil {
		s.Address, s.BaseURL = addr.String(), "http://"+addr.String()+"/v1"
	}

	switch {
	case !s.Enabled:
		s.Reason = "it is switched off (gateway.api)"
	case !legal:
		s.Reason = "other machines can reach it: set api.apiKey to 16 characters or more, or gateway.host to 127.0.0.1"
	default:
		s.Served = true
	}

	return s
}

func (ch *channels) readAPIService(context.Context, *http.Request) (any, error) {
	return ch.apiService(), nil
}

// person is a sender who was admitted.
type person struct {
	Channel string `json:"channel"`
	Sender  string `json:"sender_id"`
	Owner   bool   `json:"owner"`
}

func (ch *channels) readPairing(context.Context, *http.Request) (any, error) {
	p := ch.Channels.Book()
	waiting, approved, err := p.List()
	if err != nil {
		return nil, err
	}

	people := []person{}
	for _, name := range slices.Sorted(maps.Keys(approved)) {
		for _, who := range approved[name] {
			known, err := p.Known(name, who)
			if err != nil {
				return nil, err
			}
			people = append(people, person{name, who, known.Owner})
		}
	}

	for i := range waiting {
		waiting[i].Expires = waiting[i].Expires.UTC()
	}
	return map[string]any{"pending": append([]access.PairingRequest{}, waiting...), "approved": people}, nil
}

func (ch *channels) answerPairing(approve bool) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var in struct {
			Code  string `json:"code"`
			Owner bool   `json:"owner"`
		}
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}

		p := ch.Channels.Book()
		settle, what := p.Deny, phrase.Later("denied")
		switch {
		case approve && in.Owner:
			settle, what = p.ApproveOwner, phrase.Later("let in as the owner")
		case approve:
			settle, what = p.Approve, phrase.Later("let in")
		case in.Owner:
			return nil, web.Refuse(http.StatusBadRequest, "owner belongs to approve")
		}

		who, err := settle(ctx, in.Code)
		if errors.Is(err, access.ErrNoSuchCode) {
			return nil, web.Refuse(http.StatusNotFound, "%v", err)
		}
		if errors.Is(err, access.ErrManyCodes) {
			return nil, web.Refuse(http.StatusTooManyRequests, "%v", err)
		}
		if err != nil {
			return nil, err
		}

		ch.notifyPairing(ctx, who.Channel, who.Sender, what)
		return person{who.Channel, who.Sender, in.Owner}, nil
	}
}

func (ch *channels) revokePairing(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Channel string `json:"channel"` // "" is all
		Sender  string `json:"sender_id"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Sender == "" {
		return nil, web.Refuse(http.StatusBadRequest, "say who: sender_id")
	}

	from, err := ch.Channels.Book().Revoke(ctx, in.Channel, in.Sender)
	if err != nil {
		return nil, err
	}
	if len(from) == 0 {
		return nil, web.Refuse(http.StatusNotFound, "%s was not let in", in.Sender)
	}

	ch.notifyPairing(ctx, strings.Join(from, ", "), in.Sender, phrase.Later("shut out"))
	return map[string]any{"sender_id": in.Sender, "channels": from}, nil
}

// notifyPairing logs a change of who may talk to the agent, and tells the owner.
func (ch *channels) notifyPairing(ctx context.Context, where, who string, what phrase.Sentence) {
	ch.Log.InfoContext(ctx, "pairing was changed in the web interface", "channel", where, "sender", who, "what", what.String())
	ch.Notify(ctx, phrase.Later("%s on %s was %s in the web interface.", who, where, what))
}
