package dingtalk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	pollEvery  = 3 * time.Second
	codeLife   = 2 * time.Hour
	codesMost  = 3 // that are shown one after the other
	reasonMost = 200

	scanNote = "Scan the code with DingTalk on the phone and confirm. That creates an app with a bot in your organisation."
	oldNote  = "The code has expired; this is a new one. "
)

var errExpired = errors.New("the QR code expired before it was confirmed; try again")

// registration is what DingTalk says while an app is being made.
type registration struct {
	Nonce    string `json:"nonce"`
	Device   string `json:"device_code"`
	Complete string `json:"verification_uri_complete"`
	Interval int    `json:"interval"`
	Expires  int    `json:"expires_in"`
	Status   string `json:"status"`
	Reason   string `json:"fail_reason"`
	ID       string `json:"client_id"`
	Secret   string `json:"client_secret"`
}

// login makes an app by a QR code. Without force an app that works stays.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return chat.Result{}, err
	}
	if !force && o.complete() == nil {
		if report, err := probe(ctx, d, section); err == nil {
			return chat.Result{Identity: report.Identity}, nil
		}
	}
	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Result{}, err
	}
	defer h.CloseIdleConnections()
	c := newClient(o, h, d.Now)
	note := scanNote
	for range codesMost {
		made, err := c.register(ctx, o.LoginSource, p, note)
		if errors.Is(err, errExpired) {
			note = oldNote + scanNote
			continue
		}
		if err != nil {
			return chat.Result{}, fmt.Errorf("make an app: %w", err)
		}
		return chat.Result{Identity: made.ID, Patch: o.patch(made)}, nil
	}
	return chat.Result{}, errExpired
}

// patch is what a new app means for the section. It may be one of another
// organisation, where the same ids are those of other people.
func (o *options) patch(made registration) map[string]any {
	patch := map[string]any{"enabled": true, "clientId": made.ID, "clientSecret": made.Secret}
	if o.ClientID == "" || o.ClientID == made.ID {
		return patch
	}
	for name, list := range map[string][]string{"allowFrom": o.AllowFrom, "owners": o.Owners} {
		if len(list) > 0 {
			patch[name] = []string{}
		}
	}
	return patch
}

// register shows one code and waits until it is used or has expired.
func (c *client) register(ctx context.Context, source string, p chat.Dialog, note string) (registration, error) {
	var begun registration
	err := c.post(ctx, c.oapi+"/app/registration/init", "", map[string]string{"source": source}, &begun)
	if e := refusal(err); e != nil {
		return begun, fmt.Errorf("DingTalk offers this only to programs that it knows, and it does not know loginSource %q (%w); create the app on https://open-dev.dingtalk.com and copy clientId and clientSecret", source, err)
	}
	if err == nil {
		err = c.post(ctx, c.oapi+"/app/registration/begin", "", map[string]string{"nonce": begun.Nonce}, &begun)
	}
	if err == nil && (begun.Device == "" || begun.Complete == "") {
		err = errors.New("DingTalk names no code to scan")
	}
	if err != nil {
		return begun, err
	}

	every, life := time.Duration(begun.Interval)*time.Second, time.Duration(begun.Expires)*time.Second
	if every <= 0 || every > time.Minute {
		every = pollEvery
	}
	if life <= 0 || life > codeLife {
		life = codeLife
	}
	ends := c.now().Add(life)
	p.Tell(chat.Step{QR: begun.Complete, URL: begun.Complete, Note: note, Expires: ends})
	for c.now().Before(ends) {
		if err := wait.For(ctx, every); err != nil {
			return begun, err
		}
		var got registration
		err := c.post(ctx, c.oapi+"/app/registration/poll", "", map[string]string{"device_code": begun.Device}, &got)
		if ctx.Err() != nil {
			return got, ctx.Err()
		}
		if e := refusal(err); e != nil && !e.limited() {
			return got, err
		}
		switch { // without an answer it goes on waiting
		case got.Status == "SUCCESS" && (got.ID == "" || got.Secret == ""):
			return got, errors.New("DingTalk confirmed the code without an app: create it on https://open-dev.dingtalk.com")
		case got.Status == "SUCCESS":
			return got, nil
		case got.Status == "EXPIRED":
			return got, errExpired
		case got.Status == "FAIL":
			return got, errors.New("it was refused on the phone: " + text.Label(or(got.Reason, "no reason is given"), reasonMost))
		}
	}
	return begun, errExpired
}
