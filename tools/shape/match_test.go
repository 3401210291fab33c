package main

import (
	"maps"
	"testing"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, before map[string][]string
		want        map[string]string
	}{
		"the same folder": {
			map[string][]string{"internal/bus": {"a.go"}}, map[string][]string{"internal/bus": {"b.go"}},
			map[string]string{"internal/bus": "internal/bus"},
		},
		"a folder that moved": {
			map[string][]string{"internal/core/agent": {"turn.go"}}, map[string][]string{"internal/agent": {"turn.go", "ask.go"}},
			map[string]string{"internal/core/agent": "internal/agent"},
		},
		"a folder of another name": {
			map[string][]string{"internal/chat": {"channel.go"}}, map[string][]string{"internal/channel": {"channel.go"}},
			map[string]string{},
		},
		"a folder with other files": {
			map[string][]string{"internal/llm/image": {"wire.go"}}, map[string][]string{"internal/tool/image": {"tool.go"}},
			map[string]string{},
		},
		"a folder whose name stays elsewhere": {
			map[string][]string{"internal/agent": {"ask.go"}, "internal/core/agent": {"turn.go"}}, map[string][]string{"internal/agent": {"turn.go"}},
			map[string]string{"internal/agent": "internal/agent"},
		},
		"the longer end": {
			map[string][]string{"a/tool/undo": {"undo.go"}, "b/undo": {"undo.go"}},
			map[string][]string{"x/tool/undo": {"undo.go"}, "y/undo": {"undo.go"}},
			map[string]string{"a/tool/undo": "x/tool/undo", "b/undo": "y/undo"},
		},
		"more files of the same name": {
			map[string][]string{"web/auth": {"a.go", "b.go"}}, map[string][]string{"p/auth": {"a.go"}, "q/auth": {"a.go", "b.go"}},
			map[string]string{"web/auth": "q/auth"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := match(c.now, c.before); !maps.Equal(got, c.want) {
				t.Errorf("the folders were %v, want %v", got, c.want)
			}
		})
	}
}
