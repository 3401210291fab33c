package matrix

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

func TestHTML(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"plain words":                       "",
		"two\n\nparagraphs":                 "",
		"a < b & c":                         "",
		"https://example.org/":              "",
		"**b** *i* ~~s~~ `c<`":              "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c&lt;</code></p>",
		"# Head\n\ntext":                    "<h1>Head</h1><p>text</p>",
		"- a\n- [x] b\n  1. c":              "<ul><li>a</li><li>☑ b<ol><li>c</li></ol></li></ul>",
		"3. c":                              `<ol start="3"><li>c</li></ol>`,
		"> quoted\n\n---":                   "<blockquote><p>quoted</p></blockquote><hr>",
		"```go\nx := \"<\"\n```":            `<pre><code class="language-go">x := &quot;&lt;&quot;</code></pre>`,
		"|a|b|\n|-|-|\n|1|**2**|":           "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><strong>2</strong></td></tr></tbody></table>",
		"[x](https://example.org/?a=1&b=2)": `<p><a href="https://example.org/?a=1&amp;b=2">x</a></p>`,
		"[x](javascript:alert(1)) **b**":    "<p>x (javascript:alert(1)) <strong>b</strong></p>",
		"![cat](https://example.org/c.png)": `<p><a href="https://example.org/c.png">cat</a></p>`,
		"<script>alert(1)</script> **b**":   "<p>&lt;script&gt;alert(1)&lt;/script&gt; <strong>b</strong></p>",
	} {
		if got := toHTML(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// A message keeps to the limit of an event, whatever its signs become.
func TestEventSize(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"words":    strings.Repeat("word ", maxBody/5),
		"brackets": strings.Repeat("<", maxBody),
		"markup":   strings.Repeat("**<** ", maxBody/6),
		"quotes":   strings.Repeat("\"", maxBody),
		"control":  "x" + strings.Repeat("\x01", maxBody-1),
		"emoji":    strings.Repeat("🙂", maxBody/4),
	} {
		m := wordsOf(bus.Outbound{Kind: bus.Final, Text: source}, true)
		edit := &outgoing{Type: m.Type, Body: "* " + text.Ellipsis(m.Body, fallbackMost), New: m}
		for _, m := range []*outgoing{m, edit} {
			data, err := m.fit()
			if err != nil || len(data) > maxEvent {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
		}
	}
}

// route is the owner's room.
func route() bus.Route { return bus.Route{Channel: "matrix", ChatID: annRoom} }

func TestSend(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false, "streaming": true})
	defer r.begin()()

	out := bus.Outbound{Kind: bus.Final, Route: route(), Text: "**done**", Key: "d1/0"}
	id, err := r.Send(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Send(t.Context(), out); err != nil || again != id {
		t.Errorf("the same key made %q, %v", again, err)
	}
	want := `{"msgtype":"m.text","body":"**done**","format":"org.matrix.custom.html","formatted_body":"<p><strong>done</strong></p>","m.mentions":{}}`
	if got := fake.Messages(matrixtest.Bot); len(got) != 1 || string(got[0].Event.Content) != want {
		t.Errorf("got %+v", got)
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.ToolHint, Route: route(), Text: "**x**"}); err != nil {
		t.Error(err)
	}
	if got := fake.Messages(matrixtest.Bot)[1]; got.Kind != "m.notice" || got.HTML != "" {
		t.Errorf("a hint is %+v", got)
	}

	// An edit has its markup inside of the new content as well.
	if err := r.Edit(t.Context(), bus.Outbound{Kind: bus.Final, Route: route(), Text: "*more*"}, id, true); err != nil {
		t.Fatal(err)
	}
	if got := fake.Messages(matrixtest.Bot)[0]; got.Body != "*more*" || got.HTML != "<p><em>more</em></p>" {
		t.Errorf("the edited message is %+v", got)
	}
	if err := r.Edit(t.Context(), bus.Outbound{Kind: bus.Delta, Route: route(), Text: "**gro"}, id, false); err != nil {
		t.Fatal(err)
	}
	if got := fake.Messages(matrixtest.Bot)[0]; got.Body != "**gro" || got.HTML != "" {
		t.Errorf("the preview is %+v", got)
	}
	if err := r.Erase(t.Context(), route(), id); err != nil {
		t.Error(err)
	}
	if err := r.Erase(t.Context(), route(), "$gone"); err != nil {
		t.Errorf("erase what is gone: %v", err)
	}
	if got := fake.Messages(matrixtest.Bot); len(got) != 1 {
		t.Errorf("after the erasure: %+v", got)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	fake := home(t)
	fake.MaxUpload = 1000
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	var limit int64
	r.deps.Refine = func(change func(*chat.Caps)) {
		c := r.Caps()
		change(&c)
		limit = c.MaxMedia
	}
	r.reopen(map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	if limit != 1000 {
		t.Errorf("the limit is %d, want that of the homeserver", limit)
	}
	for name, test := range map[string]struct{ data, kind, more string }{
		"a.txt": {"text", "m.file", `"mimetype":"text/plain`},
		"b.png": {"\x89PNG\r\n\x1a\n", "m.image", `"mimetype":"image/png","size":8`},
		"v.ogg": {"OggS\x00\x02" + strings.Repeat("\x00", 22) + "OpusHead", "m.audio", `"org.matrix.msc3245.voice":{}`},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(test.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Message, Route: route(), Media: []bus.Media{{Path: path}}}); err != nil {
			t.Fatal(err)
		}
		all := fake.Messages(matrixtest.Bot)
		got := all[len(all)-1]
		var c struct{ URL string }
		if err := json.Unmarshal(got.Event.Content, &c); err != nil || string(fake.File(c.URL)) != test.data {
			t.Errorf("%s: stored %q, %v", name, fake.File(c.URL), err)
		}
		if got.Kind != test.kind || got.File != name || !strings.Contains(string(got.Event.Content), test.more) {
			t.Errorf("%s: %s", name, got.Event.Content)
		}
	}
	path := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(path, make([]byte, 1001), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Route: route(), Media: []bus.Media{{Path: path}}}); !chat.IsPermanent(err) {
		t.Errorf("a file over the limit: %v", err)
	}
}

// Errors say whether it makes sense to try again.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	fake := home(t)
	fake.Room("!other:"+matrixtest.Server, nil, ann)
	fake.Room("!secret:"+matrixtest.Server, map[string]object{"m.room.encryption": {"algorithm": "m.megolm.v1.aes-sha2"}}, ann, matrixtest.Bot)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	send := func(room string) error {
		_, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: room}, Text: "hi"})
		return err
	}
	if err := send(annRoom); err == nil || !strings.Contains(err.Error(), chat.ErrNotReady.Error()) {
		t.Errorf("before the login: %v", err)
	}
	defer r.begin()()
	if err := send("!other:" + matrixtest.Server); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "invite it") {
		t.Errorf("a room that we are not in: %v", err)
	}
	if err := send("!secret:" + matrixtest.Server); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "encrypted") {
		t.Errorf("an encrypted room: %v", err)
	}
	if n := len(fake.Calls("!secret:" + matrixtest.Server + "/send/")); n != 0 {
		t.Error("something was sent without encryption into an encrypted room")
	}
	fake.Fail(matrixtest.Failure{Path: "/send/", Status: http.StatusRequestEntityTooLarge, Code: "M_TOO_LARGE"})
	if err := send(annRoom); !chat.IsPermanent(err) {
		t.Errorf("too large: %v", err)
	}
	fake.Fail(matrixtest.Failure{Path: "/send/", Status: http.StatusForbidden, Body: "<html>a proxy</html>"})
	if err := send(annRoom); err == nil || chat.IsPermanent(err) {
		t.Errorf("a proxy's refusal: %v", err)
	}
	fake.Fail(matrixtest.Failure{Path: "/send/"})
	if err := send(annRoom); err == nil || chat.IsPermanent(err) {
		t.Errorf("a cut connection: %v", err)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	r.say("1", matrixtest.Text("hi"))
	to := r.receive(1)[0].Route
	for _, step := range []struct {
		phase  chat.Phase
		typing bool
	}{{chat.Seen, false}, {chat.Working, true}, {chat.TurnFailed, false}} {
		if err := r.Signal(t.Context(), to, step.phase); err != nil {
			t.Error(err)
		}
		if got := fake.Typing(annRoom, matrixtest.Bot); got != step.typing {
			t.Errorf("%s: typing %v", step.phase, got)
		}
	}
	if got := fake.Calls("/receipt/m.read/$1"); len(got) != 1 {
		t.Errorf("receipts: %+v", got)
	}
}

// Rooms are found by alias, people by a room of their own that is made once.
func TestAddress(t *testing.T) {
	t.Parallel()
	fake := home(t)
	fake.Alias("#team:"+matrixtest.Server, teamRoom)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	for target, want := range map[string]string{teamRoom: teamRoom, "#team:" + matrixtest.Server: teamRoom} {
		if got, err := r.Address(t.Context(), target); err != nil || got.ChatID != want || got.Channel != "matrix" {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
	first, err := r.Address(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Address(t.Context(), ann); err != nil || again != first {
		t.Errorf("the room of a person is %+v, then %+v, %v", first, again, err)
	}
	for _, target := range []string{mallory, "#none:" + matrixtest.Server, "general", "@ann"} {
		if got, err := r.Address(t.Context(), target); err == nil {
			t.Errorf("%s is %+v", target, got)
		}
	}
}
