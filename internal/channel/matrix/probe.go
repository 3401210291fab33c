package matrix

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/channel"
)

// probe asks the homeserver whether it is one and takes the token. It does not
// log in by password: each login makes a device that people see.
func probe(ctx context.Context, d channel.Deps, section json.RawMessage) (channel.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return channel.Report{}, err
	}
	b := ch.(*bot) //nolint:errcheck // it is what newChannel makes
	defer b.client.http.CloseIdleConnections()
	var versions struct {
		Versions []string `json:"versions"`
	}
	if err := b.client.call(ctx, http.MethodGet, "/_matrix/client/versions", nil, &versions); err != nil {
		return channel.Report{}, b.refusedLogin(err)
	}
	checks := []channel.Check{{Name: "homeserver", OK: true, Detail: b.o.Homeserver}}

	if b.dir, err = d.Dir(); err != nil {
		return channel.Report{}, err
	}
	saved := b.saved(ctx)
	if b.o.Password.IsZero() {
		saved = account{Token: b.o.AccessToken.Reveal(), Device: b.o.DeviceID}
	}
	login := channel.Check{Name: "login", OK: true, Detail: "the password is used when the gateway starts"}
	if saved.Token != "" {
		if err := b.resume(ctx, saved); err != nil && (b.o.Password.IsZero() || !loggedOut(err)) {
			return channel.Report{}, b.refusedLogin(err)
		}
		login.Detail = "device " + b.device
	}
	secure := channel.Check{Name: "encryption", OK: true, Detail: "keys are kept in the account's folder"}
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
	return channel.Report{Identity: b.o.UserID, Checks: checks}, nil
}

// verified says whether people see the device as verified.
func (b *bot) verified(ctx context.Context) channel.Check {
	c := channel.Check{Name: "verification", OK: true, Detail: "the device is signed by its account"}
	p, err := b.published(ctx)
	switch {
	case err != nil:
		c.OK, c.Detail = false, err.Error()
	case p.device == "":
		c.Detail = "the device gets its keys when the gateway starts"
	case !p.signed:
		c.Detail = "the device is not signed, and people see a red shield; run: " + b.fix()
	}
	return c
}
