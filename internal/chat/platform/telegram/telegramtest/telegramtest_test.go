package telegramtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

type answer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
}

func call(t *testing.T, s *telegramtest.Server, method, params string) answer {
	t.Helper()
	return post(t, s, "/bot"+telegramtest.Token+"/"+method, "application/json", params)
}

func post(t *testing.T, s *telegramtest.Server, path, kind, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := (&http.Client{Transport: s.Transport()}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return a
}

// Updates come again until an offset beyond them is asked for.
func TestUpdatesAreRepeated(t *testing.T) {
	t.Parallel()
	s := telegramtest.Offline()
	s.Say(42, "a")
	s.Say(42, "b")
	count := func(params string) int {
		t.Helper()
		var list []struct {
			ID int64 `json:"update_id"`
		}
		if err := json.Unmarshal(call(t, s, "getUpdates", params).Result, &list); err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for _, c := range []struct {
		params string
		want   int
	}{{`{}`, 2}, {`{}`, 2}, {`{"offset":1001,"limit":1}`, 1}, {`{"offset":1002}`, 1}, {`{}`, 1}, {`{"offset":1003}`, 0}, {`{}`, 0}} {
		if got := count(c.params); got != c.want {
			t.Errorf("getUpdates(%s): %d updates, want %d", c.params, got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := telegramtest.Offline()
	if a := post(t, s, "/bot1:wrong/getMe", "application/json", "{}"); a.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %+v", a)
	}
	for name, c := range map[string]struct{ method, params, want string }{
		"too long":     {"sendMessage", `{"chat_id":1,"text":"` + strings.Repeat("😀", 2049) + `"}`, "too long"},
		"empty":        {"sendMessage", `{"chat_id":1,"text":" "}`, "empty"},
		"no chat":      {"sendMessage", `{"text":"a"}`, "chat not found"},
		"open tag":     {"sendMessage", `{"chat_id":1,"text":"<b>a","parse_mode":"HTML"}`, "can't parse entities"},
		"unknown tag":  {"sendMessage", `{"chat_id":1,"text":"<think>a</think>","parse_mode":"HTML"}`, "unsupported start tag"},
		"crossed tags": {"sendMessage", `{"chat_id":1,"text":"<b><i>a</b></i>","parse_mode":"HTML"}`, "can't parse entities"},
		"mode":         {"sendMessage", `{"chat_id":1,"text":"a","parse_mode":"html5"}`, "parse_mode"},
		"button":       {"sendMessage", `{"chat_id":1,"text":"a","reply_markup":{"inline_keyboard":[[{"text":"a","callback_data":"` + strings.Repeat("x", 65) + `"}]]}}`, "BUTTON_DATA_INVALID"},
		"no file":      {"sendPhoto", `{"chat_id":1}`, "no photo"},
		"edit":         {"editMessageText", `{"chat_id":1,"message_id":9,"text":"a"}`, "not found"},
		"reaction":     {"setMessageReaction", `{"chat_id":1,"message_id":9,"reaction":[{"type":"emoji","emoji":"🥦"}]}`, "REACTION_INVALID"},
		"command":      {"setMyCommands", `{"commands":[{"command":"dream-log","description":"x"}]}`, "BOT_COMMAND_INVALID"},
		"webhook":      {"setWebhook", `{"url":"http://x"}`, "HTTPS"},
		"method":       {"sendNothing", `{"chat_id":1}`, "not found"},
		"not json":     {"sendMessage", `{`, "JSON"},
	} {
		if a := call(t, s, c.method, c.params); a.OK || !strings.Contains(a.Description, c.want) {
			t.Errorf("%s: %+v, want %q", name, a, c.want)
		}
	}
	if n := len(s.Messages(0)); n != 0 {
		t.Errorf("%d messages were kept", n)
	}
}

func TestDuplicatesAndFailures(t *testing.T) {
	t.Parallel()
	s := telegramtest.Offline()
	const a, b = `{"chat_id":1,"text":"a"}`, `{"chat_id":2,"text":"a"}`
	s.Fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: 2}, telegramtest.Failure{Method: "sendMessage", Code: 500, After: true})
	for i, want := range []int{429, 500, 0} { // refused; sent although an error came back; sent again
		if got := call(t, s, "sendMessage", a).Code; got != want {
			t.Errorf("call %d: %d, want %d", i, got, want)
		}
	}
	call(t, s, "sendMessage", b)
	if got := s.Duplicates(); got != 1 || len(s.Messages(0)) != 3 || len(s.Messages(1)) != 2 {
		t.Errorf("%d duplicates among %d messages", got, len(s.Messages(0)))
	}
	s.Random(func() float64 { return 0.4 })
	s.Fail(telegramtest.Failure{Code: 500, Chance: 0.3, Times: -1}, telegramtest.Failure{Code: 503, Chance: 0.5, Times: -1})
	for range 3 {
		if got := call(t, s, "sendMessage", a).Code; got != 503 {
			t.Errorf("with luck 0.4: %d, want 503", got)
		}
	}
	s.Mend()
	if got := call(t, s, "sendMessage", a); !got.OK {
		t.Errorf("after Mend: %+v", got)
	}
}

func TestSecondPollerEndsTheFirst(t *testing.T) {
	t.Parallel()
	s := telegramtest.New()
	defer s.Close()
	first := make(chan answer, 1)
	go func() { first <- call(t, s, "getUpdates", `{"timeout":50}`) }()
	for changed := s.Changed(); s.Polls() == 0; changed = s.Changed() {
		<-changed
	}
	second := make(chan answer, 1)
	go func() { second <- call(t, s, "getUpdates", `{"timeout":50}`) }()
	if a := <-first; a.Code != http.StatusConflict {
		t.Errorf("the first poller: %+v, want a conflict", a)
	}
	s.Say(42, "a")
	if a := <-second; !a.OK {
		t.Errorf("the second poller: %+v", a)
	}
}
