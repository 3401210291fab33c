package chain

import (
	"context"
	"iter"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Lacks holds what a model cannot do.
type Lacks struct{ Images, Tools bool }

// Within makes a model that is never asked for what it lacks: a note takes the
// place of images, and no tools are offered.
func Within(m llm.Model, l Lacks) llm.Model {
	if l == (Lacks{}) {
		return m
	}
	return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		if l.Images {
			req, _ = withoutImages(req)
		}
		if l.Tools {
			req.Tools, req.ToolChoice = nil, ""
		}
		return m.Stream(ctx, req)
	})
}
