package llmtest

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Canned makes a client that answers every request, in the protocol of its
// path, with the same reply. It costs nothing itself, so that what is measured
// is the driver.
func Canned(r StreamReply) *http.Client {
	return &http.Client{Transport: canned{
		chat: []byte("data: " + strings.Join(r.chat(), "\n\ndata: ") + "\n\n"), messages: []byte(r.messages()), responses: []byte(r.responses()),
	}}
}

type canned struct{ chat, messages, responses []byte }

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}

	body := c.chat
	switch {
	case strings.HasSuffix(r.URL.Path, "/messages"):
		body = c.messages
	case strings.HasSuffix(r.URL.Path, "/responses"):
		body = c.responses
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

func costRequest() llm.Request {
	return llm.Request{
		Model: "claude-sonnet-4-6", MaxTokens: 2000, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("go on")}},
		Tools: toolDefs([]string{"f"}),
	}
}

// longReply returns an answer of n pieces: text, and the arguments of a call.
func longReply(n int) StreamReply {
	args := slices.Repeat([]string{`x\n1`}, n/2)
	return StreamReply{
		Text:  slices.Repeat([]string{" word,"}, n-n/2),
		Calls: []StreamCall{{ID: "call_1", Name: "f", Args: append(append([]string{`{"p":"`}, args...), `"}`)}},
	}
}

// consume plays a stream to its end and returns the size of the answer.
func consume(tb testing.TB, m llm.Model) int {
	tb.Helper()
	n := 0
	for ev, err := range m.Stream(tb.Context(), costRequest()) {
		if err != nil {
			tb.Fatal(err)
		}
		if ev.Kind == llm.Done {
			n = len(ev.Response.Message.Content.Text) + len(ev.Response.Message.ToolCalls[0].Arguments)
		}
	}

	return n
}

// StreamCost checks that assembling a stream takes memory in proportion to its
// length: twice the pieces, about twice the bytes. It must not run beside
// other tests.
func StreamCost(t *testing.T, newModel func(tb testing.TB, c *http.Client) llm.Model) {
	t.Helper()
	const pieces = 8000
	spent := func(n int) (allocated uint64, size int) {
		m := newModel(t, Canned(longReply(n)))
		consume(t, m) // what is made only once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		size = consume(t, m)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, size
	}

	small, size := spent(pieces)
	large, twice := spent(2 * pieces)
	if twice < 2*size-100 || size < 4*pieces {
		t.Fatalf("answers of %d and %d bytes for %d and %d pieces", size, twice, pieces, 2*pieces)
	}

	t.Logf("%d bytes allocated per piece", large/(2*pieces))
	if large > small*23/10 {
		t.Errorf("%d pieces allocate %d bytes, twice as many %d", pieces, small, large)
	}
}

// BenchStream measures a stream of 100,000 pieces.
func BenchStream(b *testing.B, newModel func(tb testing.TB, c *http.Client) llm.Model) {
	b.Helper()
	const pieces = 100_000
	m := newModel(b, Canned(longReply(pieces)))
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for b.Loop() {
		consume(b, m)
	}

	b.StopTimer()
	runtime.ReadMemStats(&after)
	total := float64(b.N) * pieces
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/total, "allocs/delta")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/total, "B/delta")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/delta")
}
