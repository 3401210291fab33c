package turn_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// hush is a credential whose forms in JSON and in addresses differ from itself.
const hush = `n0"t/for+you&42é`

func keeper(t *testing.T) *httpsafe.Registry {
	t.Helper()
	secrets := &httpsafe.Registry{}
	if skipped := secrets.Add("key", httpsafe.NewSecret(hush)); skipped != "" {
		t.Fatal(skipped)
	}
	return secrets
}

// fill writes the credential into every text that a value has, also behind pointers and
// in lists.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("<" + hush + ">")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			quoted, _ := json.Marshal(map[string]string{"a": hush})
			v.SetBytes(quoted)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("m"), reflect.ValueOf(hush))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, field := range v.Fields() {
			fill(field)
		}
	}
}

// holding lists the texts of a value that have the credential, by their fields.
func holding(v reflect.Value, name string) (out []string) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), hush) {
			out = append(out, name)
		}
	case reflect.Pointer:
		return holding(v.Elem(), name)
	case reflect.Slice:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			if quoted, _ := json.Marshal(hush); strings.Contains(string(raw), strings.Trim(string(quoted), `"`)) || !json.Valid(raw) {
				out = append(out, name)
			}
			return out
		}
		return holding(v.Index(0), name)
	case reflect.Map:
		return append(out, name)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range v.NumField() {
			out = append(out, holding(v.Field(i), strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."))...)
		}
	}
	return out
}

// All that people see of something that is said passes the door: a field that is added
// to bus.Outbound and not looked at there is found here. The value that came in is left
// as it was, since its maker may still use it.
func TestEverythingSaidIsRedacted(t *testing.T) {
	t.Parallel()
	// What programs read again, and what only we write.
	allowed := []string{
		"ID", "Key", "Kind", "Route.Channel", "Route.ChatID", "Route.ThreadID", "Route.MessageID", "Session", "ReplyTo", "StreamID",
		"Media.Path", "Media.MIME", "Tool.CallID", "Tool.Phase", "Question.ID", "Question.Code", "Question.Detail.Tool", "Question.Detail.Call",
		"Question.Detail.Network", "Goal.Status", "Edits.CallID", "Edits.What", "Turn.ID", "Turn.SessionKey", "Turn.Model", "Turn.Preset",
		"Turn.Fallback", "Turn.Goal.Status", "Turn.StopReason", "Turn.ErrorKind", "Turn.Tools", "Turn.Receipts.CallID", "Turn.Receipts.Name",
		"Turn.Receipts.ArgsSHA256", "Turn.Receipts.Status", "Turn.Receipts.Code", "Turn.Usage.Billing", "Language", "Meta",
	}
	var said bus.Outbound
	fill(reflect.ValueOf(&said).Elem())
	before := holding(reflect.ValueOf(said), "")

	left := holding(reflect.ValueOf(turn.Redacted(keeper(t), said)), "")
	for _, field := range left {
		if !slices.Contains(allowed, field) {
			t.Errorf("%s goes out with the credential", field)
		}
	}
	for _, field := range allowed {
		if !slices.Contains(left, field) {
			t.Errorf("%s is listed as left alone and is not", field)
		}
	}
	if after := holding(reflect.ValueOf(said), ""); !slices.Equal(after, before) {
		t.Errorf("the value that came in was changed: %d texts had the credential, now %d", len(before), len(after))
	}
}

// The forms of a credential that are looked for: as it is, in JSON, in JSON in JSON, in
// an address and in base64.
func TestFormsOfASecret(t *testing.T) {
	t.Parallel()
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, text := range map[string]string{
		"as it is":     "say " + hush + " now",
		"JSON":         `{"a":` + quoted("x "+hush) + `}`,
		"JSON in JSON": quoted(`{"a":` + quoted(hush) + `}`),
		"query":        "https://e.example/?q=" + url.QueryEscape(hush) + "&z=1",
		"path":         "https://e.example/" + url.PathEscape(hush) + "/z",
		"base64":       "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+hush+":")),
	} {
		out := turn.Redacted(keeper(t), bus.Outbound{Kind: bus.Final, Text: text}).Text
		if !strings.Contains(out, "[redacted:key]") || strings.Contains(out, hush) {
			t.Errorf("%s: %q goes out", name, out)
		}
	}
}

// pass sends words through the door and joins what comes out of each kind.
func pass(d *turn.Outgoing, all []bus.Outbound) (kinds []bus.Kind, text map[bus.Kind]string) {
	text = map[bus.Kind]string{}
	for _, o := range all {
		for _, out := range d.Pass(o) {
			if len(kinds) == 0 || kinds[len(kinds)-1] != out.Kind {
				kinds = append(kinds, out.Kind)
			}
			text[out.Kind] += out.Text
		}
	}
	return kinds, text
}

// A credential that lies across pieces is found wherever it is cut, in words, thoughts
// and what a command prints at the same time, and nothing else is lost.
func TestSecretAcrossPieces(t *testing.T) {
	t.Parallel()
	whole := "before " + hush + " after"
	for cut := range len(whole) {
		for second := cut; second < len(whole); second += 5 {
			var said []bus.Outbound
			for _, piece := range []string{whole[:cut], whole[cut:second], whole[second:]} {
				said = append(
					said,
					bus.Outbound{Kind: bus.Reasoning, StreamID: "s", Text: piece},
					bus.Outbound{Kind: bus.Delta, StreamID: "s", Text: piece},
					bus.Outbound{Kind: bus.ToolOutput, Text: piece, Tool: &bus.Tool{CallID: "c"}},
				)
			}
			said = append(said, bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s"})
			_, text := pass(turn.NewOutgoing(keeper(t)), said)
			for _, kind := range []bus.Kind{bus.Reasoning, bus.Delta, bus.ToolOutput} {
				if text[kind] != "before [redacted:key] after" {
					t.Fatalf("cut at %d and %d, %s is %q", cut, second, kind, text[kind])
				}
			}
		}
	}
}

// What is held back because it may begin a credential comes before the end of its
// stream, and at the latest before the answer; of a command its result says it.
func TestEndOfPieces(t *testing.T) {
	t.Parallel()
	begin := hush[:5]
	delta := func(kind bus.Kind) bus.Outbound { return bus.Outbound{Kind: kind, StreamID: "s", Text: "x " + begin} }
	for name, c := range map[string]struct {
		said  []bus.Outbound
		kinds []bus.Kind
		text  map[bus.Kind]string
	}{
		"the stream ends": {
			[]bus.Outbound{delta(bus.Delta), {Kind: bus.DeltaEnd, StreamID: "s"}},
			[]bus.Kind{bus.Delta, bus.DeltaEnd},
			map[bus.Kind]string{bus.Delta: "x " + begin, bus.DeltaEnd: ""},
		},
		"another stream ends": {
			[]bus.Outbound{delta(bus.Delta), {Kind: bus.DeltaEnd, StreamID: "other"}},
			[]bus.Kind{bus.Delta, bus.DeltaEnd},
			map[bus.Kind]string{bus.Delta: "x ", bus.DeltaEnd: ""},
		},
		"the turn ends": {
			[]bus.Outbound{delta(bus.Reasoning), {Kind: bus.Final, Text: "done"}},
			[]bus.Kind{bus.Reasoning, bus.Final},
			map[bus.Kind]string{bus.Reasoning: "x " + begin, bus.Final: "done"},
		},
		"a command ends": {
			[]bus.Outbound{
				{Kind: bus.ToolOutput, Text: "x " + begin, Tool: &bus.Tool{CallID: "c"}},
				{Kind: bus.ToolEvent, Tool: &bus.Tool{CallID: "c", Phase: "end"}},
				{Kind: bus.ToolOutput, Text: "next", Tool: &bus.Tool{CallID: "c"}},
			},
			[]bus.Kind{bus.ToolOutput, bus.ToolEvent, bus.ToolOutput},
			map[bus.Kind]string{bus.ToolOutput: "x next", bus.ToolEvent: ""},
		},
	} {
		kinds, text := pass(turn.NewOutgoing(keeper(t)), c.said)
		if !slices.Equal(kinds, c.kinds) || fmt.Sprint(text) != fmt.Sprint(c.text) {
			t.Errorf("%s: %v %q, want %v %q", name, kinds, text, c.kinds, c.text)
		}
	}
}
