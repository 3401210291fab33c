package dingtalk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// Two accounts run side by side; the same account twice does not.
func TestAccounts(t *testing.T) {
	t.Parallel()
	one, two := loopback(t), loopback(t)
	two.SetClient("dingtest0002")
	house(t, map[string]json.RawMessage{"dingtalk": section(one, nil), "dingtalk.work": section(two, map[string]any{"clientId": "dingtest0002"})}, echo)
	one.Write("ann", "", "home", nil)
	two.Write("ann", "", "work", nil)
	await(t, "both answers", func() bool { return len(texts(one)) == 1 && len(texts(two)) == 1 })
	if got := slices.Concat(texts(one), texts(two)); !slices.Equal(got, []string{"re: home", "re: work"}) {
		t.Errorf("answers %q", got)
	}

	same := loopback(t)
	m := house(t, map[string]json.RawMessage{"dingtalk": section(same, nil), "dingtalk.copy": section(same, nil)}, echo)
	await(t, "one of them to be refused", func() bool {
		return slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return strings.Contains(s.Error, "dingtalk") })
	})
	same.Write("ann", "", "hi", nil)
	await(t, "the answer", func() bool { return len(texts(same)) > 0 })
}
