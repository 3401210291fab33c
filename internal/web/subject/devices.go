package subject

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"rsc.io/qr"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Devices are the browsers that are signed in, for the owner.
type Devices struct {
	Auth   *auth.Server
	Public func() string // address of the pages for other machines; "" if none is set
}

// Routes implements web.Subject.
func (d Devices) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{"devices": d.list},
		Actions: map[string]web.Action{
			"device.approve": d.decide(true),
			"device.deny":    d.decide(false),
			"device.revoke":  web.Changing(d.revoke, web.TopicDevices),
			"device.link":    web.Changing(d.link, web.TopicDevices),
		},
	}
}

func (d Devices) list(ctx context.Context, _ *http.Request) (any, error) {
	list, err := d.Auth.Devices(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"devices": append([]auth.Device{}, list...), "waiting": append([]auth.Pending{}, d.Auth.Waiting()...)}, nil
}

// decide lets a device in that waits, or turns it away.
func (d Devices) decide(allow bool) web.Action {
	return web.Changing(func(_ context.Context, payload json.RawMessage) (any, error) {
		var in struct {
			Digits string `json:"digits"`
		}
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}
		if err := d.Auth.Decide(in.Digits, allow); err != nil {
			return nil, web.Refuse(http.StatusNotFound, "no device waits with these digits; another device may have answered, or the request has expired")
		}
		return struct{}{}, nil
	}, web.TopicDevices)
}

func (d Devices) revoke(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	err := d.Auth.Revoke(ctx, in.ID)
	if errors.Is(err, auth.ErrUnknown) {
		return nil, web.Refuse(http.StatusNotFound, "this device is not signed in")
	}
	return struct{}{}, err
}

// link signs another device in, once: the address for its browser, also as a QR code.
func (d Devices) link(_ context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Base string `json:"base"` // the address that the page uses
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	base := in.Base
	if public := d.Public(); public != "" {
		base = public
	}

	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, web.Refuse(http.StatusBadRequest, "base must be the address of the page")
	case httpsafe.LoopbackHost(u.Hostname()):
		return nil, web.Refuse(http.StatusConflict, "other devices cannot use this address: set gateway.webui.publicUrl, or open the page under an address that they reach")
	}

	u.RawQuery, u.Fragment = "", ""
	link := strings.TrimRight(u.String(), "/") + "/#/in/" + d.Auth.Link()
	code, err := qr.Encode(link, qr.L)
	if err != nil {
		return nil, err
	}
	return map[string]any{"link": link, "image": "data:image/png;base64," + base64.StdEncoding.EncodeToString(code.PNG()), "expires_in": int(auth.LinkLife.Seconds())}, nil
}
