package discord

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

// answerTo is an answer to a message in a channel.
func answerTo(chatID, message, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "discord", ChatID: chatID, MessageID: message}, ReplyTo: message, Text: text}
}

func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func TestSend(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	asked := fake.Write("42", discordtest.Channel, "<@999> hi", names(nil))
	r.receive(1)

	out := answerTo(discordtest.Channel, asked, "hello @everyone")
	out.Key = strings.Repeat("a very long key ", 20)
	first, again := r.send(out), r.send(out)
	if first != again {
		t.Errorf("the same key made the messages %s and %s", first, again)
	}
	body := fake.Calls("POST", "/messages")[0].Body
	got := object{}
	for _, k := range []string{"content", "enforce_nonce", "flags", "allowed_mentions", "message_reference"} {
		got[k] = fmt.Sprint(body[k])
	}
	want := object{
		"content": "hello @everyone", "enforce_nonce": "true", "flags": "4", "allowed_mentions": "map[parse:[] replied_user:false]",
		"message_reference": "map[fail_if_not_exists:false message_id:" + asked + "]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the message (-want +got):\n%s", diff)
	}
	if n, _ := body["nonce"].(string); len(n) > 25 || n == "" {
		t.Errorf("the nonce is %q", n)
	}

	r.send(answerTo(discordtest.Channel, asked, "second part"))
	if ref := fake.Messages("")[1].Body["message_reference"]; ref != nil {
		t.Errorf("the second part refers to %v", ref)
	}
	chatID := fake.DM("42")
	direct := fake.Write("42", chatID, "hi", nil)
	r.receive(2)
	r.send(answerTo(chatID, direct, "hello"))
	if ref := fake.Messages(chatID)[0].Body["message_reference"]; ref != nil {
		t.Errorf("a direct answer refers to %v", ref)
	}
	hint := answerTo(chatID, direct, "reading a_b")
	hint.Kind = bus.ToolHint
	r.send(hint)
	if m := fake.Messages(chatID)[1]; m.Text() != `-# reading a\_b` || fmt.Sprint(m.Body["flags"]) != fmt.Sprint(float64(flagSilent|flagNoEmbeds)) {
		t.Errorf("a hint is %+v", m.Body)
	}
	if _, err := r.Send(t.Context(), answerTo("#general", "", "x")); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "Copy Channel ID") {
		t.Errorf("a name as a channel: %v", err)
	}
	if id := r.send(answerTo(chatID, "", " \n")); id != "" {
		t.Errorf("nothing was sent as %s", id)
	}
}

// A thread that is archived is opened; one that is locked or gone leaves the
// message to its channel, where it can be changed.
func TestThreads(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := func(thread, text string) bus.Outbound {
		out := answerTo(discordtest.Channel, "", text)
		out.Route.ThreadID = thread
		return out
	}
	r.send(in(discordtest.Thread, "one"))
	r.send(in(discordtest.Archived, "two"))
	locked := r.send(in(discordtest.Locked, "three"))
	fake.Remove(discordtest.Thread)
	r.send(in(discordtest.Thread, "four"))
	if err := r.Edit(t.Context(), in(discordtest.Locked, "three!"), locked, true); err != nil {
		t.Error(err)
	}
	got := map[string][]string{}
	for _, c := range []string{discordtest.Channel, discordtest.Thread, discordtest.Archived, discordtest.Locked} {
		got[c] = contents(fake, c)
	}
	want := map[string][]string{discordtest.Thread: {"one"}, discordtest.Archived: {"two"}, discordtest.Channel: {"three!", "four"}, discordtest.Locked: {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := r.Erase(t.Context(), in(discordtest.Locked, "").Route, locked); err != nil {
		t.Error(err)
	}
	if err := r.Erase(t.Context(), in(discordtest.Locked, "").Route, locked); err != nil {
		t.Errorf("a message that is gone: %v", err)
	}
	if err := r.Edit(t.Context(), in(discordtest.Locked, "x"), locked, true); !chat.IsPermanent(err) {
		t.Errorf("an edit of a message that is gone: %v", err)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	dir := t.TempDir()
	file := func(name string, size int) bus.Media {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return bus.Media{Path: path, Name: name, Size: int64(size)}
	}
	chatID := fake.DM("42")
	out := answerTo(chatID, "", "here")
	for i := range 9 {
		out.Media = append(out.Media, file(fmt.Sprintf("%d.txt", i), 3))
	}
	out.Media = append(out.Media, file("big.bin", maxUpload+1))
	r.send(out)
	m := fake.Messages(chatID)[0]
	if len(m.Files) != 9 || m.Files[8].Name != "8.txt" || len(m.Files[8].Data) != 3 || unescape(m.Text()) != "here\n[attachment: big.bin - too large]" {
		t.Errorf("sent %d files with %q", len(m.Files), m.Text())
	}

	fake.Fail(discordtest.Failure{Method: "POST", Path: "/channels/" + chatID + "/messages", Status: 413, Code: 40005, Text: "Request entity too large"})
	out.Media = []bus.Media{file("refused.bin", 5)}
	r.send(out)
	if m := fake.Messages(chatID)[1]; len(m.Files) != 0 || unescape(m.Text()) != "here\n[attachment: refused.bin - too large]" {
		t.Errorf("after a refusal: %d files with %q", len(m.Files), m.Text())
	}
}

// A server with boosts takes larger files.
func TestBoost(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Boost(2)
	r := newRig(t, fake, nil)
	defer r.begin()()
	r.Await("the server", func() bool { return r.places.upload(discordtest.Channel) > maxUpload })
	path := filepath.Join(t.TempDir(), "big.bin")
	if err := os.WriteFile(path, make([]byte, maxUpload+1), 0o600); err != nil {
		t.Fatal(err)
	}
	out := answerTo(discordtest.Channel, "", "here")
	out.Media = []bus.Media{{Path: path}}
	r.send(out)
	if m := fake.Messages("")[0]; len(m.Files) != 1 {
		t.Errorf("sent %d files with %q", len(m.Files), m.Text())
	}
}

// The limits of a bucket are kept without a refusal.
func TestBucket(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Limit("POST messages", 2, time.Minute)
	r := newRig(t, fake, nil)
	chatID := fake.DM("42")
	var limited *chat.RateLimitedError
	for i := range 3 {
		_, err := r.Send(t.Context(), answerTo(chatID, "", fmt.Sprint(i)))
		if e, ok := err.(*chat.RateLimitedError); ok { //nolint:errorlint // as Send returns it
			limited = e
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if limited == nil || limited.After <= 0 || limited.After > time.Minute {
		t.Fatalf("the third message: %v, want it to wait for the bucket", limited)
	}
	if _, err := r.Send(t.Context(), answerTo(fake.DM("43"), "", "x")); err != nil {
		t.Errorf("another channel has a bucket of its own: %v", err)
	}
	for _, c := range fake.Calls("", "") {
		if c.Status == 429 {
			t.Error("Discord had to refuse a call")
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	chatID := fake.DM("42")
	try := func(f discordtest.Failure) error {
		f.Method, f.Path = "POST", "/channels/"+chatID
		fake.Fail(f)
		_, err := r.Send(t.Context(), answerTo(chatID, "", "x"))
		if err != nil && strings.Contains(err.Error(), discordtest.Token) {
			t.Errorf("the token is in %v", err)
		}
		return err
	}
	if err := try(discordtest.Failure{Status: 502, Garbage: true}); err == nil || chat.IsPermanent(err) {
		t.Errorf("a proxy's page: %v", err)
	}
	if err := try(discordtest.Failure{Status: 403, Garbage: true}); err == nil || chat.IsPermanent(err) {
		t.Errorf("a proxy's refusal: %v", err)
	}
	if err := try(discordtest.Failure{}); err == nil || chat.IsPermanent(err) {
		t.Errorf("a cut connection: %v", err)
	}
	if err := try(discordtest.Failure{Status: 403, Code: 50013, Text: "Missing Permissions"}); !chat.IsPermanent(err) {
		t.Errorf("no permission: %v", err)
	}
	err := try(discordtest.Failure{Status: 429, RetryAfter: 30, Global: true})
	if _, ok := err.(*chat.RateLimitedError); !ok { //nolint:errorlint // as Send returns it
		t.Errorf("a global limit: %v", err)
	}
	n := len(fake.Calls("", ""))
	if _, err := r.Send(t.Context(), answerTo(fake.DM("43"), "", "x")); err == nil || len(fake.Calls("", "")) != n {
		t.Errorf("a call during a global limit was made: %v", err)
	}
}

// Too many refusals would shut our address out: calls end long before.
func TestBrake(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	now := time.Now()
	r.calls.limits.now = func() time.Time { return now }
	fake.Limit("POST messages", 1<<20, time.Minute)
	fake.Forbid(discordtest.Channel)
	for range refusedMost + 10 {
		_, _ = r.Send(t.Context(), answerTo(discordtest.Channel, "", "x"))
	}
	if n := len(fake.Calls("POST", "")); n != refusedMost {
		t.Errorf("%d calls were refused, want an end after %d", n, refusedMost)
	}
	now = now.Add(refusedSpan + time.Second)
	if _, err := r.Send(t.Context(), answerTo(fake.DM("42"), "", "x")); err != nil {
		t.Errorf("after the time: %v", err)
	}
}

// Reactions say that a message was seen and is worked on; both go at the end.
func TestSignals(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"workingEmojiDelay": 0})
	chatID := fake.DM("42")
	id := fake.Write("42", chatID, "hi", nil)
	route := bus.Route{ChatID: chatID, MessageID: id}
	for _, p := range []chat.Phase{chat.Seen, chat.Working, chat.Working} {
		if err := r.Signal(t.Context(), route, p); err != nil {
			t.Fatal(err)
		}
	}
	if got := fake.Reactions(chatID, id); !slices.Equal(got, []string{"👀", "🔧"}) {
		t.Errorf("while it works: %q", got)
	}
	if err := r.Signal(t.Context(), route, chat.Answered); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(t.Context(), route, chat.Working); err != nil {
		t.Fatal(err)
	}
	if got := fake.Reactions(chatID, id); len(got) != 0 {
		t.Errorf("at the end: %q", got)
	}
	if n := len(fake.Calls("POST", "/typing")); n != 3 {
		t.Errorf("typing was shown %d times", n)
	}
	route.MessageID = tapMark + "1" // of a command there is no message
	if err := r.Signal(t.Context(), route, chat.Seen); err != nil {
		t.Error(err)
	}
}

// People name channels and each other by names; a wrong one is an error at once.
func TestAddress(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	fake.Write("42", discordtest.Channel, "<@999> hi", names(nil))
	r.receive(1)
	for target, want := range map[string]bus.Route{
		"#general":         {ChatID: discordtest.Channel},
		"600":              {ChatID: discordtest.Channel},
		"700":              {ChatID: discordtest.Channel, ThreadID: discordtest.Thread},
		"#an old topic":    {},
		"#nowhere":         {},
		"@User42":          {ChatID: "842"},
		"@nobody":          {},
		"77":               {ChatID: "877"},
		"+49 170 12345":    {},
		discordtest.Locked: {ChatID: discordtest.Channel, ThreadID: discordtest.Locked},
	} {
		got, err := r.Address(t.Context(), target)
		if want.ChatID != "" {
			want.Channel = "discord"
		}
		if got != want || (err == nil) != (want.ChatID != "") {
			t.Errorf("%s leads to %+v, %v, want %+v", target, got, err, want)
		}
	}
}
