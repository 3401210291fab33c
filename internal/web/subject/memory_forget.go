package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/web"
)

// forgetting is what a text is found in.
type forgetting struct {
	Lines     []memory.Occurrence `json:"lines"`
	Summaries []memory.Occurrence `json:"summaries"`
	Skills    []string            `json:"skills"` // that hold it, and stay
	Preview   string              `json:"preview"`
}

// found looks for a text. Preview names what was found.
func found(ctx context.Context, m remembered, words string) (*memory.Occurrences, forgetting, error) {
	if len(words) > forgetBytes {
		return nil, forgetting{}, memory.ErrTooShort
	}

	all, err := m.Find(ctx, words)
	if err != nil {
		return nil, forgetting{}, err
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%q", words)
	for _, o := range append(append([]memory.Occurrence{}, all.Lines...), all.Entries...) {
		fmt.Fprintf(&b, "%q%q", o.File, o.Line)
	}

	out := forgetting{Lines: []memory.Occurrence{}, Summaries: []memory.Occurrence{}, Skills: append([]string{}, all.Skills...), Preview: versionOf(b.String())}
	for _, o := range all.Lines {
		out.Lines = append(out.Lines, memory.Occurrence{File: o.File, Line: m.secrets.Redact(o.Line)})
	}

	for _, o := range all.Entries {
		out.Summaries = append(out.Summaries, memory.Occurrence{File: o.File, Line: m.secrets.Redact(o.Line)})
	}
	return all, out, nil
}

// previewForget shows what would go, and changes nothing.
func (k Memory) previewForget(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	return k.withMemory(ctx, func(m remembered) (any, error) {
		_, out, err := found(ctx, m, in.Text)
		return out, err
	})
}

// forget removes a text everywhere, if that is still what the preview showed. It
// cannot be undone.
func forget(ctx context.Context, m remembered, payload json.RawMessage) (any, error) {
	var in struct {
		Text    string `json:"text"`
		Preview string `json:"preview"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	all, now, err := found(ctx, m, in.Text)
	if err != nil {
		return nil, err
	}
	if now.Preview != in.Preview {
		return nil, web.Refuse(http.StatusConflict, "what would be removed is not what the preview showed; look at it again")
	}

	done, err := m.Forget(ctx, all)
	if err != nil {
		return nil, err
	}
	return map[string]any{"removed": append([]string{}, done.Removed...), "left": append([]string{}, done.Left...)}, nil
}
