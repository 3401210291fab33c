package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// probe asks the homeserver whether it is one and takes the token. Without one it
// tries the password: the device that this makes is gone at once.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b := ch.(*bot) //nolint:errcheck // it is what newChannel makes
	defer b.client.rest.Client.CloseIdleConnections()
	var versions struct {
		Versions []string `json:"versions"`
	}
	if err := b.client.call(ctx, http.MethodGet, "/_matrix/client/versions", nil, &versions); err != nil {
		return chat.Report{}, b.refusedLogin(err)
	}
	if len(versions.Versions) == 0 {
		return chat.Report{}, fmt.Errorf("%s is not a Matrix homeserver: it names no version of the protocol. Check homeserver", b.o.Homeserver)
	}

	checks := []chat.Check{{Name: "homeserver", OK: true, Detail: b.o.Homeserver}}

	if b.dir, err = d.Dir(); err != nil {
		return chat.Report{}, err
	}

	saved := b.saved(ctx)
	if b.o.Password.IsZero() {
		saved = account{Token: b.o.AccessToken.Reveal(), Device: b.o.DeviceID}
	}

	login := chat.Check{Name: "login", OK: true, Detail: "the password is right"}
	if saved.Token != "" {
		err := b.resume(ctx, saved)
		if err != nil && (b.o.Password.IsZero() || !loggedOut(err)) {
			return chat.Report{}, b.refusedLogin(err)
		}
		login.Detail = "device " + b.device
	}

	if b.device == "" { // no token, or one that is not valid any more
		if err := b.tryPassword(ctx); err != nil {
			return chat.Report{}, b.refusedLogin(err)
		}
		login.Detail = "the password is right"
	}

	secure := chat.Check{Name: "encryption", OK: true, Detail: "keys are kept in the account's folder"}
	switch {
	case !b.o.E2EEEnabled:
		secure.Detail = "off (e2eeEnabled): encrypted rooms cannot be read"
	case !linked:
		secure.OK, secure.Detail = false, "this program was built without it: use a released one, or build with: go install -tags goolm"
	}

	checks = append(checks, login, secure)
	if linked && b.o.E2EEEnabled && b.device != "" {
		checks = append(checks, b.verified(ctx))
	}
	return chat.Report{Identity: b.o.UserID, Checks: checks}, nil
}

// tryPassword logs in by password and out again.
func (b *bot) tryPassword(ctx context.Context) error {
	b.client.token.Store(nil)
	var got struct {
		Token string `json:"access_token"`
	}
	body := map[string]any{
		"type": "m.login.password", "identifier": map[string]string{"type": "m.id.user", "user": b.o.UserID},
		"password": b.o.Password.Reveal(), "initial_device_display_name": "nanobot (test of the settings)",
	}
	if err := b.client.call(ctx, http.MethodPost, clientV3+"/login", body, &got); err != nil {
		return err
	}

	token := httpsafe.NewSecret(got.Token)
	b.client.token.Store(&token)
	defer b.client.token.Store(nil)
	if err := b.client.call(ctx, http.MethodPost, clientV3+"/logout", struct{}{}, nil); err != nil {
		b.deps.Log.WarnContext(ctx, "the device of a test of the password is left; remove it in the settings of the account", "err", err)
	}
	return nil
}

// verified says whether people see the device as verified.
func (b *bot) verified(ctx context.Context) chat.Check {
	c := chat.Check{Name: "verification", OK: true, Detail: "the device is signed by its account"}
	p, err := b.published(ctx)
	switch {
	case err != nil:
		c.OK, c.Detail = false, chat.Explain(err).Error()
	case p.device == "":
		c.Detail = "the device gets its keys when the gateway starts"
	case !p.signed:
		c.Detail = "the device is not signed, and people see a red shield; run: " + b.fix()
	}

	return c
}
