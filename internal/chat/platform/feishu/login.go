package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	registrationPath = "/oauth/v1/app/registration"
	registrationTime = 10 * time.Second // for one request
	pollEvery        = 5 * time.Second
	codeLife         = 10 * time.Minute
	loginCodes       = 3 // that are shown one after the other
	scanNote         = "Scan the code with the Feishu or Lark app, or open the address, and confirm. That creates an app with a bot that is yours."
)

var errExpired = errors.New("the code has expired")

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
	http *http.Client
	base string
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
	r := &registrar{o: o, http: h, base: o.accounts()}
	first, err := r.ask(ctx, url.Values{"action": {"init"}})
	if err != nil {
		return chat.Result{}, err
	}
	if !slices.Contains(first.Methods, "client_secret") {
		return chat.Result{}, errors.New("Feishu does not offer to make an app this way; make one in the developer console, and set appId and appSecret") //nolint:staticcheck // a name begins the sentence
	}
	for range loginCodes {
		got, err := r.code(ctx, d, p)
		if errors.Is(err, errExpired) {
			continue
		}
		if err != nil {
			return chat.Result{}, fmt.Errorf("make an app: %w", err)
		}
		return r.result(got), nil
	}
	return chat.Result{}, errors.New("make an app: no code was scanned: try again")
}

// code shows one code and waits until it is used or has expired.
func (r *registrar) code(ctx context.Context, d chat.Deps, p chat.Dialog) (registration, error) {
	begun, err := r.ask(ctx, url.Values{"action": {"begin"}, "archetype": {"PersonalAgent"}, "auth_method": {"client_secret"}, "request_user_info": {"open_id"}})
	switch {
	case err != nil:
		return begun, err
	case begun.Error != "":
		return begun, begun.refusal()
	case begun.Device == "" || begun.Complete == "":
		return begun, errors.New("Feishu names no code to scan") //nolint:staticcheck // a name begins the sentence
	}
	every := max(time.Duration(begun.Interval)*time.Second, time.Second)
	if begun.Interval <= 0 {
		every = pollEvery
	}
	life := time.Duration(cmp.Or(begun.ExpireIn, begun.ExpiresIn)) * time.Second
	if life <= 0 || life > time.Hour {
		life = codeLife
	}
	ends := d.Now().Add(life)
	p.Tell(chat.Step{QR: begun.Complete, URL: begun.Complete, Note: scanNote, Expires: ends})
	for d.Now().Before(ends) {
		if err := wait.For(ctx, every); err != nil {
			return begun, err
		}
		got, err := r.ask(ctx, url.Values{"action": {"poll"}, "device_code": {begun.Device}, "tp": {"ob_app"}})
		if ctx.Err() != nil {
			return got, ctx.Err()
		}
		if err != nil {
			continue // the network may come back
		}
		if got.User.Brand == domainLark && r.o.Domain != domainLark {
			r.o.Domain, r.o.APIBaseURL = domainLark, ""
			if r.o.AccountsBaseURL == "" {
				r.base = r.o.accounts()
			}
		}
		switch {
		case got.ID != "" && got.Secret != "":
			return got, nil
		case got.Error == "slow_down":
			every += 5 * time.Second
		case got.Error == "expired_token":
			return got, errExpired
		case got.Error != "" && got.Error != "authorization_pending":
			return got, got.refusal()
		}
	}
	return begun, errExpired
}

func (g *registration) refusal() error {
	if g.Error == "access_denied" {
		return errors.New("it was refused on the phone")
	}
	return errors.New("Feishu says: " + text.Label(g.Error+" "+g.Details, msgShown))
}

// result is what the new app means for the section. People have other ids with
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

// ask makes a request. What is not ready yet is told with the status 400.
func (r *registrar) ask(ctx context.Context, form url.Values) (got registration, err error) {
	ctx, cancel := context.WithTimeout(ctx, registrationTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+registrationPath, strings.NewReader(form.Encode()))
	if err != nil {
		return got, httpsafe.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := r.http.Do(req)
	if err != nil {
		return got, fmt.Errorf("ask the accounts server: %w", httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return got, err
	}
	if err := json.Unmarshal(data, &got); err != nil || res.StatusCode != http.StatusOK && got.Error == "" {
		return got, fmt.Errorf("the accounts server answers with HTTP status %d and no JSON as expected", res.StatusCode)
	}
	return got, nil
}
