package skill_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/skill"
)

// item is an entry of an archive made for a test.
type item struct {
	name, data string
	mode       fs.FileMode // with type bits; 0 = a regular file
	link       string
}

func front(name string) string {
	return "---\nname: " + name + "\ndescription: Says hello\n---\nHello.\n"
}

func zipOf(t *testing.T, items ...item) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, it := range items {
		h := &zip.FileHeader{Name: it.name, Method: zip.Deflate}
		h.SetMode(it.mode | 0o644)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(it.name, "/") {
			continue
		}
		if _, err := w.Write([]byte(it.data + it.link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return save(t, "a.zip", b.Bytes())
}

func tarOf(t *testing.T, level int, items ...item) string {
	t.Helper()
	var b bytes.Buffer
	g, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(g)
	for _, it := range items {
		h := &tar.Header{Name: it.name, Mode: 0o644 | int64(it.mode.Perm()), Size: int64(len(it.data)), Typeflag: tar.TypeReg, Linkname: it.link}
		switch {
		case it.mode&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
		case it.mode&fs.ModeDevice != 0:
			h.Typeflag = tar.TypeChar
		case it.mode&fs.ModeNamedPipe != 0:
			h.Typeflag = tar.TypeFifo
		case it.mode.IsDir():
			h.Typeflag = tar.TypeDir
		case it.link != "":
			h.Typeflag = tar.TypeLink
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(it.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	return save(t, "a.tar.gz", b.Bytes())
}

func save(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func place(t *testing.T) skill.Place {
	t.Helper()
	return skill.Place{Workspace: filepath.Join(t.TempDir(), "ws"), Ledger: disk.Open(filepath.Join(t.TempDir(), "data"), nil)}
}

// tree lists what lies below dir, directories with a slash.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	list := []string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if d.IsDir() {
			rel += "/"
		}
		list = append(list, filepath.ToSlash(rel))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return list
}

var day = time.Date(2026, 3, 1, 9, 30, 0, 5, time.UTC)

func TestHostileArchivesInstallNothing(t *testing.T) {
	t.Parallel()
	ok := item{name: "hello/SKILL.md", data: front("hello")}
	many := []item{ok}
	for i := range skill.MaxFiles {
		many = append(many, item{name: fmt.Sprintf("hello/%d", i)})
	}
	both := []struct {
		name  string
		items []item
		want  string
	}{
		{"parent", []item{ok, {name: "hello/../../x", data: "x"}}, "leads out"},
		{"parent first", []item{ok, {name: "../x", data: "x"}}, "leads out"},
		{"absolute", []item{ok, {name: "/etc/x", data: "x"}}, "leads out"},
		{"double slash", []item{ok, {name: "hello//x", data: "x"}}, "leads out"},
		{"backslash", []item{ok, {name: `hello\..\x`, data: "x"}}, `\`},
		{"drive", []item{ok, {name: `C:/x`, data: "x"}}, ":"},
		{"stream", []item{ok, {name: `hello/SKILL.md:x`, data: "x"}}, ":"},
		{"symbolic link", []item{ok, {name: "hello/x", link: "/etc/passwd", mode: fs.ModeSymlink}}, "link"},
		{"link as directory", []item{ok, {name: "hello/d", link: "/tmp", mode: fs.ModeSymlink}, {name: "hello/d/x", data: "x"}}, "link"},
		{"device", []item{ok, {name: "hello/x", mode: fs.ModeDevice | fs.ModeCharDevice}}, "regular"},
		{"pipe", []item{ok, {name: "hello/x", mode: fs.ModeNamedPipe}}, "regular"},
		{"case", []item{ok, {name: "hello/a", data: "1"}, {name: "hello/A", data: "2"}}, "lower case"},
		{"case of directories", []item{ok, {name: "hello/a/x", data: "1"}, {name: "hello/A/y", data: "2"}}, "lower case"},
		{"case beyond ASCII", []item{ok, {name: "hello/é", data: "1"}, {name: "hello/É", data: "2"}}, "lower case"},
		{"two spellings", []item{ok, {name: "hello/e\u0301", data: "1"}}, "two spellings"},
		{"twice", []item{ok, ok}, "twice"},
		{"file and directory", []item{ok, {name: "hello/a", data: "1"}, {name: "hello/a/b", data: "2"}}, "twice"},
		{"device name", []item{ok, {name: "hello/Aux.txt", data: "1"}}, "device"},
		{"ends with a dot", []item{ok, {name: "hello/a.", data: "1"}}, "dot"},
		{"control character", []item{ok, {name: "hello/a\nb", data: "1"}}, "shown"},
		{"right to left", []item{ok, {name: "hello/a\u202Eb", data: "1"}}, "shown"},
		{"too many files", many, "more than 5000 files"},
		{"bomb", []item{ok, {name: "hello/a", data: strings.Repeat("\x00", 2<<20)}}, "100 times"},
		{"deep", []item{ok, {name: "hello/" + strings.Repeat("a/", 20) + "x", data: "1"}}, "deep"},
		{"empty", nil, "no files"},
		{"no SKILL.md", []item{{name: "hello/README.md", data: "x"}}, "missing"},
		{"two skills", []item{ok, {name: "other/SKILL.md", data: front("other")}}, "missing"},
		{"bad name", []item{{name: "x/SKILL.md", data: front("../x")}}, "not a name"},
		{"upper-case name", []item{{name: "x/SKILL.md", data: front("Hello")}}, "not a name"},
	}
	type variant struct{ name, file, want string }
	var all []variant
	for _, c := range both {
		all = append(all, variant{"zip " + c.name, zipOf(t, c.items...), c.want}, variant{"tar " + c.name, tarOf(t, gzip.BestSpeed, c.items...), c.want})
	}
	good, err := os.ReadFile(zipOf(t, ok))
	if err != nil {
		t.Fatal(err)
	}
	all = append(
		all,
		variant{"tar hard link", tarOf(t, gzip.BestSpeed, ok, item{name: "hello/x", link: "hello/SKILL.md"}), "link"},
		// An eighth of the size: neither a large file nor a bomb.
		variant{"too much", tarOf(t, gzip.HuffmanOnly, ok, item{name: "hello/a", data: strings.Repeat("a", 6<<20)}, item{name: "hello/b", data: strings.Repeat("b", 5<<20)}), "10 MiB of files"},
		variant{"cut zip", save(t, "a.zip", good[:len(good)-30]), "archive"},
		variant{"cut tar", save(t, "a.tgz", []byte{0x1f, 0x8b, 8, 0, 0}), "archive"},
		variant{"no archive", save(t, "a.zip", []byte("hello")), "not a .zip"},
		variant{"large file", save(t, "a.zip", make([]byte, skill.MaxTotal+1)), "archive has more than 10 MiB"},
	)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := place(t)
			_, _, err := skill.Install(p, c.file, true, day)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Install = %v, want an error with %q", err, c.want)
			}
			for _, dir := range []string{p.Workspace, p.Ledger.Where("")} {
				if got := tree(t, dir); len(got) > 0 {
					t.Errorf("%s holds %q", dir, got)
				}
			}
		})
	}
}

// Skills are installed as they are published: large ones get warnings, not refusals.
func TestLargeSkillsInstallWithWarnings(t *testing.T) {
	t.Parallel()
	items := []item{{name: "hello/SKILL.md", data: front("hello") + strings.Repeat("Say more.\n", 6000)}}
	for i := range 600 {
		items = append(items, item{name: fmt.Sprintf("hello/references/%d.md", i), data: "x"})
	}
	p := place(t)
	rec, problems, err := skill.Install(p, zipOf(t, items...), false, day)
	if err != nil || rec.Files != len(items) {
		t.Fatalf("Install = %+v, %v", rec, err)
	}
	var codes []string
	for _, problem := range problems {
		codes = append(codes, problem.Code)
		if problem.Error {
			t.Errorf("an error: %v", problem)
		}
	}
	if diff := cmp.Diff([]string{"file", "body"}, codes); diff != "" {
		t.Errorf("warnings (-want +got):\n%s\n%v", diff, problems)
	}
	s, ok := skill.Open(options(p.Workspace)).Load("hello")
	if !ok || !strings.HasSuffix(s.Body, "Say more.") {
		t.Errorf("the text is cut: %d bytes", len(s.Body))
	}
}

func TestPackAndInstall(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "hello")
	files := map[string]string{
		"SKILL.md": front("hello") + "Run `scripts/run.sh`.\n", "scripts/run.sh": "#!/bin/sh\necho hi\n", "references/长.md": "long", "assets/a/b.bin": "\x00\x01",
	}
	for name, data := range files {
		at := filepath.Join(src, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".git/config", "scripts/__pycache__/x.pyc", ".DS_Store"} {
		at := filepath.Join(src, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var first, second bytes.Buffer
	packed, err := skill.Pack(&first, src)
	if err != nil || packed.Files != len(files) || packed.Name != "hello" {
		t.Fatalf("Pack = %+v, %v", packed, err)
	}
	if err := os.Chtimes(filepath.Join(src, "SKILL.md"), day, day); err != nil {
		t.Fatal(err)
	}
	if _, err := skill.Pack(&second, src); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("packing again gives other bytes (%v)", err)
	}
	p := place(t)
	rec, problems, err := skill.Install(p, save(t, "whatever.skill", first.Bytes()), false, day)
	if err != nil || len(problems) > 0 {
		t.Fatalf("Install: %v, %v", err, problems)
	}
	if rec.SHA256 != packed.SHA256 || rec.Changed() || rec.At.Nanosecond() != 0 {
		t.Errorf("record %+v, packed %+v", rec, packed)
	}
	want := []string{".nanobot/", "skills/", "skills/hello/", "skills/hello/SKILL.md", "skills/hello/assets/", "skills/hello/assets/a/", "skills/hello/assets/a/b.bin", "skills/hello/references/", "skills/hello/references/长.md", "skills/hello/scripts/", "skills/hello/scripts/run.sh"}
	if diff := cmp.Diff(want, tree(t, p.Workspace)); diff != "" {
		t.Errorf("workspace (-want +got):\n%s", diff)
	}
	for name, data := range files {
		at := filepath.Join(p.Workspace, "skills", "hello", filepath.FromSlash(name))
		got, err := os.ReadFile(at)
		info, _ := os.Stat(at)
		if err != nil || string(got) != data {
			t.Errorf("%s = %q, %v", name, got, err)
		} else if exec := info.Mode()&0o100 != 0; runtime.GOOS != "windows" && exec != strings.HasPrefix(data, "#!") {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	// From a directory it is the same skill.
	p2 := place(t)
	if rec2, _, err := skill.Install(p2, src, false, day); err != nil || rec2.SHA256 != rec.SHA256 {
		t.Errorf("from the directory: %+v, %v", rec2, err)
	}
	if err := os.WriteFile(filepath.Join(rec.Dir, "SKILL.md"), []byte(front("hello")), 0o600); err != nil {
		t.Fatal(err)
	}
	if !rec.Changed() {
		t.Error("a change was not noticed")
	}
}

func TestInstalledSkillsAreLabelled(t *testing.T) {
	t.Parallel()
	p := place(t)
	always := strings.Replace(front("pushy"), "---\n", "---\nalways: true\n", 1)
	o := options(p.Workspace)
	o.Ledger = p.Ledger
	lib := skill.Open(o)
	if got := lib.Summary(); got != "" {
		t.Fatalf("Summary before = %q", got)
	}
	if _, _, err := skill.Install(p, zipOf(t, item{name: "SKILL.md", data: always}), false, day); err != nil {
		t.Fatal(err)
	}
	write(t, p.Workspace, "mine", front("mine"))
	dir := filepath.Join(p.Workspace, "skills")
	want := "### Workspace `" + dir + "`\n- **mine** — Says hello `mine/SKILL.md`\n\n" +
		"### source: installed (third-party) `" + dir + "`\n- **pushy** — Says hello `pushy/SKILL.md`"
	if diff := cmp.Diff(want, lib.Summary()); diff != "" {
		t.Errorf("Summary (-want +got):\n%s", diff)
	}
	if got := lib.Active(); got != "" {
		t.Errorf("Active = %q although the user did not allow that", got)
	}
	s := lib.Mentioned("use $pushy")
	if len(s) != 1 || s[0].Source != skill.FromInstalled || !strings.HasPrefix(s[0].Text(), "### Skill: pushy (source: installed, third-party)\n\nHello.") {
		t.Errorf("Mentioned = %+v", s)
	}
	p.Force = true
	if _, _, err := skill.Install(p, zipOf(t, item{name: "SKILL.md", data: always}), true, day); err != nil {
		t.Fatal(err)
	}
	if got := lib.Active(); !strings.Contains(got, "third-party") {
		t.Errorf("Active = %q although the user allowed it", got)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if dirs, err := skill.InstalledDirs(p.Ledger); err != nil || !slices.Equal(dirs, []string{filepath.Join(resolved, "pushy")}) {
		t.Errorf("InstalledDirs = %q, %v", dirs, err)
	}
	if err := os.WriteFile(p.Ledger.Where("skills.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := skill.InstalledDirs(p.Ledger); err == nil {
		t.Error("a broken ledger gives no error")
	}
	if _, _, err := skill.Install(p, zipOf(t, item{name: "SKILL.md", data: always}), true, day); err == nil {
		t.Error("a broken ledger was overwritten")
	}
	if got := names(lib.List()); !slices.Equal(got, []string{"mine", "pushy"}) {
		t.Errorf("List with a broken ledger = %q", got)
	}
}

func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	p := place(t)
	forced := p
	forced.Force = true
	hello := func(text string) string { return zipOf(t, item{name: "SKILL.md", data: front("hello") + text}) }
	write(t, p.Workspace, "hello", front("hello")+"mine")
	write(t, p.Workspace, "hello/extra", "x")
	if _, _, err := skill.Install(p, hello("theirs"), false, day); !errors.Is(err, skill.ErrExists) {
		t.Errorf("Install over an own skill = %v", err)
	}
	if _, _, err := skill.Install(p, zipOf(t, item{name: "SKILL.md", data: front("cron")}), false, day); !errors.Is(err, skill.ErrExists) {
		t.Errorf("Install over a built-in skill = %v", err)
	}
	if err := skill.Remove(p, "hello"); !errors.Is(err, skill.ErrOwn) {
		t.Errorf("Remove of an own skill = %v", err)
	}
	for _, name := range []string{"none", "..", "../ws", "a/b", ""} {
		if err := skill.Remove(forced, name); !errors.Is(err, skill.ErrNotFound) {
			t.Errorf("Remove(%q) = %v", name, err)
		}
	}
	if _, _, err := skill.Install(forced, hello("theirs"), false, day); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".nanobot/", "skills/", "skills/hello/", "skills/hello/SKILL.md"}, tree(t, p.Workspace)); diff != "" {
		t.Errorf("after a forced install (-want +got):\n%s", diff)
	}
	if err := skill.Remove(p, "hello"); err != nil {
		t.Error(err)
	}
	if dirs, err := skill.InstalledDirs(p.Ledger); err != nil || len(dirs) > 0 || len(tree(t, filepath.Join(p.Workspace, "skills"))) > 0 {
		t.Errorf("after Remove: %q, %v", dirs, err)
	}
}
