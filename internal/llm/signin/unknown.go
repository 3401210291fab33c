package signin

import (
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// Unknown says why there is no sign-in for a name, and what to do instead.
func Unknown(name string) error {
	plain := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, r := range catalog.Rows() {
		if r.Name == plain && r.Auth != "" {
			return fmt.Errorf("signing in to %s is not supported yet; supported: %s", name, strings.Join(Names(), ", "))
		}
		if r.Name == plain {
			return fmt.Errorf("%s uses a key instead of a sign-in; set it with: nanobot config set providers.%s.apiKey -", name, plain)
		}
	}

	hint := ""
	if near := text.NearestRatio(strings.ToLower(name), Names(), 0.6); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Errorf("there is no sign-in for %q%s\nSupported: %s", name, hint, strings.Join(Names(), ", "))
}
