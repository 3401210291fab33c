package telegram

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

func hooked(more map[string]any) map[string]any {
	out := map[string]any{
		"mode": "webhook", "webhookUrl": "https://me.example/hook", "webhookSecretToken": "s3cret-0123456789", "webhookListenPort": 0,
	}
	maps.Copy(out, more)
	return out
}

// push delivers an update as Telegram does and returns the status.
func (r *rig) push(id int, body object) int {
	r.t.Helper()
	all := object{"update_id": id}
	maps.Copy(all, body)
	data, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.pushRaw(http.MethodPost, "s3cret-0123456789", data)
}

func (r *rig) pushRaw(method, secret string, data []byte) int {
	req := httptest.NewRequestWithContext(r.t.Context(), method, "/telegram", bytes.NewReader(data))
	req.Header.Set(secretField, secret)
	rec := httptest.NewRecorder()
	h, ok := r.Routes()["/telegram"]
	if !ok {
		r.t.Fatal("no route")
	}
	h.ServeHTTP(rec, req)
	return rec.Code
}

func words(id int, text string) object {
	const chatID = int64(42)
	return object{"message": object{"message_id": id, "date": 1, "text": text, "chat": private(chatID), "from": object{"id": chatID, "first_name": "Ann"}}}
}

func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	offline(t, hooked(nil), func(t *testing.T, r *rig) {
		good, err := json.Marshal(object{"update_id": 1, "message": words(1, "hi")["message"]})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.pushRaw(http.MethodPost, "s3cret-0123456789", good); got != http.StatusServiceUnavailable {
			t.Errorf("before Run: %d, want 503", got)
		}
		end := r.begin()
		time.Sleep(time.Second)
		for name, c := range map[string]struct {
			method, secret string
			data           []byte
			want           int
		}{
			"forged":    {http.MethodPost, "other", good, 401},
			"no secret": {http.MethodPost, "", good, 401},
			"get":       {http.MethodGet, "s3cret-0123456789", nil, 405},
			"broken":    {http.MethodPost, "s3cret-0123456789", []byte("{"), 400},
			"no number": {http.MethodPost, "s3cret-0123456789", []byte("{}"), 400},
			"odd":       {http.MethodPost, "s3cret-0123456789", []byte(`{"update_id":9,"message":1}`), 200},
			"large":     {http.MethodPost, "s3cret-0123456789", bytes.Repeat([]byte(" "), maxHook+1), 413},
		} {
			if got := r.pushRaw(c.method, c.secret, c.data); got != c.want {
				t.Errorf("%s: %d, want %d", name, got, c.want)
			}
		}
		if len(r.Inbound()) != 0 {
			t.Errorf("messages %q", r.texts())
		}
		if got := r.pushRaw(http.MethodPost, "s3cret-0123456789", good); got != http.StatusOK || len(r.Inbound()) != 1 {
			t.Errorf("a good one: %d, %d messages", got, len(r.Inbound()))
		}
		end()
		if got := r.pushRaw(http.MethodPost, "s3cret-0123456789", good); got != http.StatusServiceUnavailable {
			t.Errorf("after Run: %d, want 503", got)
		}
	})
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	offline(t, hooked(nil), func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Second)
		if r.fake.Webhook() != "https://me.example/hook" || r.fake.Polls() != 0 {
			t.Errorf("webhook %q, %d polls", r.fake.Webhook(), r.fake.Polls())
		}
		if c := r.fake.Calls("setWebhook"); len(c) != 1 || c[0].Params["secret_token"] != "s3cret-0123456789" || c[0].Params["max_connections"] != "4" {
			t.Errorf("setWebhook: %+v", c)
		}
		for range 2 { // Telegram repeats what it got no answer for
			if got := r.push(1, words(1, "hi")); got != 200 {
				t.Errorf("status %d", got)
			}
		}
		// Not durable: no 200 until it is, and a repetition waits for the same.
		r.Refuse(errDisk)
		codes := make(chan int, 2)
		for range 2 {
			go func() { codes <- r.push(2, words(2, "two")) }()
		}
		for range 2 {
			if got := <-codes; got != http.StatusServiceUnavailable {
				t.Errorf("while the disk is full: %d, want 503", got)
			}
		}
		r.Refuse(nil)
		if got := r.push(2, words(2, "two")); got != 200 {
			t.Errorf("after that: %d, want 200", got)
		}
		if got := r.texts(); !cmp.Equal(got, []string{"hi", "two"}) {
			t.Errorf("messages %q", got)
		}
		end()
	})
}

// Parts of an album are answered at once, since Telegram sends the next part
// only then, and survive a restart.
func TestWebhookAlbum(t *testing.T) {
	t.Parallel()
	offline(t, hooked(nil), func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Second)
		part := func(update int, name, caption string) {
			t.Helper()
			p := photo(r, "g", name, caption)
			p["message_id"], p["from"] = update, object{"id": 42, "first_name": "Ann"}
			began := time.Now()
			if got := r.push(update, object{"message": p}); got != 200 || time.Since(began) > 0 {
				t.Errorf("%s: %d after %s", name, got, time.Since(began))
			}
		}
		part(1, "a.jpg", "look")
		part(1, "a.jpg", "look") // repeated
		part(2, "b.jpg", "")
		end()
		if len(r.Inbound()) != 0 {
			t.Fatalf("messages %q before the album is complete", r.texts())
		}
		r.reopen(hooked(nil))
		end = r.begin()
		time.Sleep(time.Second)
		if got := r.Inbound(); len(got) != 1 || len(got[0].Media) != 2 {
			t.Fatalf("after the restart: %+v", got)
		}
		part(3, "c.jpg", "more")
		time.Sleep(albumWait - 1)
		part(4, "d.jpg", "")
		time.Sleep(albumWait - 1)
		part(6, "e.jpg", "")
		if got := r.push(5, words(5, "well?")); got != 200 {
			t.Errorf("status %d", got)
		}
		got := r.texts()
		if len(got) != 3 || !strings.HasPrefix(got[1], "more\n> files: [image: ") || strings.Count(got[1], "[image: ") != 3 || got[2] != "well?" {
			t.Errorf("messages %q", got)
		}
		end()
		r.Forget()
		r.reopen(hooked(nil))
		end = r.begin()
		time.Sleep(time.Second)
		if got := r.texts(); len(got) != 0 {
			t.Errorf("%q were still held", got)
		}
		end()
	})
}

// What an older version held in its state is handed over once; what was held
// for another bot is not.
func TestWebhookHeldBefore(t *testing.T) {
	t.Parallel()
	offline(t, hooked(nil), func(t *testing.T, r *rig) {
		m := photo(r, "", "a.jpg", "look")
		m["message_id"], m["from"] = 7, object{"id": 42, "first_name": "Ann"}
		if err := r.deps.State.Save(object{"bot": r.o.bot(), "at": time.Now(), "held": []object{{"update_id": 7, "message": m}}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} {
			r.Forget()
			r.reopen(hooked(nil))
			end := r.begin()
			time.Sleep(time.Second)
			end()
			if got := r.texts(); len(got) != want {
				t.Errorf("messages %q, want %d", got, want)
			}
		}
	})
}

// A message with a member that we do not know may have words of somebody else,
// also after it was held.
func TestWebhookHeldWords(t *testing.T) {
	t.Parallel()
	offline(t, hooked(nil), func(t *testing.T, r *rig) {
		r.Refuse(chat.ErrStopping)
		end := r.begin()
		time.Sleep(time.Second)
		m := photo(r, "", "a.jpg", "words of another")
		m["message_id"], m["from"], m["dictated_by"] = 7, object{"id": 42, "first_name": "Ann"}, object{"id": 66}
		if got := r.push(7, object{"message": m}); got != 200 {
			t.Fatalf("status %d", got)
		}
		end()
		r.Refuse(nil)
		r.reopen(hooked(nil))
		end = r.begin()
		time.Sleep(time.Second)
		if got := r.texts(); len(got) != 1 || !strings.HasPrefix(got[0], "\n> not typed by the sender: words of another") {
			t.Errorf("messages %q", got)
		}
		end()
	})
}
