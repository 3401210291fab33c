package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// What the page about web clients names is there.
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
	h.must(h.end())
}
