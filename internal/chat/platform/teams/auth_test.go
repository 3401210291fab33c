package teams

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
)

// Only requests that Teams signed for this bot are accepted, and a forged one
// causes nothing but a line in the log.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	now := time.Now().Unix()
	plain := fake.Activity("1", "owner", mine, "hi", nil)
	signed := func(key string, changes teamstest.Object) string { return fake.Sign(key, fake.Claims(changes)) }
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims(fake.Claims(nil))).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	hmac := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(fake.Claims(nil)))
	hmac.Header["kid"] = teamstest.KeyID
	public, err := hmac.SignedString(fake.PrivateKey(teamstest.KeyID))
	if err != nil {
		t.Fatal(err)
	}
	good := signed(teamstest.KeyID, nil)
	entra := teamstest.Object{"iss": "https://sts.windows.net/" + teamstest.Tenant + "/", "serviceurl": nil, "tid": teamstest.Tenant}
	with := func(base teamstest.Object, more teamstest.Object) teamstest.Object {
		out := teamstest.Object{}
		for _, m := range []teamstest.Object{base, more} {
			maps.Copy(out, m)
		}
		return out
	}
	for _, c := range []struct {
		name, token string
		activity    teamstest.Object
		want        int
	}{
		{"good", good, nil, http.StatusOK},
		{"a clock that is four minutes ahead", signed(teamstest.KeyID, teamstest.Object{"nbf": now + 240}), nil, http.StatusOK},
		{"no token", "", nil, http.StatusUnauthorized},
		{"words", "a.b.c", nil, http.StatusUnauthorized},
		{"no signature", none, nil, http.StatusUnauthorized},
		{"HMAC with a key", public, nil, http.StatusUnauthorized},
		{"a changed byte", good[:len(good)-8] + "AAAAAAAA", nil, http.StatusUnauthorized},
		{"the audience of all bots", signed(teamstest.KeyID, teamstest.Object{"aud": "https://api.botframework.com"}), nil, http.StatusUnauthorized},
		{"another bot", signed(teamstest.KeyID, teamstest.Object{"aud": "99999999-2222-4333-8444-555555555555"}), nil, http.StatusUnauthorized},
		{"another issuer", signed(teamstest.KeyID, teamstest.Object{"iss": "https://example.com"}), nil, http.StatusUnauthorized},
		{"expired", signed(teamstest.KeyID, teamstest.Object{"exp": now - 600}), nil, http.StatusUnauthorized},
		{"not valid yet", signed(teamstest.KeyID, teamstest.Object{"nbf": now + 600}), nil, http.StatusUnauthorized},
		{"no end", signed(teamstest.KeyID, teamstest.Object{"exp": nil}), nil, http.StatusUnauthorized},
		{"no beginning", signed(teamstest.KeyID, teamstest.Object{"nbf": nil}), nil, http.StatusUnauthorized},
		{"a key for other services", signed(teamstest.OtherKey, nil), nil, http.StatusUnauthorized},
		{"a key of another issuer", signed(teamstest.EntraKey, nil), nil, http.StatusUnauthorized},
		{"no address", signed(teamstest.KeyID, teamstest.Object{"serviceurl": nil}), nil, http.StatusUnauthorized},
		{"another address", good, teamstest.Object{"serviceUrl": "https://smba.trafficmanager.net/emea/"}, http.StatusUnauthorized},
		{"the bot's own directory", signed(teamstest.EntraKey, with(entra, teamstest.Object{"appid": teamstest.AppID})), nil, http.StatusOK},
		{"the same in the second version", signed(teamstest.EntraKey, with(entra, teamstest.Object{"iss": "https://login.microsoftonline.com/" + teamstest.Tenant + "/v2.0", "azp": teamstest.AppID})), nil, http.StatusOK},
		{"another application of the directory", signed(teamstest.EntraKey, with(entra, teamstest.Object{"appid": "99999999-2222-4333-8444-555555555555"})), nil, http.StatusUnauthorized},
		{"an application without a name", signed(teamstest.EntraKey, entra), nil, http.StatusUnauthorized},
		{"another directory", signed(teamstest.EntraKey, with(entra, teamstest.Object{"tid": "other", "appid": teamstest.AppID})), nil, http.StatusUnauthorized},
		{"another directory's issuer", signed(teamstest.EntraKey, with(entra, teamstest.Object{"iss": "https://sts.windows.net/other/", "appid": teamstest.AppID})), nil, http.StatusUnauthorized},
		{"a key of the Bot Framework for the directory", signed(teamstest.KeyID, with(entra, teamstest.Object{"appid": teamstest.AppID})), nil, http.StatusUnauthorized},
	} {
		a := with(plain, c.activity)
		a["id"], a["text"] = c.name, c.name
		body, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is a repetition, or a second forgery
			if status, _ := fake.Deliver(c.token, body); status != c.want {
				t.Errorf("%s: the bot answered %d, want %d", c.name, status, c.want)
			}
		}
	}
	got := r.receive(4)
	for i, want := range []string{"good", "a clock that is four minutes ahead", "the bot's own directory", "the same in the second version"} {
		if len(got) != 4 || got[i].Text != want {
			t.Fatalf("message %d of %d is %q, want %q", i, len(got), got[i].Text, want)
		}
	}
	lines := map[string]int{}
	for line := range strings.Lines(r.Log.String()) {
		if _, cause, ok := strings.Cut(line, "cause="); ok {
			lines[cause]++
		}
	}
	for cause, n := range lines {
		if n > 1 {
			t.Errorf("%d lines about %s", n, cause)
		}
	}
	if len(lines) < 8 {
		t.Errorf("the log says %v", lines)
	}
}

// Teams changes its keys: one that is not known is looked up, but not for each
// request of somebody who makes them up.
func TestKeysChange(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	r.say("1", "before", nil)
	fake.Roll()
	body := func(id string) []byte {
		data, err := json.Marshal(fake.Activity(id, "owner", mine, id, nil))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	next := fake.Sign(teamstest.KeyID+"-next", fake.Claims(nil))
	if status, _ := fake.Deliver(next, body("2")); status != http.StatusUnauthorized {
		t.Fatalf("the list was read again at once, want a pause: %d", status)
	}
	r.auth.framework.mu.Lock()
	r.auth.framework.tried = time.Now().Add(-time.Hour)
	r.auth.framework.mu.Unlock()
	if status, _ := fake.Deliver(next, body("2")); status != http.StatusOK {
		t.Fatalf("a new key is answered with %d", status)
	}
	for i := range 20 {
		made := strings.Replace(next, ".", base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "x%d", i))+".", 1)
		fake.Deliver(made, body("3"))
	}
	if _, fetches := fake.Issued(); fetches != 2 {
		t.Errorf("the keys were read %d times, want 2", fetches)
	}
	r.receive(2)
}

// While the keys cannot be read Teams is asked to come again.
func TestKeysOutOfReach(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	fake.Fail(teamstest.Failure{Part: "/openid", Status: http.StatusServiceUnavailable})
	r := newRig(t, fake, nil)
	defer r.begin()()
	r.say("1", "hi", nil) // the fake repeats it
	r.receive(1)
}

// Without the check of signatures only programs of this machine are listened to.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	r := newRig(t, fake, map[string]any{"validateInboundAuth": false})
	defer r.begin()()
	body, err := json.Marshal(fake.Activity("1", "owner", mine, "hi", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, field string
		want        int
	}{
		{"127.0.0.1:5", "", http.StatusOK},
		{"192.0.2.1:5", "", http.StatusUnauthorized},
		{"127.0.0.1:5", "X-Forwarded-For", http.StatusUnauthorized},
		{"127.0.0.1:5", "Forwarded", http.StatusUnauthorized},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/messages", strings.NewReader(string(body)))
		req.RemoteAddr = c.from
		if c.field != "" {
			req.Header.Set(c.field, "192.0.2.1")
		}
		rec := httptest.NewRecorder()
		r.Routes()["/api/messages"].ServeHTTP(rec, req)
		if rec.Code != c.want {
			t.Errorf("%+v is answered with %d", c, rec.Code)
		}
	}
	if !strings.Contains(r.Log.String(), "validateInboundAuth is off") {
		t.Error("the log does not warn")
	}
}
