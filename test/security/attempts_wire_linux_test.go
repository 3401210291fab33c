package security_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// meter is a provider that answers in a few words, and reports what it likes.
type meter struct {
	title    string
	provider string // its name in the configuration
	section  object // besides the key
	model    string
	// Names of the numbers: of the question, of the answer, of what was cached.
	question, answer, cached string
	path                     string // where it is asked
	// speak is an answer with a report.
	speak func(report string) (contentType, body string)
}

// meters are the providers of all wires but Chat Completions, which other attempts
// speak.
func meters() []meter {
	const base = "http://models.example.test"
	return []meter{
		{
			title: "Anthropic Messages", provider: "custom", section: object{"apiBase": base, "wire": "anthropic"}, model: "m",
			question: "input_tokens", answer: "output_tokens", cached: "cache_read_input_tokens", path: "/messages", speak: speakMessages,
		},
		{
			title: "OpenAI Responses", provider: "custom", section: object{"apiBase": base + "/v1", "wire": "responses"}, model: "m",
			question: "input_tokens", answer: "output_tokens", cached: "cached_tokens", path: "/responses", speak: speakResponses,
		},
		{
			title: "Azure OpenAI", provider: "azure_openai", section: object{"apiBase": base}, model: "m",
			question: "input_tokens", answer: "output_tokens", cached: "cached_tokens", path: "/responses", speak: speakResponses,
		},
		{
			title: "AWS Bedrock", provider: "bedrock", section: object{"apiBase": base, "region": "us-east-1"}, model: "amazon.nova-pro-v1:0",
			question: "inputTokens", answer: "outputTokens", cached: "cacheReadInputTokens", path: "/converse-stream", speak: speakConverse,
		},
	}
}

const meterWords = "It is a fine day."

func speakMessages(report string) (contentType, body string) {
	return "text/event-stream", strings.Join([]string{
		`event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":` + report + `}}`,
		`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + meterWords + `"}}`,
		`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}`,
		`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":` + report + `}`,
		`event: message_stop` + "\n" + `data: {"type":"message_stop"}`,
	}, "\n\n") + "\n\n"
}

func speakResponses(report string) (contentType, body string) {
	message := `{"type":"message","id":"i1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + meterWords + `","annotations":[]}]}`
	return "text/event-stream", strings.Join([]string{
		`data: {"type":"response.created","response":{"id":"r1","status":"in_progress","output":[]}}`,
		`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"i1","role":"assistant","status":"in_progress","content":[]}}`,
		`data: {"type":"response.output_text.delta","item_id":"i1","output_index":0,"content_index":0,"delta":"` + meterWords + `"}`,
		`data: {"type":"response.output_item.done","output_index":0,"item":` + message + `}`,
		`data: {"type":"response.completed","response":{"id":"r1","status":"completed","output":[` + message + `],"usage":` + report + `}}`,
	}, "\n\n") + "\n\n"
}

func speakConverse(report string) (contentType, body string) {
	return "application/vnd.amazon.eventstream", llmtest.ConverseFrames(strings.Join([]string{
		`messageStart {"role":"assistant"}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"` + meterWords + `"}}`,
		`contentBlockStop {"contentBlockIndex":0}`,
		`messageStop {"stopReason":"end_turn"}`,
		`metadata {"usage":` + report + `,"metrics":{"latencyMs":1}}`,
	}, "\n"))
}

// absurd are reports that are worth nothing. Each has the numbers of the question
// and the answer, and what was cached; "" leaves one out.
func absurd() []struct{ what, question, answer, cached string } {
	return []struct{ what, question, answer, cached string }{
		{"1e300 tokens of the answer", "10", "1e300", ""},
		{"a number beyond all floats", "1e999", "5", ""},
		{"fewer than no tokens", "-900000", "-5", ""},
		{"the least integer", "-9223372036854775808", "5", ""},
		{"more than the largest integer", "9223372036854775808", "9223372036854775808", ""},
		{"absurd tokens as a text", `"1e300"`, `"-1"`, ""},
		{"a list and an object in the place of numbers", "[10]", `{"n":5}`, ""},
		{"that less than nothing was cached", "10", "5", "-1e18"},
		{"that 1e300 tokens were cached", "10", "5", "1e300"},
		{"nothing at all", "", "", ""},
	}
}

func (m meter) report(question, answer, cached string) string {
	var parts []string
	for _, p := range [][2]string{{m.question, question}, {m.answer, answer}, {m.cached, cached}} {
		if p[1] == "" {
			continue
		}
		part := fmt.Sprintf("%q:%s", p[0], p[1])
		if p[0] == "cached_tokens" {
			part = `"input_tokens_details":{` + part + `}`
		}
		parts = append(parts, part)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// wireAttempts are reports that are worth nothing, on every other wire.
func wireAttempts() []attempt {
	var list []attempt
	for _, m := range meters() {
		for _, r := range absurd() {
			list = append(list, attempt{
				route: fmt.Sprintf("%s: a provider reports %s", m.title, r.what), expect: "counted as the worst case: the limit of the day stops it", either: true,
				run: func(a *trial) {
					asked := a.measured(m, m.report(r.question, r.answer, r.cached))
					stopped, answered := false, false
					for i := 0; i < 40 && !stopped; i++ {
						out := a.cli("agent", "-m", "hello")
						answered = answered || strings.Contains(out.stdout, meterWords)
						stopped = strings.Contains(out.stdout+out.stderr, "budget")
					}
					a.shows(answered, "no answer: %s", tail(a.all.stderr))
					if !stopped {
						a.broke("%d calls and no limit", asked.Load())
					}
				},
			})
		}
	}
	return append(list, soundReports()...)
}

// soundReports are reports as they should be, which cost what they say: without
// them, a limit that stops everything would look the same.
func soundReports() []attempt {
	var list []attempt
	for _, m := range meters() {
		list = append(list, attempt{
			route: m.title + ": a provider reports what it used, which is little", expect: "counted as it says, and not as the worst case", either: true,
			run: func(a *trial) {
				a.measured(m, m.report("10", "5", "4"))
				for range 40 {
					if out := a.cli("agent", "-m", "hello"); !strings.Contains(out.stdout, meterWords) {
						a.broke("no answer: %s", tail(out.stdout+out.stderr))
						return
					}
				}
			},
		})
	}
	return list
}

// measured gives the house a provider with a small limit for a day, and counts what
// it is asked. It is reached through a proxy, under a name elsewhere: a model on
// this machine would cost nothing.
func (a *trial) measured(m meter, report string) *atomic.Int64 {
	a.t.Helper()
	var asked atomic.Int64
	contentType, body := m.speak(report)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // it may be cut
		if !strings.HasSuffix(r.URL.Path, m.path) {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body) // it may be gone
	}))
	a.t.Cleanup(srv.Close)

	section := object{"apiKey": a.key}
	maps.Copy(section, m.section)
	a.config["providers"] = object{m.provider: section}
	a.config["agents"] = object{"defaults": object{
		"model": m.model, "provider": m.provider, "maxTokens": 500, "budget": object{"dailyUsd": 0.1, "onExceed": "stopAll"},
	}}
	a.more = []string{"http_proxy=" + srv.URL}
	a.write(filepath.Join(a.data, "prices.json"), `{"asOf":"2026-11","prices":[{"model":"*","in":1,"out":10}]}`)
	return &asked
}
