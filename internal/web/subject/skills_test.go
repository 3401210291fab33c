package subject_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/skill"
)

func skillText(name, body string) string {
	return "---\nname: " + name + "\ndescription: How to write " + name + "\n---\n\n# " + name + "\n\n" + body + "\n"
}

// zipped is an archive as a data: URL.
func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		must(t, err)
		_, err = w.Write([]byte(text))
		must(t, err)
	}
	must(t, z.Close())
	return "data:application/zip;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

type taught struct {
	Name, Description, Source, Text, From string
	Available, Disabled, Always, Changed  bool
	SHA256                                string
	InstalledAt                           string `json:"installed_at"`
}

type installed struct {
	Name     string
	Skill    taught
	Problems []skill.Problem
}

func find(t *testing.T, h *home, name string) (taught, bool) {
	t.Helper()
	for _, s := range read[struct{ Skills []taught }](t, h, "webui/skills").Skills {
		if s.Name == name {
			return s, true
		}
	}
	return taught{}, false
}

func TestSkills(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.Disabled = []string{"zzz"}
	h.write(t, "skills/own/SKILL.md", skillText("own", "Mine."))
	if s, ok := find(t, h, "own"); !ok || s.Source != "workspace" || !s.Available || s.Text != "" {
		t.Errorf("own = %+v, %v", s, ok)
	}
	if s, ok := find(t, h, "zzz"); !ok || !s.Disabled || s.Available {
		t.Errorf("one that is left out = %+v, %v", s, ok)
	}
	if s := read[taught](t, h, "webui/skills/own"); !strings.Contains(s.Text, "Mine.") {
		t.Errorf("text = %q", s.Text)
	}
	h.refused(t, "webui/skills/none", 404, "none")
	for _, path := range []string{"search?query=x", "trending", "trends"} {
		h.refused(t, "webui/skills/"+path, 501, "catalogue")
	}
}

func TestInstallSkill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	upload := zipped(t, map[string]string{"notes/SKILL.md": skillText("notes", "One.")})
	got := acts[installed](t, h, "skill.install", `{"name":"notes.skill","data_url":"`+upload+`"}`)
	if got.Name != "notes" || got.Skill.Source != "installed" || got.Skill.SHA256 == "" || got.Skill.Changed || got.Skill.From != "upload notes.skill" || got.Problems == nil {
		t.Errorf("installed: %+v", got)
	}
	if s := read[taught](t, h, "webui/skills/notes"); !strings.Contains(s.Text, "One.") || s.InstalledAt != "2026-05-04T12:00:00Z" {
		t.Errorf("then: %+v", s)
	}
	h.refuses(t, "skill.install", `{"data_url":"`+upload+`"}`, 409, "force")
	acts[installed](t, h, "skill.install", `{"data_url":"`+upload+`","force":true}`)

	for name, c := range map[string]struct {
		payload string
		want    int
		word    string
	}{
		"nothing":        {`{}`, 400, "data_url"},
		"both":           {`{"path":"x","data_url":"data:;base64,eA=="}`, 400, "either"},
		"no data url":    {`{"data_url":"http://example.org/x.zip"}`, 400, "base64"},
		"no base64":      {`{"data_url":"data:x;base64,###"}`, 400, "base64"},
		"no archive":     {`{"data_url":"data:x;base64,aGVsbG8="}`, 422, "archive"},
		"leads out":      {`{"data_url":"` + zipped(t, map[string]string{"../SKILL.md": skillText("a", "x")}) + `"}`, 422, "leads out"},
		"not valid":      {`{"data_url":"` + zipped(t, map[string]string{"SKILL.md": "no front matter"}) + `"}`, 422, "not valid"},
		"hides built-in": {`{"data_url":"` + zipped(t, map[string]string{"weather/SKILL.md": skillText("weather", "x")}) + `"}`, 409, "built-in"},
		"too large":      {`{"data_url":"data:x;base64,` + strings.Repeat("A", 15<<20) + `"}`, 413, "MiB"},
		"unknown member": {`{"url":"x"}`, 400, "url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.refuses(t, "skill.install", c.payload, c.want, c.word)
		})
	}
}

// Skills come out of the workspace, and from nowhere else on the disk.
func TestInstallSkillFromPath(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	free, err := diskio.OpenJail(diskio.JailOptions{Workspace: h.Workspace, Protected: []string{filepath.Join(h.Workspace, "secret.txt")}})
	must(t, err)
	t.Cleanup(func() { must(t, free.Close()) })
	h.Jail = free // tools may go anywhere
	h.write(t, "dl/tidy/SKILL.md", skillText("tidy", "See scripts/run.sh."))
	h.write(t, "dl/tidy/scripts/run.sh", "#!/bin/sh\n")
	h.write(t, "dl/tidy/.git/config", "x")
	if got := acts[installed](t, h, "skill.install", `{"path":"dl/tidy"}`); got.Name != "tidy" || got.Skill.From != filepath.Join(h.Workspace, "dl", "tidy") {
		t.Errorf("of a folder: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(h.Workspace, "skills", "tidy", "scripts", "run.sh")); err != nil {
		t.Error(err)
	}
	_, err = skill.PackFile(filepath.Join(h.Workspace, "tidy.skill"), filepath.Join(h.Workspace, "dl", "tidy"))
	must(t, err)
	if got := acts[installed](t, h, "skill.install", `{"path":"tidy.skill","force":true}`); got.Name != "tidy" {
		t.Errorf("of an archive: %+v", got)
	}
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "SKILL.md"), []byte(skillText("out", "x")), 0o600))
	h.refuses(t, "skill.install", `{"path":`+quote(outside)+`}`, 403, "outside")
	h.refuses(t, "skill.install", `{"path":"../x"}`, 403, "outside")
	h.refuses(t, "skill.install", `{"path":"none"}`, 404, "none")
	h.write(t, "secret.txt", "x")
	h.refuses(t, "skill.install", `{"path":"secret.txt"}`, 403, "protected")
	if err := os.Symlink(outside, filepath.Join(h.Workspace, "link")); err == nil {
		h.refuses(t, "skill.install", `{"path":"link"}`, 403, "outside")
		must(t, os.Symlink(filepath.Join(outside, "SKILL.md"), filepath.Join(h.Workspace, "dl", "tidy", "more.md")))
		h.refuses(t, "skill.install", `{"path":"dl/tidy","force":true}`, 422, "link")
	}
}

func TestUpdateAndDeleteSkill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, "skills/own/SKILL.md", skillText("own", "Mine."))
	one := zipped(t, map[string]string{"notes/SKILL.md": skillText("notes", "One.")})
	two := zipped(t, map[string]string{"notes/SKILL.md": skillText("notes", "Two.")})
	acts[installed](t, h, "skill.install", `{"data_url":"`+one+`"}`)
	acts[installed](t, h, "skill.update", `{"name":"notes","data_url":"`+two+`"}`)
	if s := read[taught](t, h, "webui/skills/notes"); !strings.Contains(s.Text, "Two.") || s.Changed {
		t.Errorf("updated: %+v", s)
	}
	h.refuses(t, "skill.update", `{"name":"none","data_url":"`+two+`"}`, 404, "none")
	h.refuses(t, "skill.update", `{"name":"own","data_url":"`+two+`"}`, 409, "force")
	h.refuses(t, "skill.update", `{"name":"own","data_url":"`+two+`","force":true}`, 422, "not own")
	h.write(t, "skills/notes/SKILL.md", skillText("notes", "Changed."))
	h.refuses(t, "skill.update", `{"name":"notes","data_url":"`+one+`"}`, 409, "changed")
	acts[installed](t, h, "skill.update", `{"name":"notes","data_url":"`+one+`","force":true}`)

	h.refuses(t, "skill.delete", `{"name":"none"}`, 404, "no such skill")
	h.refuses(t, "skill.delete", `{"name":"../notes"}`, 404, "no such skill")
	h.refuses(t, "skill.delete", `{"name":"weather"}`, 409, "disabledSkills")
	h.refuses(t, "skill.delete", `{"name":"own"}`, 409, "force")
	acts[any](t, h, "skill.delete", `{"name":"notes"}`)
	acts[any](t, h, "skill.delete", `{"name":"own","force":true}`)
	for _, name := range []string{"notes", "own"} {
		if s, ok := find(t, h, name); ok {
			t.Errorf("%s is still there: %+v", name, s)
		}
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"` }
