package feishu

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// What people write becomes words, whatever its form; what they did not type
// stands apart.
func TestContents(t *testing.T) {
	t.Parallel()
	people := []feishutest.Mention{{Key: "@_user_1", ID: feishutest.BotID, Name: feishutest.BotName}, {Key: "@_user_2", ID: "ou_bob", Name: "Bob"}, {Key: "@_user_10", ID: "ou_eve", Name: "Eve\nX"}}
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	cases := []struct{ kind, content, want string }{
		{"text", feishutest.Text("@_user_1 /new please"), "/new please"},
		{"text", feishutest.Text("@_user_2 and @_user_10, @_user_1! @_user_3 a@_b"), "@Bob (ou_bob) and @Eve X (ou_eve), @nb_bot (ou_bot)! @_user_3 a@_b"},
		{"text", `{"text":"x"`, "\n> sent along: [text that cannot be read]"},
		{"post", `{"title":"T","content":[[{"tag":"at","user_id":"@_user_1","user_name":"x"},{"tag":"text","text":" hi "},{"tag":"a","text":"docs","href":"https://x.y"}],[{"tag":"code_block","language":"go","text":"x := 1\n"}],[{"tag":"at","user_id":"@_user_2"}]]}`, "T\n@nb_bot (ou_bot) hi [docs](https://x.y)\n\n```go\nx := 1\n```\n@Bob (ou_bob)"},
		{"post", `{"post":{"ja_jp":{"content":[[{"tag":"text","text":"こんにちは"}]]}}}`, "こんにちは"},
		{"post", `{"zh_cn":{"content":[[{"tag":"text","text":"中文"}]]},"de_de":{"content":[[{"tag":"text","text":"deutsch"}]]}}`, "中文"},
		{"interactive", `{"title":"Alarm","elements":[[{"tag":"text","text":"CPU"},{"tag":"a","href":"https://x","text":"open"}],[{"tag":"unknown","elements":[{"tag":"plain_text","content":"deep"}]}]]}`, "\n> a card: title: Alarm\nCPU\nlink: https://x\nopen\ndeep"},
		{"interactive", `{"header":{"title":{"content":"H"}},"elements":[{"tag":"div","text":{"content":"body"},"fields":[{"text":{"content":"f1"}}]},{"tag":"column_set","columns":[{"elements":[{"tag":"button","text":{"content":"Go"},"multi_url":{"url":"https://b"}}]}]},{"tag":"img","alt":{"content":""}}]}`, "\n> a card: body\nf1\nGo\nlink: https://b\n[image]\ntitle: H"},
		{"interactive", `{"user_dsl":"{\"body\":{\"elements\":[{\"tag\":\"markdown\",\"content\":\"**x**\"},{\"tag\":\"table\",\"columns\":[{\"name\":\"a\",\"display_name\":\"A\"},{\"name\":\"b\"}],\"rows\":[{\"a\":\"1\",\"b\":2}]}]}}","title":"ignored"}`, "\n> a card: **x**\nA | b\n1 | 2"},
		{"interactive", `{}`, "\n> a card: [interactive card]"},
		{"share_chat", `{"chat_id":"oc_1"}`, "\n> sent along: [shared chat: oc_1]"},
		{"share_user", `{"user_id":"ou_1"}`, "\n> sent along: [shared user: ou_1]"},
		{"share_calendar_event", `{"event_key":"k"}`, "\n> sent along: [shared calendar event: k]"},
		{"system", `{}`, "\n> sent along: [system message]"},
		{"sticker", `{"file_key":"x"}`, "\n> sent along: [sticker]"},
		{"location", `{"name":"Pier","longitude":"1.5","latitude":"2.5"}`, "\n> sent along: [location: Pier, 2.5, 1.5]"},
		{"todo", `{"summary":{"title":"","content":[[{"tag":"text","text":"buy milk"}]]}}`, "\n> sent along: [task: buy milk]"},
		{"vote", `{"topic":"lunch","options":["a","b"]}`, "\n> sent along: [vote: lunch, a, b]"},
		{"hongbao", `{"text":"x"}`, "\n> sent along: [red packet]"},
		{"folder", `{"file_name":"f"}`, "\n> sent along: [folder: f]"},
		{"video_chat", `{"topic":"sync"}`, "\n> sent along: [video meeting: sync]"},
		{"hologram", `{}`, "\n> sent along: [hologram]"},
		{"image", `{}`, "\n> files: [image: missing file_key]"},
		{"file", `{"file_key":"none","file_name":"a.txt"}`, "\n> files: [file: download failed]"},
		{"text", feishutest.Text(" "), "[empty message]"},
	}
	for i, c := range cases {
		r.fake.Say(feishutest.Message{Type: c.kind, Content: c.content, Mentions: people})
		got := said(r.receive(i + 1)[i])
		if got != c.want {
			t.Errorf("%s %s:\n%q, want\n%q", c.kind, c.content, got, c.want)
		}
	}
	deep := strings.Repeat(`{"tag":"note","elements":[`, 200) + strings.Repeat(`]}`, 200)
	r.fake.Say(feishutest.Message{Type: "interactive", Content: `{"elements":[` + deep + `]}`})
	r.receive(len(cases) + 1)
}

// Who may talk to us is decided before anything is fetched; a message without a
// mention is not for us, one to all may be.
func TestGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"groupHistory": 5, "allowFrom": []string{feishutest.AnnID}})
	end := r.begin()
	defer end()
	group := func(id, text string, more feishutest.Message) {
		more.ID, more.Chat, more.Content = id, feishutest.GroupID, feishutest.Text(text)
		r.fake.Say(more)
	}
	group("om_1", "among us", feishutest.Message{})
	group("om_2", "@_user_1 first", feishutest.Message{Mentions: named()})
	group("om_3", "@_user_1 stranger", feishutest.Message{Sender: "ou_eve", Mentions: named()})
	group("om_4", "@_all everybody", feishutest.Message{})
	group("om_5", "@_user_1 in the topic", feishutest.Message{Mentions: named(), Thread: "omt_root", Root: feishutest.ThreadRoot, Parent: feishutest.ThreadRoot})
	got := r.receive(3)
	if len(r.Inbound()) != 3 {
		t.Fatalf("the agent got %d messages", len(r.Inbound()))
	}
	one := got[0]
	if said(one) != "@ou_ann: first\n> : [said before in the group:\nou_ann: among us]" || one.SessionKey != "feishu:oc_town:om_2" || one.Route.ThreadID != "" || one.Scope == "" || one.SenderID != feishutest.AnnID {
		t.Errorf("in the group: %+v", one)
	}
	if got[1].Text != "@ou_ann: @_all everybody" {
		t.Errorf("to all: %q", got[1].Text)
	}
	topic := got[2]
	if topic.SessionKey != "feishu:oc_town:om_root" || topic.Route.ThreadID != feishutest.ThreadRoot || topic.Meta["thread_id"] != "omt_root" {
		t.Errorf("in the topic: %+v", topic)
	}
	if want := "> what this answers: [answers a message: a topic]"; !strings.Contains(said(topic), want) {
		t.Errorf("in the topic: %q, want %q", said(topic), want)
	}
	if n := len(r.fake.Calls("GET /open-apis/im/v1/messages/{id}")); n != 1 {
		t.Errorf("%d messages were looked up", n)
	}
}

// A message to all is for others, and groups are one conversation, if the
// settings say so.
func TestGroupSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"respondToAtAll": false, "topicIsolation": false})
	end := r.begin()
	defer end()
	r.fake.Say(feishutest.Message{Chat: feishutest.GroupID, Content: feishutest.Text("@_all x")})
	r.fake.Say(feishutest.Message{Chat: feishutest.GroupID, Content: feishutest.Text("@_user_1 y"), Mentions: named()})
	if in := r.receive(1)[0]; in.SessionKey != "" || in.Text != "@ou_ann: y" {
		t.Errorf("received %+v", in)
	}
}

// What is answered is quoted: what we sent by what we know, others by a look.
func TestQuotes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.deps.Quoted = func(_ bus.Route, id string) (chat.Quoted, bool) {
		return chat.Quoted{Text: "our words"}, id == "om_ours"
	}
	r.reopen(nil)
	end := r.begin()
	defer end()
	r.fake.Put(feishutest.Message{ID: "om_long", Content: feishutest.Text(strings.Repeat("x", 300))})
	r.fake.Put(feishutest.Message{ID: "om_card", Type: "interactive", Content: `{"elements":[{"tag":"markdown","content":"in a card"}]}`})
	key := r.fake.Store("a.txt", []byte("content"))
	r.fake.Put(feishutest.Message{ID: "om_file", Type: "file", Content: `{"file_key":"` + key + `","file_name":"a.txt"}`})
	r.fake.Put(feishutest.Message{ID: "om_lost", Type: "audio", Content: `{"file_key":"k"}`})
	for i, c := range []struct{ parent, want string }{
		{"om_ours", "[answers you: our words]"},
		{"om_long", "[answers a message: " + strings.Repeat("x", 200) + "...]"},
		{"om_long", "[answers a message: " + strings.Repeat("x", 200) + "...]"},
		{"om_card", "[answers a message: in a card]"},
		{"om_file", "[answers a message: [file a.txt]]\n> files of what this answers: [file: PATH]"},
		{"om_file", "[answers a message: [file a.txt]]\n> files of what this answers: [file: PATH]"},
		{"om_lost", "[answers a message: [audio file]]\n> files of what this answers: [audio: download failed]"},
		{"om_none", "[answers a message that cannot be read]"},
	} {
		r.fake.Say(feishutest.Message{Content: feishutest.Text("hm"), Parent: c.parent, Root: c.parent})
		in := r.receive(i + 1)[i]
		if len(in.Media) > 0 {
			c.want = strings.ReplaceAll(c.want, "PATH", in.Media[0].Path)
		}
		if got := said(in); got != "hm\n> what this answers: "+c.want {
			t.Errorf("%s: %q, want %q", c.parent, got, c.want)
		}
	}
	if n := len(r.fake.Calls("GET /open-apis/im/v1/messages/{id}")); n != 5 {
		t.Errorf("%d messages were looked up, want 5", n)
	}
}

// A conversation that was passed on is read.
func TestForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	for range 60 {
		r.fake.Put(feishutest.Message{Sender: "ou_bob", Content: feishutest.Text("psst"), Upper: "om_fwd"})
	}
	r.fake.Say(feishutest.Message{ID: "om_fwd", Type: "merge_forward", Content: "Merged and Forwarded Message"})
	got := said(r.receive(1)[0])
	if !strings.HasPrefix(got, "\n> forwarded: ou_bob: psst\n") || strings.Count(got, "psst") != 50 || !strings.Contains(got, "left out") {
		t.Errorf("received %q", got)
	}
	r.fake.Fail(feishutest.Failure{Name: "GET /open-apis/im/v1/messages/{id}", Code: codeScope, Msg: "no"})
	r.fake.Say(feishutest.Message{Type: "merge_forward", Content: "Merged and Forwarded Message"})
	if got := said(r.receive(2)[1]); got != "\n> forwarded: [merged forward messages]" {
		t.Errorf("received %q", got)
	}
}

// Files arrive, also those within a text; a voice message is what was said.
func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.deps.Transcribe = func(_ context.Context, path string) string {
		if data, err := os.ReadFile(path); err != nil || string(data) != "sound" || filepath.Ext(path) != ".ogg" {
			t.Errorf("to transcribe: %q, %q, %v", path, data, err)
		}
		return "spoken words"
	}
	r.deps.Media.Max = 1000
	r.reopen(nil)
	end := r.begin()
	defer end()
	image := r.fake.Store("", []byte("\x89PNG\r\n\x1a\n"))
	r.fake.Say(feishutest.Message{Type: "image", Content: jsonOf(map[string]any{"image_key": image})})
	in := r.receive(1)[0]
	if len(in.Media) != 1 || in.Media[0].MIME != "image/png" || !strings.HasSuffix(in.Media[0].Path, ".jpg") {
		t.Errorf("an image: %+v", in)
	}
	voice := r.fake.Store("", []byte("sound"))
	r.fake.Say(feishutest.Message{Type: "audio", Content: jsonOf(map[string]any{"file_key": voice, "duration": 1000})})
	if got := r.receive(2)[1]; said(got) != "[transcription: spoken words]" || len(got.Media) != 0 {
		t.Errorf("a voice message: %+v", got)
	}
	large := r.fake.Store("x", make([]byte, 2000))
	r.fake.Say(feishutest.Message{Type: "file", Content: jsonOf(map[string]any{"file_key": large, "file_name": "../../large.bin"})})
	if got := said(r.receive(3)[2]); !strings.Contains(got, "large.bin - too large") {
		t.Errorf("a large file: %q", got)
	}
	// A picture that is not a resource of the message is had otherwise.
	r.fake.Fail(feishutest.Failure{Name: "GET /open-apis/im/v1/messages/{id}/resources/{key}", Code: 234003, Msg: "File not in msg."})
	r.fake.Say(feishutest.Message{Type: "image", Content: jsonOf(map[string]any{"image_key": image})})
	if got := r.receive(4)[3]; len(got.Media) != 1 {
		t.Errorf("an image by the other way: %+v", got)
	}
	// A key that is a path leads nowhere.
	r.fake.Say(feishutest.Message{Type: "file", Content: `{"file_key":"../../../x?y","file_name":"x"}`})
	if got := said(r.receive(5)[4]); !strings.Contains(got, "[file: download failed]") {
		t.Errorf("a hostile key: %q", got)
	}
}

func jsonOf(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// A short word that quotes a question answers it.
func TestAnswerByQuote(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	ask := out("May I?")
	ask.Kind, ask.Question = bus.Ask, &bus.Question{ID: "q1", Options: []string{"yes", "no"}}
	id := r.send(ask)
	r.fake.Say(feishutest.Message{Content: feishutest.Text("yes"), Parent: id, Root: id})
	if in := r.receive(1)[0]; in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "yes" {
		t.Errorf("received %+v", in)
	}
	r.fake.Say(feishutest.Message{Content: feishutest.Text("why do you ask?"), Parent: id, Root: id})
	if in := r.receive(2)[1]; in.Answer != nil {
		t.Errorf("received %+v", in)
	}
}
