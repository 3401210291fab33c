// Package feishu certifies our fake of Feishu by Feishu's own libraries.
package feishu

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// when waits for something that a script does, while the script runs.
func when(t *testing.T, fake *feishutest.Server, ready func() bool) bool {
	t.Helper()
	for {
		changed := fake.Changed()
		if ready() {
			return true
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			return false
		}
	}
}

// run starts a script while people write: twice on the long connection, one of
// it in several frames, and once by HTTP to the port that the script names. Both
// ways they press a button of the card that the script sends.
func run(t *testing.T, script string, second func(*feishutest.Server) feishutest.Message) (*feishutest.Server, map[string]any) {
	t.Helper()
	fake := feishutest.New()
	t.Cleanup(fake.Close)
	people := make(chan struct{})
	var seen []feishutest.Pressed
	go func() {
		defer close(people)
		if !when(t, fake, func() bool { return fake.Pings() > 0 }) {
			return
		}
		fake.Say(feishutest.Message{Content: feishutest.Text("hi")})
		if !when(t, fake, func() bool { return fake.Pending() == 0 }) {
			return
		}
		fake.SetSplit(3)
		fake.Say(second(fake))
		var asked feishutest.Message
		if !when(t, fake, func() bool {
			i := slices.IndexFunc(fake.Messages(""), func(m feishutest.Message) bool { return len(m.Buttons) > 0 })
			if i >= 0 {
				asked = fake.Messages("")[i]
			}
			return i >= 0
		}) {
			return
		}
		no := fake.Value(asked.ID, "no")
		seen = append(seen, fake.Press(asked.ID, feishutest.AnnID, "yes"))
		var port string
		found := when(t, fake, func() bool {
			for _, m := range fake.Messages("") {
				if p, ok := strings.CutPrefix(m.Plain, "listening "); ok {
					port = p
				}
			}
			return port != "" && fake.Pending() == 0
		})
		if found {
			fake.Hook("http://127.0.0.1:"+port+"/hook", true)
			fake.Say(feishutest.Message{Content: feishutest.Text("by HTTP")})
			press := feishutest.Callback(asked.ID, asked.Chat, feishutest.AnnID, no)
			seen = append(seen, fake.Answered(fake.Emit("card.action.trigger", press)))
		}
	}()
	out := certify.Script(t, ".", script, fake.URL(), feishutest.AppID, feishutest.AppSecret, feishutest.EncryptKey, feishutest.VerificationToken)
	<-people
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if wrong := fake.Wrong(); len(wrong) > 0 {
		t.Errorf("the fake does not understand the library: %q", wrong)
	}
	for i, toast := range []string{"done socket", "done hook"} {
		if len(seen) <= i || seen[i].Toast != toast || !seen[i].Updated {
			t.Errorf("who pressed saw %+v", seen)
			break
		}
	}
	if fake.Pings() == 0 {
		t.Error("no ping came")
	}
	return fake, got
}

func TestNodeSDK(t *testing.T) {
	t.Parallel()
	fake, got := run(t, "client.mjs", func(*feishutest.Server) feishutest.Message {
		return feishutest.Message{
			Chat: feishutest.GroupID, Content: feishutest.Text("@_user_1 go"),
			Mentions: []feishutest.Mention{{Key: "@_user_1", ID: feishutest.BotID, Name: feishutest.BotName}},
		}
	})
	type list = []any
	want := map[string]any{
		"got": list{
			list{"socket", "ev", "ou_ann", "p2p", `{"text":"hi"}`, ""},
			list{"socket", "ev", "ou_ann", "group", `{"text":"@_user_1 go"}`, "nb_bot"},
			list{"hook", "ev", "ou_ann", "p2p", `{"text":"by HTTP"}`, ""},
		},
		"pressed": list{
			list{"socket", "ou_ann", "button", "yes", "om_", "oc_p2p_ou_ann"},
			list{"hook", "ou_ann", "button", "no", "om_", "oc_p2p_ou_ann"},
		},
		"me": "nb_bot", "same": true, "thread": "omt_root", "read": `{"text":"hi"}`, "put": 0.0, "patch": 0.0,
		"marks": list{"THUMBSUP"}, "unmark": 0.0, "converted": true,
		"card":  list{0.0, 0.0, 300317.0, 0.0, 300309.0, 0.0, 0.0, 0.0},
		"image": 0.0, "file": "content", "deleted": 0.0,
		"refused": map[string]any{
			"kind": 230001.0, "empty": 230001.0, "long": 230025.0, "card": 230099.0, "uuid": 99992402.0, "outside": 230002.0,
			"type": 230001.0, "gone": 230001.0, "emoji": 231001.0, "secret": 10014.0,
			"twice": 230099.0, "action": 230099.0, "deaf": 230099.0, "many": 230099.0,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the library understood (-want +got):\n%s", d)
	}
	var seen []string
	for _, m := range fake.Messages("") {
		if !strings.HasPrefix(m.Plain, "listening") {
			seen = append(seen, m.Type+" "+m.Plain+m.File)
		}
	}
	if d := cmp.Diff([]string{"interactive answered hook", "text in the topic", "interactive another card", "interactive It is **four**.", "image ", "file out.txt"}, normal(seen)); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}

// normal takes the name away that the library invents for an image.
func normal(seen []string) []string {
	for i, s := range seen {
		if strings.HasPrefix(s, "image ") {
			seen[i] = "image "
		}
	}
	return slices.Clone(seen)
}

func TestPythonSDK(t *testing.T) {
	t.Parallel()
	_, got := run(t, "client.py", func(fake *feishutest.Server) feishutest.Message {
		return feishutest.Message{ID: "om_file", Type: "file", Content: `{"file_key":"` + fake.Store("in.txt", []byte("in")) + `","file_name":"in.txt"}`}
	})
	type list = []any
	want := map[string]any{
		"got": list{
			list{"socket", "ou_ann", "p2p", "text", `{"text":"hi"}`},
			list{"socket", "ou_ann", "p2p", "file"},
			list{"hook", "ou_ann", "p2p", "text", `{"text":"by HTTP"}`},
		},
		"pressed": list{
			list{"socket", "ou_ann", "button", "yes", "oc_p2p_ou_ann"},
			list{"hook", "ou_ann", "button", "no", "oc_p2p_ou_ann"},
		},
		"said": 0.0, "status": list{200.0, 200.0}, "file": list{"in.txt", "in"}, "refused": list{230001.0, 230001.0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the library understood (-want +got):\n%s", d)
	}
}
