package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// What the page about web clients names is there, and it names all that is there.
func TestWebClientsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/web-clients.md")
	if err != nil {
		t.Fatal(err)
	}
	h := running(t, llmtest.NewScript(t))
	web := gateway.WebAPI(h.g)
	read, change, _ := strings.Cut(string(page), "\n## Change\n")
	name := regexp.MustCompile("`([^`]+)`")
	actions := 0
	described := map[string]bool{}
	for line := range strings.Lines(change) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || strings.HasPrefix(cell, "Action") {
			continue
		}
		first := ""
		for _, m := range name.FindAllStringSubmatch(cell, -1) {
			action := m[1]
			if rest, short := strings.CutPrefix(action, "."); short {
				up := strings.Count(rest, ".") + 1
				words := strings.Split(first, ".")
				action = strings.Join(words[:len(words)-up], ".") + "." + rest
			} else {
				first = action
			}
			actions++
			described[action] = true
			_, _, err := web.Do(t.Context(), action, json.RawMessage(`{"no_such_member": 1}`))
			if err == nil || strings.Contains(err.Error(), "there is no action") {
				t.Errorf("%s: %v", action, err)
			}
		}
	}
	reads := 0
	for line := range strings.Lines(read) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(line, "| `") || strings.HasPrefix(cell, "`/api/") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(cell, -1) {
			reads++
			before, _, _ := strings.Cut(m[1], "?")
			described[before] = true
			path, _, _ := strings.Cut(strings.NewReplacer("{key}", "party%3Aann", "{name}", "cron").Replace(m[1]), "?")
			w := httptest.NewRecorder()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/"+path, http.NoBody))
			if strings.Contains(w.Body.String(), "there is nothing at") {
				t.Errorf("%s: %s", path, w.Body)
			}
		}
	}
	if actions < 40 || reads < 15 {
		t.Errorf("%d actions and %d paths were found on the page", actions, reads)
	}

	allReads, allActions := gateway.WebRoutes(h.g)
	unsupported := strings.Join(regexp.MustCompile(`(?m)^.*return 501.*$`).FindAllString(string(page), -1), "\n")
	for _, name := range slices.Concat(allReads, allActions) {
		last := name[strings.LastIndexAny(name, "/.")+1:]
		family := strings.TrimSuffix(name, last) + "*"
		switch {
		case described[name]:
		case strings.Contains(unsupported, "`"+name+"`"), strings.Contains(unsupported, "`"+family+"`"):
		case strings.Contains(unsupported, "`"+last+"`"): // one of the family that the line begins with
		default:
			t.Errorf("%s: add a line to docs/reference/web-clients.md", name)
		}
	}
	h.must(h.end())
}
