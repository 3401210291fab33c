package weixin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// Files of Python nanobot are read, and ours have all that it reads.
func TestPythonAccounts(t *testing.T) {
	t.Parallel()
	const head = `"get_updates_buf": "buf-0", "context_tokens": {"` + ann + `": "c1"}, "typing_tickets": {"` + ann + `": {"ticket": "t", "ever_succeeded": true, "next_fetch_at": 1e12, "retry_delay_s": 2}}, "base_url": "https://idc.weixin.qq.com"`
	for name, text := range map[string]string{
		"0.1.5":     `{"token": "` + weixintest.Token + `", ` + head + `}`,
		"head":      `{"token": "` + weixintest.Token + `", ` + head + `, "replaced_config_token_sha256": "` + fingerprint("old") + `"}`,
		"extra key": `{"token": "` + weixintest.Token + `", "future": {"x": 1}, ` + head + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, object{"token": ""})
			r.written(text)
			end := r.begin()
			if got := r.account.context(ann); got != "c1" {
				t.Errorf("context token %q", got)
			}
			if s, _ := r.account.session(); s.base != "https://idc.weixin.qq.com" {
				t.Errorf("the account lives at %q", s.base)
			}
			if ticket, err := r.ticket(t.Context(), session{}, ann); ticket != "t" || err != nil {
				t.Errorf("ticket %q, %v", ticket, err)
			}
			id := r.fake.Say(ann, "hi")
			r.receive(1)
			r.Await("the cursor", func() bool { return r.fake.Acked(id) })
			end()
			got := r.kept()
			if got["token"] != weixintest.Token || got["get_updates_buf"] != "buf-1" || got["base_url"] != "https://idc.weixin.qq.com" {
				t.Errorf("account.json: %v", got)
			}
			if tokens, ok := got["context_tokens"].(map[string]any); !ok || tokens[ann] == "c1" || tokens[ann] == "" {
				t.Errorf("context tokens %v", got["context_tokens"])
			}
			ticket := object{"ticket": "t", "ever_succeeded": true, "next_fetch_at": 1e12, "retry_delay_s": 2.0}
			if d := cmp.Diff(any(object{ann: ticket}), got["typing_tickets"]); d != "" {
				t.Errorf("tickets: %s", d)
			}
		})
	}
}

// Parts of the file that are not as expected are left out, as Python does.
func TestStrangeAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": ""})
	for _, text := range []string{
		`{"token": "x", "context_tokens": [], "typing_tickets": 7, "base_url": null, "get_updates_buf": {}, "context_spent": {"u": null}}`,
		`{"token": "x", "base_url": "http://evil.example"}`,
	} {
		r.written(text)
		if there, err := r.account.load(r.path); !there || err != nil {
			t.Errorf("%s: %v, %v", text, there, err)
		}
		if s, _ := r.account.session(); s.base != r.fake.URL() {
			t.Errorf("%s: the account lives at %q", text, s.base)
		}
	}
	r.written(`{"token": "x`)
	if _, err := r.account.load(r.path); err == nil || !strings.Contains(err.Error(), "log in again") {
		t.Error(err)
	}
}

// A channel that still runs does not overwrite the account of a later login.
func TestLaterLoginStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": ""})
	r.written(`{"token": "` + weixintest.Token + `"}`)
	if there, err := r.account.load(r.path); !there || err != nil {
		t.Fatal(there, err)
	}
	r.written(`{"token": "newer"}`)
	r.account.advance("buf-7")
	if err := r.account.save(); !errors.Is(err, errReplaced) {
		t.Error(err)
	}
	if got := r.kept()["token"]; got != "newer" {
		t.Errorf("account.json has the token %v", got)
	}
}

// The running channel goes on with the account of a later login.
func TestReplacedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": ""})
	r.written(`{"token": "` + weixintest.Token + `", "ilink_bot_id": "one"}`)
	defer r.begin()()
	r.fake.Tokens(weixintest.Token, "newer")
	r.written(`{"token": "newer", "ilink_bot_id": "two"}`)
	r.fake.Say(ann, "hi") // its context token is to be kept, which finds the other account
	r.Await("the other account", func() bool { s := r.States(); return s[len(s)-1] == "two" })
	if got := r.kept()["token"]; got != "newer" {
		t.Errorf("account.json has the token %v", got)
	}
}

// Of many people those who wrote last are remembered.
func TestManyPeople(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if _, err := r.account.load(r.path); err != nil {
		t.Fatal(err)
	}
	for i := range peopleMost + 5 {
		user := fmt.Sprintf("u%04d", i)
		r.account.admit(user, "c", time.Time{})
		r.account.record.Spent[user].At = int64(i)
	}
	if n := len(r.account.record.Contexts); n != peopleMost || r.account.context("u0004") != "" || r.account.context("u0005") == "" {
		t.Errorf("%d people, the fifth %q, the sixth %q", n, r.account.context("u0004"), r.account.context("u0005"))
	}
}

// The account is where the section says.
func TestStateDir(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := filepath.Join(t.TempDir(), "deep")
	o, err := chat.Read(section(t, r.fake, object{"stateDir": dir}), defaults())
	if err != nil {
		t.Fatal(err)
	}
	path, err := accountPath(r.deps, o)
	if err != nil || path != filepath.Join(dir, "account.json") {
		t.Errorf("%q, %v", path, err)
	}
	if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// What was sent with a context token counts: before its person was let in, after
// an earlier message came again, and when the process dies.
func TestBudgetIsKept(t *testing.T) {
	t.Parallel()
	most := defaults().ContextMessageBudget
	first := time.Now()
	later := first.Add(time.Second)
	left := func(t *testing.T, r *rig) (n int) {
		t.Helper()
		for {
			token, ok, _ := r.account.spend(ann, 0)
			if !ok {
				return n
			}
			if n++; token != "second" {
				t.Fatalf("a message with the token %q", token)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(r *rig)
		want int
	}{
		"let in": {func(r *rig) {
			r.account.met(ann, "second", later)
			r.account.spend(ann, 0)
			r.account.admit(ann, "second", later)
		}, most - 1},
		"an earlier message again": {func(r *rig) {
			r.account.admit(ann, "first", first)
			r.account.admit(ann, "second", later)
			r.account.spend(ann, 0)
			r.account.met(ann, "first", first)
			r.account.spend(ann, 0)
			r.account.admit(ann, "first", first)
		}, most - 2},
		"a later message": {func(r *rig) {
			r.account.admit(ann, "first", first)
			r.account.spend(ann, 0)
			r.account.admit(ann, "second", later)
		}, most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			if _, err := r.account.load(r.path); err != nil {
				t.Fatal(err)
			}
			c.do(r)
			if n := left(t, r); n != c.want {
				t.Errorf("%d messages are left, want %d", n, c.want)
			}
		})
	}

	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		defer r.begin()()
		r.fake.Say(ann, "hi")
		in := r.receive(1)[0]
		for sent := 1; sent <= most; sent++ {
			if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "x", Key: fmt.Sprint(sent)}); err != nil {
				t.Fatal(err)
			}
			if sent == 1 {
				continue // it need not be known
			}
			spent, _ := r.kept()["context_spent"].(map[string]any)
			known, _ := spent[ann].(map[string]any)
			n, _ := known["sent"].(float64)
			if total := sent + most - int(n) + 1; total > platformMax { // with those of the next process, and a word that more follows
				t.Errorf("after %d messages account.json says %v: WeChat would get %d", sent, n, total)
			}
		}
	})
}

// context is the context token of a chat.
func (l *ledger) context(user string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	token, _ := l.find(user)
	return token
}
