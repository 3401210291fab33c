package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A model that repeats itself is stopped in the stream, its answer until then is
// kept once, and a text that repeats itself is not continued.
func TestRepetition(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("First, we add the two numbers, which are two and two, and look at the sum of them. ", 4)
	paragraph := numbered(30, "Sentence %d of the paragraph says something else. ")
	for _, c := range []struct {
		name  string
		steps []llmtest.Step
		keeps string // the answer without what we say about it
		calls int
	}{
		{"a sentence", []llmtest.Step{{Text: "So: " + strings.Repeat("The answer is 4. ", 5000), Chunk: 7}}, "So: The answer is 4.", 1},
		{"a paragraph", []llmtest.Step{{Text: strings.Repeat(paragraph, 100), Chunk: 30}}, strings.TrimSpace(paragraph), 1},
		{"not ASCII", []llmtest.Step{{Text: strings.Repeat("答案是四。", 5000), Chunk: 5}}, "答案是四。", 1},
		{"cut off", []llmtest.Step{llmtest.Length(strings.Repeat("2+2 is 4. ", 60))}, "2+2 is 4.", 1},
		{"begins again", []llmtest.Step{llmtest.Length(paragraph), llmtest.Length(paragraph)}, strings.TrimSpace(paragraph), 2},
		{"thinking", []llmtest.Step{{Think: strings.Repeat("Wait, is it 4? ", 5000), Text: "4", Chunk: 9}}, "", 1},
		{"inline thinking", []llmtest.Step{{Text: "<think>" + strings.Repeat("Wait, is it 4? ", 5000) + "</think>4", Chunk: 9}}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, c.steps...)
			b := newBench(t, m)
			res := b.run(t)
			if res.Stop != runner.LoopDetected || len(m.Requests()) != c.calls {
				t.Fatalf("stop %s after %d requests with %d bytes, want loop_detected after %d", res.Stop, len(m.Requests()), len(res.Text), c.calls)
			}
			said, note, _ := strings.Cut(res.Text, "\n\n(I stopped here")
			if c.keeps != "" && (said != c.keeps || !strings.Contains(note, "repeating itself")) {
				t.Errorf("the answer is %q", res.Text)
			}
			if c.keeps == "" && !strings.HasPrefix(res.Text, "The model repeated itself") {
				t.Errorf("the answer is %q", res.Text)
			}
			if len(b.deltas) > 20_000 {
				t.Errorf("%d bytes were shown", len(b.deltas))
			}
			if last := b.recorded[len(b.recorded)-1]; last.Content.String() != res.Text {
				t.Errorf("recorded %q", last.Content)
			}
		})
	}
	t.Run("what people want", func(t *testing.T) {
		t.Parallel()
		table := "| n | name |\n| --- | --- |\n" + numbered(400, "| %d | Ann |\n")
		lines := strings.Repeat("I will not talk in class.\n", 60)
		for _, text := range []string{table, lines, strings.Repeat("-", 200) + "\n" + long} {
			if res := newBench(t, llmtest.NewScript(t, llmtest.Step{Text: text, Chunk: 11})).run(t); res.Stop != runner.Completed || res.Text != strings.TrimSpace(text) {
				t.Errorf("%.40q: stop %s with %d of %d bytes", text, res.Stop, len(res.Text), len(text))
			}
		}
	})
}

// numbered is a text of so many lines with their numbers.
func numbered(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// Two calls in turn, each with the same result every time, are a loop as well.
func TestLoopOfTwo(t *testing.T) {
	t.Parallel()
	runs := 0
	same := tool.Func(tool.Tool{Name: "same", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		runs++
		return tool.Text("nothing new"), nil
	})
	m := llmtest.NewScript(t)
	n := 0
	m.Otherwise = func(llm.Request) llmtest.Step {
		n++
		return llmtest.Call("same", fmt.Sprintf(`{"text":"%d"}`, n%2))
	}
	res := newBench(t, m, same).run(t)
	if res.Stop != runner.LoopDetected || runs != 8 || len(m.Requests()) != 12 {
		t.Errorf("stop %s, ran %d times in %d requests; want loop_detected after 8 runs and 12 requests", res.Stop, runs, len(m.Requests()))
	}
}

// What a stopped model had said is in the result.
func TestCancelledText(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := llmtest.NewScript(t, llmtest.Step{Text: "Once upon a time", Until: make(chan struct{}), Hang: true})
	b := newBench(t, m)
	b.spec.Hooks = append(b.spec.Hooks, runner.Hooks{Delta: func(_ context.Context, _ *runner.Iteration, _ string) {
		if strings.Contains(b.deltas, "time") {
			cancel()
		}
	}})
	res, err := runner.Run(ctx, b.spec)
	if err != nil || res.Stop != runner.Cancelled || res.Text != "Once upon a time" || len(b.recorded) != 0 {
		t.Errorf("%s %q, recorded %v: %v", res.Stop, res.Text, b.recorded, err)
	}
}

// What there was of an answer stays when the model fails, also what was said
// before an output limit.
func TestFailedText(t *testing.T) {
	t.Parallel()
	boom := &llm.Error{Kind: llm.StreamTruncated, Message: "the line is dead"}
	for name, steps := range map[string][]llmtest.Step{
		"in the answer":     {{Text: "Once upon a time", Err: boom}},
		"in the next part":  {llmtest.Length("Once upon"), {Text: " a time", Err: boom}},
		"after a cut":       {llmtest.Length("Once upon a time"), llmtest.Fail(boom)},
		"in a hidden start": {{Text: "<think>hm</think>Once upon a time", Err: boom}},
	} {
		for _, streaming := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %t", name, streaming), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, llmtest.NewScript(t, steps...))
				want := "Once upon a time"
				if !streaming {
					b.spec.Hooks = nil
				}
				res := b.run(t)
				if roles(b.recorded) != "assistant" || b.recorded[0].Content.Text != want {
					t.Errorf("recorded %v", b.recorded)
				}
				if streaming {
					if b.deltas != want+"|" {
						t.Errorf("deltas %q", b.deltas)
					}
					want = "" // was shown
				}
				if res.Stop != runner.ModelError || res.Text != want || !errors.Is(res.Err, boom) {
					t.Errorf("%s %q: %v", res.Stop, res.Text, res.Err)
				}
			})
		}
	}
}
