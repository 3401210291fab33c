package gateway_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web"
)

// step is what a page shows during a login.
type step struct {
	State, QR, Ask, Note string
	Image                string `json:"qr_image"`
}

func (o office) connect(action, payload string) (s step, err error) {
	o.t.Helper()
	out, _, err := o.api.Do(o.t.Context(), "settings.channel.connect."+action, json.RawMessage(payload))
	if err == nil {
		o.must(json.Unmarshal(out, &s))
	}
	return s, err
}

// A person logs in from a page: a code to scan, a question, the end.
func TestConnectFromPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	s, err := o.connect("start", `{"name": "party"}`)
	o.must(err)
	for s.Ask == "" { // the code comes first
		if s.QR != "door:1" || !strings.HasPrefix(s.Image, "data:image/png;base64,iVBOR") {
			t.Fatalf("the first step is %+v", s)
		}
		s, err = o.connect("poll", `{"name": "party"}`)
		o.must(err)
	}
	if _, err := o.connect("cancel", `{"name": "party"}`); err != nil {
		t.Fatal(err)
	}
	_, err = o.connect("poll", `{"name": "party", "answer": "bob"}`)
	if e, ok := errors.AsType[*web.Error](err); !ok || e.Status != http.StatusNotFound {
		t.Errorf("after the end: %v", err)
	}

	s, err = o.connect("start", `{"name": "party", "force": true}`)
	for o.must(err); s.Ask == ""; o.must(err) {
		s, err = o.connect("poll", `{"name": "party"}`)
	}
	for s, err = o.connect("poll", `{"name": "party", "answer": "bob"}`); s.State != "done"; s, err = o.connect("poll", `{"name": "party"}`) {
		o.must(err)
	}
	if !strings.Contains(o.file(), "t-bob-true") {
		t.Errorf("the file is %s", o.file())
	}
}
