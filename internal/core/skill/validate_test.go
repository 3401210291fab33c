package skill_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/core/skill"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1025)
	for _, c := range []struct {
		name, in string
		want     []string // line:code, "!" before errors
	}{
		{"good", "---\nname: x\ndescription: d\n---\nbody\n", nil},
		{"good with CRLF", "---\r\nname: x\r\ndescription: d\r\n---\r\nbody\r\n", nil},
		{"good with CR", "---\rname: x\rdescription: d\r---\rbody\r", nil},
		{"all fields", "---\nname: x\ndescription: >\n  folded\n  text\nlicense: MIT\nalways: false\nhomepage: https://h\nmetadata:\n  nanobot:\n    os: [macos]\n    requires: {bins: [gh], env: [A_B], tools: [exec]}\n---\nbody", nil},
		{"metadata of others", "---\nname: x\ndescription: d\nmetadata:\n  author: me\n---\nbody", nil},
		{"nothing", "", []string{"!1:front-matter", "1:name", "!1:description", "!1:body"}},
		{"no front matter", "# Hi\n", []string{"!1:front-matter", "1:name", "!1:description"}},
		{"not closed", "---\nname: x\ndescription: d\nbody", []string{"!1:front-matter", "1:name", "!1:description"}},
		{"no name", "---\ndescription: d\n---\nbody", []string{"1:name"}},
		{"other name", "---\ndescription: d\nname: y\n---\nbody", []string{"!3:name"}},
		{"bad name", "---\n\nname: X_y\ndescription: d\n---\nbody", []string{"!3:name"}},
		{"name of another kind", "---\nname: [x]\ndescription: d\n---\nbody", []string{"2:name"}},
		{"no description", "---\nname: x\ndescription:\n---\nbody", []string{"!3:description"}},
		{"long description", "---\nname: x\ndescription: " + long[:400] + "\n---\nbody", []string{"3:description"}},
		{"too long description", "---\nname: x\ndescription: " + long + "\n---\nbody", []string{"!3:description"}},
		{"unknown key", "---\nname: x\ndescription: d\ndescripton: e\n---\nbody", []string{"4:key"}}, //nolint:misspell // the mistake is what the case is about
		{"always", "---\nname: x\ndescription: d\nalways: sometimes\n---\nbody", []string{"4:key"}},
		{"junk line", "---\nname: x\nwhat is this\ndescription: d\n---\nbody", []string{"3:yaml"}},
		{"twice", "---\nname: x\ndescription: d\nname: x\n---\nbody", []string{"4:yaml"}},
		{"metadata is text", "---\nname: x\ndescription: d\nmetadata: yes please\n---\nbody", []string{"4:metadata"}},
		{"requires is a list", "---\nname: x\ndescription: d\nmetadata: {nanobot: {requires: [gh]}}\n---\nbody", []string{"4:metadata"}},
		{"odd needs", "---\nname: x\ndescription: d\nmetadata: {nanobot: {os: [beos], requires: {bins: [/bin/sh, 'a b']}}}\n---\nbody", []string{"4:metadata", "4:metadata", "4:metadata"}},
		{"no body", "---\nname: x\ndescription: d\n---\n \n", []string{"!5:body"}},
		{"long body", "---\nname: x\ndescription: d\n---\n" + strings.Repeat("a", skill.MaxBody), []string{"5:body"}},
		{"large body", "---\nname: x\ndescription: d\n---\n" + strings.Repeat("a", skill.MaxBody+1), []string{"!5:body"}},
		{"missing file", "---\nname: x\ndescription: d\n---\nRun `scripts/no.sh`, scripts/yes.sh, (references/gone.md).\nAgain scripts/no.sh. See scripts/ and https://h/scripts/a.", []string{"5:reference", "5:reference"}},
		{"anchors", "---\nname: x\ndescription: d\n---\nSee [it](scripts/yes.sh#part-two), scripts/yes.sh#L1 and [that](references/gone.md#a).", []string{"5:reference"}},
		{"not UTF-8", "---\nname: x\ndescription: d\n---\nbody\n\xff", []string{"!6:encoding"}},
		{"hidden text", "---\nname: x\ndescription: d\n---\nbody\na\u202Eb\U000E0041", []string{"6:invisible"}},
		{"emoji are fine", "---\nname: x\ndescription: 👩‍💻\n---\nbody 👩‍💻\n", nil},
	} {
		tree := fstest.MapFS{"skills/x/SKILL.md": {Data: []byte(c.in)}, "skills/x/scripts/yes.sh": {}}
		problems, err := skill.ValidateBuiltin(tree, "x")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, p := range problems {
			at := strings.TrimPrefix(strings.SplitN(p.String(), ": ", 2)[0], "SKILL.md:") + ":" + p.Code
			if p.Error {
				at = "!" + at
			}
			got = append(got, at)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", c.name, diff, problems)
		}
	}
}

func TestValidateFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "skill.md"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := skill.Validate(dir)
	if err != nil || len(got) != 1 || got[0].Code != "file" || !strings.Contains(got[0].Text, "upper case") {
		t.Errorf("Validate without SKILL.md = %v, %v", got, err)
	}
	if err := skill.Remove(place(t), "x"); !errors.Is(err, skill.ErrNotFound) {
		t.Error(err)
	}
	if _, err := skill.Pack(&bytes.Buffer{}, dir); err == nil || !strings.Contains(err.Error(), "SKILL.md: error: it is missing") {
		t.Errorf("Pack without SKILL.md = %v", err)
	}
	if _, err := skill.Validate(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Validate of nothing = %v", err)
	}
	if err := os.Symlink("skill.md", filepath.Join(dir, "link")); err == nil {
		if got, err := skill.Validate(dir); err != nil || len(got) != 1 || got[0].File != "link" || !got[0].Error {
			t.Errorf("Validate with a link = %v, %v", got, err)
		}
	}
}

func TestScaffold(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	for _, description := range []string{"", `Use when: "quoted", it's # fine`, "two\nlines", strings.Repeat("长", 2000)} {
		file, err := skill.Scaffold(skill.Place{Workspace: ws}, "new-skill", description)
		if err != nil {
			t.Fatal(err)
		}
		problems, err := skill.Validate(filepath.Dir(file))
		if err != nil || len(problems) > 0 && utf8.RuneCountInString(description) < 300 {
			t.Errorf("%q: %v, %v", description, problems, err)
		}
		s, _ := skill.Open(options(ws)).Load("new-skill")
		if want := strings.ReplaceAll(description, "\n", " "); description != "" && len(description) < 300 && s.Description != want {
			t.Errorf("description %q, want %q", s.Description, want)
		}
		if _, err := skill.Scaffold(skill.Place{Workspace: ws}, "new-skill", ""); !errors.Is(err, skill.ErrExists) {
			t.Errorf("again: %v", err)
		}
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "../x", "A", "a--b", "-a", "a/b", strings.Repeat("a", 65), "a b"} {
		if _, err := skill.Scaffold(skill.Place{Workspace: ws}, name, ""); err == nil {
			t.Errorf("Scaffold(%q) worked", name)
		}
	}
}
