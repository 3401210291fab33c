package signal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

// line is a connection on which a test says what arrives.
type line struct{ body io.ReadCloser }

// RoundTrip implements http.RoundTripper.
func (l line) RoundTrip(r *http.Request) (*http.Response, error) {
	go func() {
		<-r.Context().Done()
		_ = l.body.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: l.body, Request: r}, nil
}

// A daemon that says nothing for a minute is given up; one that only says that
// it is there is not.
func TestSilentDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c := newClient("http://signal.test", "+1", &http.Client{Transport: line{r}})
		go func() {
			for range 20 {
				time.Sleep(15 * time.Second)
				_, _ = io.WriteString(w, ":\n")
			}
			_, _ = io.WriteString(w, "data:x\n\n")
		}()
		var got []string
		began := time.Now()
		err := c.events(t.Context(), func() {}, func(data []byte) { got = append(got, string(data)) })
		if took := time.Since(began); !errors.Is(err, errIdle) || took != 20*15*time.Second+idleTime {
			t.Errorf("ended after %v: %v", took, err)
		}
		if strings.Join(got, " ") != "x" {
			t.Errorf("got %q", got)
		}
	})
}

// offline is a channel that reaches nothing; asked is told of every try.
func offline(t *testing.T, changes object, asked func(*http.Request)) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t}
	r.deps = r.Deps("signal")
	r.deps.Client = func(string) (*http.Client, error) { return &http.Client{Transport: nowhere(asked)}, nil }
	r.open("127.0.0.1", 1, changes)
	if err := r.facts.open(signaltest.Number); err != nil {
		t.Fatal(err)
	}
	return r
}

type nowhere func(*http.Request)

// RoundTrip implements http.RoundTripper.
func (n nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	n(r)
	return nil, errors.New("no network here")
}

// Nothing is done for people who may not be here, and in groups that are not
// listed.
func TestRefused(t *testing.T) {
	t.Parallel()
	at := now()
	group := func(data object) object { return from(ann, annUUID, "Ann", at, inGroup(data)) }
	for name, c := range map[string]struct {
		changes  object
		envelope object
	}{
		"stranger":         {envelope: from(bob, "", "Bob", at, object{"message": "hi", "attachments": []object{{"id": "x", "contentType": "text/plain"}}})},
		"dm off":           {changes: object{"dm": object{"enabled": false, "allowFrom": []string{ann}}}, envelope: from(ann, "", "Ann", at, object{"message": "hi"})},
		"groups off":       {changes: object{"group": object{"allowFrom": []string{crowd}, "requireMention": false}}, envelope: group(object{"message": "/help"})},
		"other group":      {changes: object{"group": object{"enabled": true, "allowFrom": []string{"b3RoZXI="}, "requireMention": false}}, envelope: group(object{"message": "/help"})},
		"not mentioned":    {envelope: group(object{"message": "hi"})},
		"stranger there":   {envelope: from(bob, "", "Bob", at, inGroup(object{"message": "/help"}))},
		"receipt":          {envelope: object{"sourceNumber": ann, "timestamp": at, "receiptMessage": object{"isRead": true, "timestamps": []int64{1}}}},
		"typing":           {envelope: object{"sourceNumber": ann, "timestamp": at, "typingMessage": object{"action": "STARTED"}}},
		"sync":             {envelope: object{"sourceNumber": signaltest.Number, "timestamp": at, "syncMessage": object{"sentMessage": object{"message": "x", "destination": ann}}}},
		"our own":          {envelope: from(signaltest.Number, "", "Bot", at, object{"message": "hi"})},
		"reaction":         {envelope: from(ann, "", "Ann", at, object{"message": "", "reaction": object{"emoji": "👍"}})},
		"deletion":         {envelope: from(ann, "", "Ann", at, object{"remoteDelete": object{"timestamp": 1}})},
		"timer":            {envelope: from(ann, "", "Ann", at, object{"message": "", "isExpirationUpdate": true, "expiresInSeconds": 60})},
		"group update":     {envelope: from(ann, "", "Ann", at, object{"groupInfo": object{"groupId": crowd, "type": "UPDATE"}})},
		"empty":            {envelope: from(ann, "", "Ann", at, object{"message": ""})},
		"edit":             {envelope: object{"sourceNumber": ann, "editMessage": object{"targetSentTimestamp": 1, "dataMessage": object{"timestamp": at, "message": "better"}}}},
		"without a source": {envelope: object{"timestamp": at, "dataMessage": object{"timestamp": at, "message": "hi"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r := offline(t, c.changes, func(*http.Request) { asked++ })
				ctx, cancel := context.WithCancel(t.Context())
				in, err := kit.NewIntake(ctx, r.deps, (&receiver{bot: r.bot, submit: r.Submit}).handle)
				if err != nil {
					t.Fatal(err)
				}
				data, err := json.Marshal(object{"account": signaltest.Number, "envelope": c.envelope})
				if err != nil {
					t.Fatal(err)
				}
				r.dispatch(ctx, in, data)
				r.dispatch(ctx, in, []byte(`{"account":"+1555","envelope":{"sourceNumber":"`+ann+`","dataMessage":{"timestamp":5,"message":"for another account"}}}`))
				synctest.Wait()
				cancel()
				in.Wait()
				if got := r.Inbound(); len(got) != 0 || asked != 0 {
					t.Errorf("the agent got %+v, the daemon %d requests", got, asked)
				}
			})
		})
	}
}
