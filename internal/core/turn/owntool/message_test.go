package owntool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestMessageElsewhere(t *testing.T) {
	t.Parallel()
	here := bus.Route{Channel: "telegram", ChatID: "1", MessageID: "9"}
	for _, tt := range []struct {
		name, input, scope string
		alone              bool // no gateway
		want               string
		code               tool.Code
		to                 bus.Route
	}{
		{name: "this chat", input: `{"content":"x"}`, to: here, want: "sent to telegram 1"},
		{name: "this chat by name", input: `{"content":"x","channel":"telegram","chat_id":"1"}`, to: here, want: "sent to telegram 1"},
		{name: "another chat", input: `{"content":"x","chat_id":"2"}`, to: bus.Route{Channel: "telegram", ChatID: "2"}, want: "sent to telegram 2"},
		{name: "another channel", input: `{"content":"x","channel":"email","chat_id":"a@b.example"}`, to: bus.Route{Channel: "email", ChatID: "a@b.example"}, want: "sent to email a@b.example"},
		{name: "no chat", input: `{"content":"x","channel":"email"}`, want: "chat_id is missing", code: tool.InvalidArgs},
		{name: "another socket", input: `{"content":"x","channel":"websocket","chat_id":"z"}`, want: "cannot be written to", code: tool.DeniedPolicy},
		{name: "a guest", input: `{"content":"x","chat_id":"2"}`, scope: "guest", want: "only the current chat", code: tool.DeniedPolicy},
		{name: "without a gateway", input: `{"content":"x","chat_id":"2"}`, alone: true, want: "gateway", code: tool.Unsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var sent []bus.Route
			m := Messenger{Elsewhere: func(_ context.Context, _ tool.Call, out bus.Outbound) error {
				sent = append(sent, out.Route)
				return nil
			}}
			if tt.alone {
				m.Elsewhere = nil
			}
			res, err := Message(m).Run(t.Context(), tool.Call{
				Input: json.RawMessage(tt.input), Route: here, Scope: tt.scope, TurnID: "t",
				Publish: func(_ context.Context, out bus.Outbound) error { sent = append(sent, out.Route); return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Content.String(); !strings.Contains(got, tt.want) || res.Code != tt.code {
				t.Errorf("got %q (%s), want %q (%s)", got, res.Code, tt.want, tt.code)
			}
			if got := fmt.Sprint(sent); tt.code == "" && got != fmt.Sprint([]bus.Route{tt.to}) || tt.code != "" && len(sent) > 0 {
				t.Errorf("sent to %s, want %v", got, tt.to)
			}
		})
	}
}

func TestMessagesOfATurnAreBounded(t *testing.T) {
	t.Parallel()
	const most = 20
	sent := 0
	call := tool.Call{
		Input: json.RawMessage(`{"content":"x"}`), Route: bus.Route{Channel: "telegram", ChatID: "1"}, State: new(tool.State),
		Publish: func(context.Context, bus.Outbound) error { sent++; return nil },
	}
	for _, turn := range []string{"first", "second"} {
		sent, call.TurnID = 0, turn
		for i := range most + 2 {
			res, err := Message(Messenger{}).Run(t.Context(), call)
			if err != nil || res.IsError != (i >= most) {
				t.Fatalf("message %d of the %s turn: %v, %v", i+1, turn, res, err)
			}
		}
		if sent != most {
			t.Errorf("%d messages in the %s turn, want %d", sent, turn, most)
		}
	}
}

// Answers to choose from go with the message, row by row.
func TestMessageButtons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		input string
		want  []string
		code  tool.Code
	}{
		{`{"content":"tea?","buttons":[["yes","no"],["later"]]}`, []string{"yes", "no", "later"}, ""},
		{`{"content":"tea?"}`, nil, ""},
		{`{"content":"tea?","buttons":[["yes",""]]}`, nil, tool.InvalidArgs},
		{`{"content":"tea?","buttons":[["` + strings.Repeat("x", labelRunes+1) + `"]]}`, nil, tool.InvalidArgs},
	} {
		var sent []string
		res, err := Message(Messenger{}).Run(t.Context(), tool.Call{
			Input: json.RawMessage(tt.input), Route: bus.Route{Channel: "telegram", ChatID: "1"}, TurnID: "t", ID: "c",
			Publish: func(_ context.Context, out bus.Outbound) error {
				if out.Question != nil {
					sent = out.Question.Options
				}
				return nil
			},
		})
		if err != nil || res.Code != tt.code || fmt.Sprint(sent) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v (%s), %v", tt.input, sent, res.Code, err)
		}
	}
}
