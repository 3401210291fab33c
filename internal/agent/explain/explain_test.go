package explain

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestExplainCoversEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[string]llm.Kind{}
	for _, k := range llm.Kinds() {
		s := Error(&llm.Error{Kind: k, Provider: "p"}, "m")
		if s == "" || s == "The model call failed." {
			t.Errorf("kind %s has no explanation", k)
		}
		seen[s] = k
	}
}
