package socket

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/chat"
)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	const secret = `"tokenIssueSecret":"issue-secret-0123456789"`
	for _, tt := range []struct {
		name, section string
		header        map[string]string
		host          string
		want          int
	}{
		{"secret", `{` + secret + `}`, map[string]string{"Authorization": "Bearer issue-secret-0123456789"}, "", 200},
		{"other header", `{` + secret + `}`, map[string]string{"X-Nanobot-Auth": "issue-secret-0123456789"}, "", 200},
		{"token as secret", `{"token":"` + testToken + `"}`, map[string]string{"Authorization": "Bearer " + testToken}, "", 200},
		{"wrong secret", `{` + secret + `}`, map[string]string{"Authorization": "Bearer x"}, "", 401},
		{"no secret", `{` + secret + `}`, nil, "", 401},
		{"page of somebody else", `{` + secret + `}`, map[string]string{"Authorization": "Bearer issue-secret-0123456789", "Origin": "https://evil.example"}, "", 403},
		{"nothing is set up", `{}`, nil, "", 403},
		{"local programs need none", `{"websocketRequiresToken":false}`, nil, "", 200},
		{"picture in a page", `{"websocketRequiresToken":false}`, map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
		{"name of somebody else", `{"websocketRequiresToken":false}`, nil, "evil.example", 403},
		{"passed on", `{"websocketRequiresToken":false}`, map[string]string{"X-Forwarded-For": "192.0.2.1"}, "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, tt.section, func(_ *chat.Deps, o *Options) { o.Model = func() string { return "m1" } })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/webui/bootstrap", nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.header {
				req.Header.Set(k, v)
			}
			req.Host = tt.host
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var got bootstrap
			_ = json.NewDecoder(resp.Body).Decode(&got)
			if resp.StatusCode != tt.want || resp.Header.Get("Cache-Control") != "no-store" || (got.Token != "") != (tt.want == 200) {
				t.Fatalf("status %d with %+v, want %d", resp.StatusCode, got, tt.want)
			}
			if tt.want != 200 {
				return
			}
			if got.Path != "/" || got.Model != "m1" || got.Limits.Message.Text != maxText || got.Limits.Attachments.Count != maxFiles || got.Limits.Transport.Frame != 37748736 {
				t.Errorf("got %+v", got)
			}
			if want := strings.Replace(r.url, "http://", "ws://", 1) + "/"; got.URL != want {
				t.Errorf("address %q, want %q", got.URL, want)
			}
			for i, ok := range []bool{true, false} { // good for one connection
				conn, _, err := ws.Dial(t.Context(), got.URL+"?token="+got.Token, nil) //nolint:bodyclose // closed by Dial
				if err == nil {
					_ = conn.CloseNow()
				}
				if (err == nil) != ok && tt.name != "local programs need none" {
					t.Errorf("connection %d: %v", i+1, err)
				}
			}
		})
	}
}
