package subject_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/skill"
)

func js(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

// Skills are written and checked in the page; what others changed or made is not lost.
func TestWriteSkill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	type checked struct {
		Version  string
		Problems []skill.Problem
	}
	type shown struct{ File, Version string }
	if got := acts[checked](t, h, "skill.check", `{"name":"tea","text":"no front matter"}`); len(got.Problems) == 0 || !got.Problems[0].Error {
		t.Errorf("check = %+v", got)
	}
	if _, found := find(t, h, "tea"); found {
		t.Error("a check made a skill")
	}
	h.refuses(t, "skill.write", `{"name":"tea","text":"no front matter"}`, 422, "not valid")
	first := acts[checked](t, h, "skill.write", string(js(t, map[string]any{"name": "tea", "text": skillText("tea", "Boil.")})))
	got := read[shown](t, h, "webui/skills/tea")
	if got.File != skillText("tea", "Boil.") || got.Version != first.Version {
		t.Errorf("written: %+v, want version %s", got, first.Version)
	}
	if s, _ := find(t, h, "tea"); s.Source != "workspace" {
		t.Errorf("source = %q", s.Source)
	}
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "tea", "text": skillText("tea", "x")})), 409, "exists")
	second := acts[checked](t, h, "skill.write", string(js(t, map[string]any{"name": "tea", "text": skillText("tea", "Steep."), "version": first.Version})))
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "tea", "text": skillText("tea", "Spill."), "version": first.Version})), 409, "changed")
	if got := read[shown](t, h, "webui/skills/tea"); got.Version != second.Version {
		t.Errorf("after a stale write: %+v", got)
	}
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "weather", "text": skillText("weather", "x")})), 409, "built-in")
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "../out", "text": skillText("out", "x")})), 422, "not a valid skill name")
	acts[installed](t, h, "skill.install", `{"data_url":"`+zipped(t, map[string]string{"SKILL.md": skillText("cake", "Bake.")})+`"}`)
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "cake", "text": skillText("cake", "x"), "version": read[shown](t, h, "webui/skills/cake").Version})), 409, "installed")
	must(t, os.Symlink(t.TempDir(), filepath.Join(h.Workspace, "skills", "linked")))
	h.refuses(t, "skill.write", string(js(t, map[string]any{"name": "linked", "text": skillText("linked", "x"), "force": true})), 422, "link")
}
