package dingtalk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	pollEvery  = 3 * time.Second
	codeLife   = 2 * time.Hour
	codesMost  = 3 // that are shown one after the other
	everyMost  = time.Minute
	reasonMost = 200

	scanNote = "Scan the code with DingTalk on the phone and confirm. That creates an app with a bot in your organisation."
	oldNote  = "The code has expired; this is a new one. "
)

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
	s := &signIn{calls: newClient(o, h, d.Now), now: d.Now}
	err = kit.QR{Dialog: p, Now: d.Now, Codes: codesMost, Show: s.show}.Run(ctx)
	switch {
	case errors.Is(err, kit.ErrExpired):
		return chat.Result{}, err
	case err != nil:
		return chat.Result{}, fmt.Errorf("make an app: %w", err)
	}
	return chat.Result{Identity: s.made.ID, Patch: o.patch(s.made)}, nil
}

// patch returns what a new app means for the section. It may be one of another
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

// signIn makes an app by a QR code.
type signIn struct {
	calls *client
	now   func() time.Time
	made  registration // after the code was confirmed
}

// show begins a registration.
func (s *signIn) show(ctx context.Context, n int) (kit.Code, error) {
	source := s.calls.o.LoginSource
	var begun registration
	err := s.post(ctx, "init", map[string]string{"source": source}, &begun)
	if e := refusal(err); e != nil {
		return kit.Code{}, fmt.Errorf("DingTalk offers this only to programs that it knows, and it does not know loginSource %q (%w); create the app on https://open-dev.dingtalk.com and copy clientId and clientSecret", source, err)
	}

	if err == nil {
		err = s.post(ctx, "begin", map[string]string{"nonce": begun.Nonce}, &begun)
	}
	if err == nil && (begun.Device == "" || begun.Complete == "") {
		err = errors.New("DingTalk names no code to scan")
	}

	if err != nil {
		return kit.Code{}, err
	}

	note := scanNote
	if n > 0 {
		note = oldNote + scanNote
	}

	ends := s.now().Add(kit.Seconds(begun.Expires, codeLife, codeLife))
	return kit.Code{
		Step:  chat.Step{QR: begun.Complete, URL: begun.Complete, Note: note, Expires: ends},
		Every: kit.Seconds(begun.Interval, pollEvery, everyMost),
		Poll:  func(ctx context.Context) (kit.Scan, error) { return s.poll(ctx, begun.Device) },
	}, nil
}

// poll asks what became of a code. Without an answer it goes on waiting.
func (s *signIn) poll(ctx context.Context, device string) (kit.Scan, error) {
	var got registration
	err := s.post(ctx, "poll", map[string]string{"device_code": device}, &got)
	if e := refusal(err); e != nil && !e.limited() {
		return kit.ScanWaits, err
	}

	switch got.Status {
	case "SUCCESS":
		if got.ID == "" || got.Secret == "" {
			return kit.ScanWaits, errors.New("DingTalk confirmed the code without an app: create it on https://open-dev.dingtalk.com")
		}
		s.made = got
		return kit.ScanConfirmed, nil

	case "EXPIRED":
		return kit.ScanExpired, nil
	case "FAIL":
		return kit.ScanWaits, errors.New("it was refused on the phone: " + text.Label(or(got.Reason, "no reason is given"), reasonMost))
	}

	return kit.ScanWaits, nil
}

func (s *signIn) post(ctx context.Context, step string, body map[string]string, result *registration) error {
	return s.calls.post(ctx, s.calls.o.OAPIBaseURL+"/app/registration/"+step, body, result)
}
