package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

const (
	callWait   = 2 * time.Minute // longer than an agent may take to end its turns
	answerMost = 16 << 20        // bytes
)

// Client talks to the gateway that runs with a data folder. Every call returns an
// error that is daemon.ErrNotRunning if there is none.
type Client struct{ dataDir string }

// To returns the client of the gateway of a configuration. It connects with the first call.
func To(l *config.Loaded) Client { return Client{l.DataDir} }

// Status tells how the gateway is.
func (c Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.call(ctx, http.MethodGet, "/status", nil, &s)
}

// Reload makes the gateway read its configuration again.
func (c Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/reload", nil, nil)
}

// Restart makes the gateway start again.
func (c Client) Restart(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/restart", nil, nil)
}

// Link asks for a way to the pages.
func (c Client) Link(ctx context.Context, want WantedLink) (l Link, err error) {
	return l, c.call(ctx, http.MethodPost, "/web/link", want, &l)
}

// Devices returns the browsers that the gateway knows.
func (c Client) Devices(ctx context.Context) (d Devices, err error) {
	return d, c.call(ctx, http.MethodGet, "/web/devices", nil, &d)
}

// Decide lets a browser in, turns it away or signs it out.
func (c Client) Decide(ctx context.Context, d Decision) error {
	return c.call(ctx, http.MethodPost, "/web/devices", d, nil)
}

// Probe asks the platform of a channel whether its section works.
func (c Client) Probe(ctx context.Context, name string) (r chat.Report, err error) {
	return r, c.call(ctx, http.MethodPost, ofChannel(name, "test"), nil, &r)
}

// RestartChannel stops a channel and starts it again.
func (c Client) RestartChannel(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, ofChannel(name, "restart"), nil, nil)
}

// Logout makes a channel forget its account.
func (c Client) Logout(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, ofChannel(name, "logout"), nil, nil)
}

// Address finds the chat that a route names.
func (c Client) Address(ctx context.Context, to bus.Route) (found bus.Route, err error) {
	return found, c.call(ctx, http.MethodPost, ofChannel(to.Channel, "address"), to, &found)
}

// Send keeps a message for a chat until it is delivered, and returns which chat it is.
func (c Client) Send(ctx context.Context, out bus.Outbound) (to bus.Route, err error) {
	return to, c.call(ctx, http.MethodPost, ofChannel(out.Route.Channel, "send"), out, &to)
}

func ofChannel(name, what string) string { return "/channels/" + url.PathEscape(name) + "/" + what }

// call asks for something; out is nil if nothing but the error matters.
func (c Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	body, err := c.start(ctx, method, path, in)
	if err != nil {
		return err
	}

	defer body.Close() //nolint:errcheck // only read
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(body, answerMost)).Decode(out)
}

// start makes a request and returns the answer, which the caller closes.
func (c Client) start(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}

	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, body)
	if err != nil {
		return nil, err
	}

	resp, err := httpsafe.Local(datadir.GatewaySock.In(c.dataDir), 0).Do(req)
	if err != nil {
		if _, gone := errors.AsType[*net.OpError](err); gone {
			return nil, fmt.Errorf("the gateway is %w: start it with: nanobot gateway", daemon.ErrNotRunning)
		}
		return nil, err
	}

	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}

	defer resp.Body.Close() //nolint:errcheck // only read
	var e struct{ Error string }
	if json.NewDecoder(io.LimitReader(resp.Body, answerMost)).Decode(&e) != nil || e.Error == "" {
		e.Error = resp.Status
	}
	return nil, errors.New(e.Error)
}
