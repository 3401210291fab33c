package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// What the last turns answer while the gateway comes to rest is said before it
// ends, not by the next start, also when one chat gets several answers.
func TestGatewaySaysLastAnswers(t *testing.T) {
	t.Parallel()
	const people, each = 10, 3
	var asked sync.WaitGroup
	asked.Add(people * each)
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step {
		asked.Done()
		return llmtest.Reply("my last words")
	}
	h := newHost(t, model)
	h.party.said = make(chan bus.Outbound) // the platform takes nothing until we listen
	h.configure(strings.Replace(partyConfig, `["ann"]`, `["*"]`, 1))
	h.start()
	<-h.party.joined
	for i := range people * each {
		h.must(h.party.write(t, fmt.Sprint("p", i%people), fmt.Sprint("m", i), fmt.Sprint("hello ", i)))
	}
	asked.Wait()
	ended := make(chan error, 1)
	go func() { ended <- h.end() }()
	<-time.After(300 * time.Millisecond) // turns are over by then; if not, the test shows less and still passes
	heard := 0
	for {
		select {
		case out := <-h.party.said:
			if out.Text == "my last words" {
				heard++
			}
			continue
		case err := <-ended:
			h.must(err)
		}
		break
	}
	if want := people * each; heard != want {
		t.Errorf("%d of %d answers were said before the end", heard, want)
	}
}
