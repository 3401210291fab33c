package arch_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// Each chat platform has a page, which the list of the platforms links to: people find
// there what the platform can do and how to connect it.
func TestPlatformsHaveAPage(t *testing.T) {
	const list = "docs/how-to/channels/README.md"
	linked := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+\.md)\)`).FindAllStringSubmatch(string(readFile(t, list)), -1) {
		linked[filepath.ToSlash(filepath.Join(filepath.Dir(list), m[1]))] = true
	}
	pages := map[string]string{ // of platforms whose page is not called like their section
		"msteams":   "docs/how-to/channels/teams.md",
		"websocket": "docs/reference/websocket.md",
	}
	for _, name := range slices.Sorted(maps.Keys(gateway.Channels())) {
		page := pages[name]
		if page == "" {
			page = "docs/how-to/channels/" + name + ".md"
		}
		if !linked[page] {
			t.Errorf("the platform %s has no page: write %s and add a row to the table Comparison of %s", name, page, list)
		}
	}
}
