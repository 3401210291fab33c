package deliver_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// A section decides the language, then the person's profile, then the platform.
func TestLanguage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ section, profile, platform, want string }{
		"nothing":            {"", "", "", ""},
		"platform":           {"", "", "zh", "zh"},
		"profile":            {"", "zh-Hans", "", "zh"},
		"profile first":      {"", "en-US", "zh", "en"},
		"section first":      {`"language":"zh",`, "en", "", "zh"},
		"an unknown profile": {"", "de", "zh", "zh"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := &platform{caps: chat.Caps{}}
				r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
					d := o.Drivers["a"]
					d.Language = tt.platform
					o.Drivers["a"] = d
					o.Sections["a"] = json.RawMessage(`{` + tt.section + `"enabled":true,"allowFrom":["7"]}`)
				})
				synctest.Wait()
				pass, _ := p.deps.Gate.Admit(t.Context(), access.Visitor{IDs: []string{"7"}, Direct: true, Language: tt.profile, Route: bus.Route{Channel: "a", ChatID: "c"}})
				if err := p.submit(t.Context(), pass.Inbound("1", "hello")); err != nil {
					t.Fatal(err)
				}
				in, err := r.q.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if in.Language != tt.want {
					t.Errorf("language %q, want %q", in.Language, tt.want)
				}
			})
		})
	}
}

// A language without sentences is an error that names the setting.
func TestUnknownLanguage(t *testing.T) {
	t.Parallel()
	var c chat.Common
	if err := json.Unmarshal([]byte(`{"language":"fr"}`), &c); err == nil || !strings.Contains(err.Error(), `language: "fr" must be en or zh`) {
		t.Errorf("fr: %v", err)
	}
}

// A person on a Chinese platform reads Chinese, and answers in it.
func TestChineseChat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{}}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			d := o.Drivers["a"]
			d.Language = "zh"
			o.Drivers["a"] = d
		})
		p.deps.Gate.Admit(t.Context(), access.Visitor{IDs: []string{"8"}, Direct: true, Route: bus.Route{Channel: "a", ChatID: "stranger"}})
		q := bus.Question{ID: "q", Code: "a2b3", Text: "可以运行吗？", Options: []string{"yes", "no", "session"}, Expires: time.Now().Add(time.Hour)}
		r.publish(bus.Outbound{ID: "ask", Kind: bus.Ask, Route: route("a", "c"), Text: q.Text, Question: &q, Language: "zh"})
		synctest.Wait()
		time.Sleep(time.Second)

		texts := strings.Join(p.texts("send"), "\n")
		for _, want := range []string{"您的配对码是", "请回复一个词和代码：是 a2b3, 否 a2b3, 本对话 a2b3"} {
			if !strings.Contains(texts, want) {
				t.Errorf("%q is not in\n%s", want, texts)
			}
		}
		asked, ok := chat.AskedIn("可以运行吗？\n\n请回复一个词和代码：是 a2b3, 否 a2b3, 本对话 a2b3")
		if !ok || asked.Code != "a2b3" || len(asked.Options) != 3 {
			t.Errorf("the question is read as %+v, %v", asked, ok)
		}
		for answer, want := range map[string]string{"是 a2b3": "yes", "否 a2b3": "no", "本对话 a2b3": "session"} {
			a, ok := q.Coded(answer)
			if option, _, _ := q.Choose(a.Option); !ok || option != want {
				t.Errorf("%q is read as %q, %v; want %q", answer, option, ok, want)
			}
		}
	})
}
