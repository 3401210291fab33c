package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	registrationPath = "/oauth/v1/app/registration"
	registrationTime = 10 * time.Second // for one request
	pollEvery        = 5 * time.Second
	codeLife         = 10 * time.Minute
	loginCodes       = 3 // that are shown one after the other
	scanNote         = "Scan the code with the Feishu or Lark app, or open the address, and confirm. That creates an app with a bot that is yours."
)

// registration is what Feishu says while an app is being made.
type registration struct {
	Methods   []string `json:"supported_auth_methods"`
	Device    string   `json:"device_code"`
	Complete  string   `json:"verification_uri_complete"`
	Interval  int      `json:"interval"`
	ExpireIn  int      `json:"expire_in"`
	ExpiresIn int      `json:"expires_in"`
	ID        string   `json:"client_id"`
	Secret    string   `json:"client_secret"`
	User      struct {
		OpenID string `json:"open_id"`
		Brand  string `json:"tenant_brand"`
	} `json:"user_info"`
	Error   string `json:"error"`
	Details string `json:"error_description"`
}

// registrar makes an app.
type registrar struct {
	o    account
	rest kit.REST
	now  func() time.Time
	made registration // after the code was confirmed
}

// login makes an app by a QR code. Without force an app that works stays.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	o, err := decode(section, false)
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
	r := &registrar{o: o, now: d.Now, rest: kit.REST{Client: h, Base: o.accounts(), Judge: judgeRegistration, Within: registrationTime}}
	first, err := r.ask(ctx, url.Values{"action": {"init"}})
	if err != nil {
		return chat.Result{}, err
	}
	if !slices.Contains(first.Methods, "client_secret") {
		return chat.Result{}, errors.New("Feishu does not offer to make an app this way; make one in the developer console, and set appId and appSecret") //nolint:staticcheck // a name begins the sentence
	}

	err = kit.QR{Dialog: p, Now: d.Now, Codes: loginCodes, Show: r.show}.Run(ctx)
	switch {
	case errors.Is(err, kit.ErrExpired):
		return chat.Result{}, errors.New("make an app: no code was scanned: try again")
	case err != nil:
		return chat.Result{}, fmt.Errorf("make an app: %w", err)
	}
	return r.result(r.made), nil
}

// show begins a registration.
func (r *registrar) show(ctx context.Context, _ int) (kit.Code, error) {
	begun, err := r.ask(ctx, url.Values{"action": {"begin"}, "archetype": {"PersonalAgent"}, "auth_method": {"client_secret"}, "request_user_info": {"open_id"}})
	switch {
	case err != nil:
		return kit.Code{}, err
	case begun.Error != "":
		return kit.Code{}, begun.refusal()
	case begun.Device == "" || begun.Complete == "":
		return kit.Code{}, errors.New("Feishu names no code to scan") //nolint:staticcheck // a name begins the sentence
	}

	ends := r.now().Add(kit.Seconds(cmp.Or(begun.ExpireIn, begun.ExpiresIn), codeLife, time.Hour))
	return kit.Code{
		Step:  chat.Step{QR: begun.Complete, URL: begun.Complete, Note: scanNote, Expires: ends},
		Every: kit.Seconds(begun.Interval, pollEvery, time.Hour),
		Poll:  func(ctx context.Context) (kit.Scan, error) { return r.poll(ctx, begun.Device) },
	}, nil
}

// poll asks what became of a code.
func (r *registrar) poll(ctx context.Context, device string) (kit.Scan, error) {
	got, err := r.ask(ctx, url.Values{"action": {"poll"}, "device_code": {device}, "tp": {"ob_app"}})
	if err != nil {
		return kit.ScanWaits, nil //nolint:nilerr // the network may come back
	}

	if got.User.Brand == domainLark && r.o.Domain != domainLark {
		r.o.Domain, r.o.APIBaseURL = domainLark, ""
		if r.o.AccountsBaseURL == "" {
			r.rest.Base = r.o.accounts()
		}
	}

	switch {
	case got.ID != "" && got.Secret != "":
		r.made = got
		return kit.ScanConfirmed, nil
	case got.Error == "", got.Error == "authorization_pending":
		return kit.ScanWaits, nil
	case got.Error == "slow_down":
		return kit.ScanSlower, nil
	case got.Error == "expired_token":
		return kit.ScanExpired, nil
	}

	return kit.ScanWaits, got.refusal()
}

func (g *registration) refusal() error {
	if g.Error == "access_denied" {
		return errors.New("it was refused on the phone")
	}
	return errors.New("Feishu says: " + text.Label(g.Error+" "+g.Details, msgShown))
}

// result returns what the new app means for the section. People have other ids with
// it, so those of another app are forgotten.
func (r *registrar) result(got registration) chat.Result {
	app := identity(r.o.Domain, got.ID)
	patch := map[string]any{
		"enabled": true, "appId": got.ID, "appSecret": got.Secret, "domain": r.o.Domain, "identityKey": app,
	}
	before := identity(r.o.Domain, r.o.AppID)
	for name, list := range map[string][]string{"allowFrom": r.o.AllowFrom, "owners": r.o.Owners} {
		if name == "owners" && len(list) == 0 {
			continue // the people in allowFrom are owners
		}

		if list = slices.Clone(list); before != "" && before != app {
			list = []string{}
		}
		if me := got.User.OpenID; me != "" && !slices.Contains(list, me) {
			list = append(list, me)
		}
		patch[name] = list
	}

	return chat.Result{Identity: app, Patch: patch}
}

// ask makes a request.
func (r *registrar) ask(ctx context.Context, form url.Values) (got registration, err error) {
	err = r.rest.Do(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   registrationPath,
		Name:   "ask the accounts server",
		Body:   kit.URLEncoded(form),
	}, &got)
	return got, err
}

// judgeRegistration reads what the accounts server said. What is not ready yet is told with the
// status 400.
func judgeRegistration(a kit.Answer) (json.RawMessage, error) {
	var got registration
	if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusOK && got.Error == "" {
		return nil, fmt.Errorf("the accounts server answers with HTTP status %d and no JSON as expected", a.Status)
	}
	return a.Body, nil
}
