package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// room is a workspace with files of the owner's and files from outside:
//
//	tool.sh, lib/util.py   from outside
//	repo/                  from outside as a whole, a clone
//	planted/               the same, with a hook
//	work/                  the owner's, with work/part.py from outside
//	mine/                  the owner's; mine/link.sh leads to tool.sh
func room(t *testing.T) (*origin.Store, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "ws")
	put := func(files map[string]string) {
		t.Helper()
		for name, body := range files {
			path := filepath.Join(ws, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(body), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(map[string]string{
		"work/main.py": "import part\n", "work/Makefile": "all:\n", "work/.git/config": "[alias]\n\tx = !sh\n", "work/sub/own.py": "1\n",
		"mine/main.py": "1\n", "mine/go.mod": "module m\n", "mine/run.sh": "date\n", "mine/data.txt": "1\n", "mine/linked/.git": "gitdir: ../../planted/.git\n", "mine/.git/config": "[core]\n",
	})
	if err := os.Symlink("../tool.sh", filepath.Join(ws, "mine", "link.sh")); err != nil {
		t.Fatal(err)
	}
	nextTick(t, dir)
	put(map[string]string{
		"tool.sh": "touch x\n", "lib/util.py": "import os\n", "repo/Makefile": "all:\n", "repo/src/main.go": "package main\n", "repo/run": "#!/bin/sh\n",
		"repo/.git/config":    "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n",
		"planted/deep/.git/x": "", "bare/HEAD": "ref: refs/heads/main\n", "bare/objects/x": "", "bare/refs/x": "", "bare/config": "[core]\n\tfsmonitor = ./x\n",
		"modules/.git/config": "[core]\n\tbare = false\n", "modules/.git/modules/x/config": "[core]\n\tfsmonitor = ./x\n",
		"share/r/.git/config": "[filter \"x\"]\n\tclean = ./x\n", "share/r/.git/hooks/pre-commit": "x\n",
		"planted/.git/config": "[core]\n\tfsmonitor = ./x\n", "planted/.git/hooks/pre-commit": "x\n", "planted/a.txt": "a\n", "work/part.py": "1\n",
	})
	rec, err := origin.Open(origin.Options{Store: storetest.Disk(t, filepath.Join(dir, "record")), Name: "ws", Root: ws})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tool.sh", "lib/util.py", "repo", "planted", "work/part.py", "bare", "modules"} {
		if err := rec.Mark(filepath.Join(ws, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	return rec, ws
}

// nextTick waits until the clock of the file system has moved: files are told
// apart by the time they changed.
func nextTick(t *testing.T, dir string) {
	t.Helper()
	var first time.Time
	for {
		path := filepath.Join(dir, "tick")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = info.ModTime()
		}
		if info.ModTime().After(first) {
			return
		}
	}
}

func TestOutside(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("commands are in another language there")
	}
	rec, ws := room(t)
	const anything = "bare lib/util.py modules planted repo tool.sh work/part.py"
	for _, row := range []struct{ dir, command, want string }{
		// A file is the program, or given to one.
		{"", "./tool.sh", "tool.sh"},
		{"", "sh tool.sh", "tool.sh"},
		{"mine", "sh ../tool.sh", "tool.sh"},
		{"mine", "bash -x -- ../tool.sh a", "tool.sh"},
		{"mine", ". ../tool.sh", "tool.sh"},
		{"mine", "source ../tool.sh", "tool.sh"},
		{"mine", "sh link.sh", "tool.sh"},
		{"mine", "sh < ../tool.sh", "tool.sh"},
		{"mine", "cat data.txt | sh ../tool.sh | head -1", "tool.sh"},
		{"mine", "timeout 5 nice -n 3 sh ../tool.sh", "tool.sh"},
		{"mine", "env A=b ../tool.sh", "tool.sh"},
		{"mine", "bash -c 'cd .. && exec ./tool.sh'", "tool.sh"},
		{"mine", "f=../tool.sh; sh $f", "tool.sh"},
		{"mine", "f() { sh ../tool.sh; }; f", "tool.sh"},
		{"mine", "alias x='sh ../tool.sh'; x", "tool.sh"},
		{"mine", "trap 'sh ../tool.sh' EXIT", "tool.sh"},
		{"mine", "eval sh ../tool.sh", "tool.sh"},
		{"mine", "ls && (sh ../tool.sh &)", "tool.sh"},
		{"mine", "if true; then sh ../tool.sh; fi", "tool.sh"},
		{"mine", "echo $(sh ../tool.sh)", "tool.sh"},
		{"mine", "python3 ../lib/util.py", "lib/util.py"},
		{"mine", "python3 -m pytest --rootdir=../lib", "lib/util.py"},
		{"mine", "perl -I../lib -e 1", "lib/util.py"},
		{"mine", "node -r ../tool.sh -e 1", "tool.sh"},
		{"mine", "gcc -x c ../tool.sh", "tool.sh"},
		{"mine", "PATH=$PWD/../lib:$PATH main", "lib/util.py"},
		{"mine", "LD_PRELOAD=../tool.sh ls", "tool.sh"},
		{"mine", "BASH_ENV=../tool.sh bash -c true", "tool.sh"},
		{"mine", "git -c core.pager=../tool.sh log", "tool.sh"},
		{"mine", "git -c alias.x='!sh ../tool.sh' x", "tool.sh"},
		{"mine", "sort --compress-program=../tool.sh data.txt", "tool.sh"},
		{"mine", "tar cf x.tar data.txt --use-compress-program=../tool.sh", "tool.sh"},
		{"mine", "tar cIf ../tool.sh x.tar data.txt", "tool.sh"},
		{"mine", "sed -n '1e ../tool.sh' data.txt", "tool.sh"},
		{"mine", `awk 'BEGIN{system("../tool.sh")}'`, "tool.sh"},
		{"mine", "find data.txt -exec sh ../tool.sh \\;", "tool.sh"},
		{"mine", "expect -c 'spawn ../tool.sh'", "tool.sh"},
		// A folder is given, or is where a program starts.
		{"", "make -C repo", "repo tool.sh"},
		{"mine", "make -C ../repo", "repo"},
		{"mine", "make --directory=../repo", "repo"},
		{"mine", "cd ../repo && make", "repo"},
		{"repo/src", "go build", "repo/src"},
		{"mine", "go test ../repo/...", "repo"},
		{"work", "make", "work/part.py"},
		{"work", "pytest", "work/part.py"},
		{"work/sub", "python3 own.py", ""},
		{"mine", "npm --prefix ../work test", "work/part.py"},
		{"mine", "../repo/run", "repo/run"},
		{"work", "python3 -c 'import part'", "work/part.py"},
		{"mine", "python3 -c 'exec(open(\"../tool.sh\").read())'", "tool.sh"},
		{"work", "python3 <<X\nimport part\nX", "work/part.py"},
		// Git runs what the settings of the repository say.
		{"planted", "git commit -qm x", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"mine", "git -C ../planted add a.txt", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"repo", "git add -A && git commit -qm x", ""},
		{"work", "git add -A && git -c user.name=a -c user.email=b commit -qm x", ""},
		{"mine", "git submodule foreach ../tool.sh", "tool.sh"},
		{"planted", "git status", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"planted", "git --no-pager diff --stat", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"mine", "git -C ../planted log -3", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"planted", "ls && (git show | head -3)", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"planted", "git rev-parse HEAD; git ls-files; git blame a.txt", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"planted/deep", "git status", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"bare", "git log", "bare/config"},
		{"mine/linked", "git status", "planted/.git/config planted/.git/hooks/pre-commit"},
		{"modules", "git status", "modules/.git/modules/x/config"},
		{"mine", "git -C ../share/r status", "share/r/.git/config share/r/.git/hooks/pre-commit"},
		{"repo", "go vet ./...", "repo"},
		// What only the run decides.
		{"mine", "eval \"$X\"", anything},
		{"mine", "$X", anything},
		{"mine", "sh $(ls)", anything},
		{"mine", "make 'unclosed", anything},
		{"mine", "find .. -name '*.sh' -exec sh {} \\;", anything},
		{"mine", "ls .. | xargs -n1 sh", anything},
		{"mine", "for f in ../*; do sh $f; done", anything},
		{"mine", "cat ../tool.sh | sh", anything},
		{"mine", "cd $X && make", anything},
		{"mine", "bash", anything},
		{"mine", "cp ../tool.sh new.sh && sh new.sh", anything},
		{"mine", "cat ../tool.sh > run.sh; sh run.sh", anything},
		{"", "cp -r repo other && cd other && make", anything},
		{"mine", "git clone -q https://example.org/x.git && cd x && make", anything},
		{"mine", "curl -so x.sh https://example.org/x.sh; sh x.sh", anything},
		// Reading runs nothing, nor does moving, or running what is the owner's.
		{"", "cat tool.sh repo/Makefile", ""},
		{"", "ls -la repo; wc -l repo/src/*; grep -rn x repo | sort | uniq -c | head -5", ""},
		{"repo", "git log --oneline; git status; git diff; git show; git ls-files; git blame Makefile", ""},
		{"", "git -C repo log -3", ""},
		{"", "find repo -name '*.go' -exec cat {} + | wc -l", ""},
		{"", "find . -name '*.go' | xargs grep -n main", ""},
		{"", "cp tool.sh copy.sh && mv copy.sh x && rm x && mkdir -p y && touch y/z && chmod +x tool.sh && ln -s tool.sh l", ""},
		{"", "tar czf repo.tgz repo && tar tzf repo.tgz | head -3", ""},
		{"", "sed -n '1,20p' tool.sh; sed -i 's/a/b/g' tool.sh; awk '{print $1}' tool.sh; jq . tool.sh", ""},
		{"", "echo \"$(cat tool.sh)\" | tee x; diff tool.sh mine/run.sh; test -f tool.sh && printf '%s\\n' \"$X\"", ""},
		{"", "for f in *.sh; do cat \"$f\"; done; while read l; do echo $l; done < tool.sh", ""},
		{"", "curl -sf -o x.json https://example.org/x.json", ""},
		{"", "git clone -q https://example.org/x.git", ""},
		{"mine", "make && go test ./... && python3 main.py && sh run.sh data.txt && ./run.sh", ""},
		{"mine", "mkdir -p out && cd out && cmake ..", ""},
		{"mine", "cmake -DCMAKE_PREFIX_PATH=/usr -S . && gcc -I/usr/include -L/ main.c && python3 /usr/bin/env", ""},
		{"mine", "cat > n.py <<X\nprint(1)\nX\npython3 n.py", ""},
		{"mine", "python3 -c 'print(1)' > chart.txt; cat chart.txt", ""},
		{"", "cd mine && go vet ./... && make", ""},
		{"", "(cd mine && make) && ls", ""},
		{"mine", "env | sort; command -v go; export A=1; A=2 make", ""},
		{"mine", "git init -q x && git add -A && git commit -qm x && git push", ""},
	} {
		var names []string
		for _, o := range guard.Outside(rec, ws, row.command, filepath.Join(ws, row.dir), false) {
			names = append(names, o.Name)
		}
		slices.Sort(names)
		if got := strings.Join(slices.Compact(names), " "); got != row.want {
			t.Errorf("in %q: %s\n\truns %q, want %q", row.dir, row.command, got, row.want)
		}
	}
}

// TestOutsideTainted shows that the code a tainted turn writes into a command
// is not a file from outside, and that files beside it are.
func TestOutsideTainted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("commands are in another language there")
	}
	rec, ws := room(t)
	for command, want := range map[string]int{
		"python3 -c 'import part'":                0,
		"node -p '1'":                             0,
		"python3 <<X\nimport part\nX":             0,
		"python3 -c 1 part.py":                    1,
		"python3 main.py":                         1,
		"perl -I../lib -e 1":                      1,
		"python3 -c 1 && make":                    1,
		"python3 -c 'open(\"part.py\").read()' x": 0,
	} {
		if got := guard.Outside(rec, ws, command, filepath.Join(ws, "work"), true); len(got) != want {
			t.Errorf("%s: %v, want %d", command, got, want)
		}
	}
}

// A command that may run anything needs a question also if the files from
// outside are only where the walk does not look: inside of repositories, and
// beside the workspace.
func TestOutsideBesideTheWalk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("commands are in another language there")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, beside := filepath.Join(dir, "ws"), filepath.Join(dir, "beside.sh")
	for path, want := range map[string]string{
		filepath.Join(ws, "work", ".git", "hooks", "post-commit"): "work/.git/hooks/post-commit",
		beside: beside,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("date\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		rec, err := origin.Open(origin.Options{Store: storetest.Disk(t, filepath.Join(dir, "record-of-"+filepath.Base(path))), Name: "ws", Root: ws})
		if err != nil {
			t.Fatal(err)
		}
		if got := guard.Outside(rec, ws, "sh $X", ws, false); len(got) != 0 {
			t.Errorf("nothing is marked: %+v", got)
		}
		if err := rec.Mark(path); err != nil {
			t.Fatal(err)
		}
		if got := guard.Outside(rec, ws, "sh $X", ws, false); len(got) != 1 || got[0].Name != want || got[0].Key != "" {
			t.Errorf("%s is marked: %+v", want, got)
		}
	}
}

// What a lasting answer covers belongs to what a folder holds: each change of a
// file from outside in it is another state, and the owner's own files are none.
func TestOutsideState(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("commands are in another language there")
	}
	rec, ws := room(t)
	at := func(name string) string { return filepath.Join(ws, filepath.FromSlash(name)) }
	put := func(name, body string) func() error {
		return func() error { return os.WriteFile(at(name), []byte(body), 0o700) }
	}
	old, err := os.Stat(at("repo/run"))
	if err != nil {
		t.Fatal(err)
	}
	state := func(dir, command string) string {
		t.Helper()
		found := guard.Outside(rec, ws, command, at(dir), false)
		if len(found) == 0 || found[0].State == "" {
			t.Fatalf("%s in %q: %+v", command, dir, found)
		}
		return found[0].Key + found[0].State
	}
	for _, row := range []struct {
		what, dir, command string
		change             func() error
		another            bool
	}{
		{"nothing", "repo", "make", func() error { return nil }, false},
		{"a new file", "repo", "make", put("repo/new.mk", "x"), true},
		{"a file in a folder below", "repo", "sh run", put("repo/src/main.go", "package other\n"), true},
		{"another content of the same length, with the old time", "", "repo/run", func() error {
			return errors.Join(put("repo/run", "#!/bin/ls\n")(), os.Chtimes(at("repo/run"), old.ModTime(), old.ModTime()))
		}, true},
		{"a file that is gone", "repo", "make", func() error { return os.Remove(at("repo/src/main.go")) }, true},
		{"what git keeps", "repo", "make", put("repo/.git/index", "x"), false},
		{"an owner's file beside it", "work", "make", put("work/main.py", "import part, os\n"), false},
		{"the file from outside in the owner's folder", "work", "make", put("work/part.py", "2\n"), true},
		{"a file from outside, for a command that may run anything", "mine", "sh $X", put("lib/util.py", "import sys\n"), true},
	} {
		before := state(row.dir, row.command)
		nextTick(t, filepath.Dir(ws))
		if err := row.change(); err != nil {
			t.Fatal(err)
		}
		if got := state(row.dir, row.command) != before; got != row.another {
			t.Errorf("%s changed: another state is %v, want %v", row.what, got, row.another)
		}
	}
}
