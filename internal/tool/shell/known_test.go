package shell

import (
	"slices"
	"strings"
	"testing"
)

// What each row of the table is for.
func TestKnownHarmless(t *testing.T) {
	t.Parallel()
	for row, commands := range map[string][]string{
		"ls":         {`ls`, `ls -la`, `ls --color=auto src`, `ls -w 80 .`, `ls src/*.go`, `ls -- -odd`},
		"cat":        {`cat x`, `cat -n a b`, `cat < x`, `cat -`, `cat s*`},
		"head":       {`head -20 x`, `head -n 5 x`, `head -n5 x`, `head --lines=5 x`, `head --lines 5 x`},
		"tail":       {`tail -5 x`, `tail -n 5 x`, `tail -f x`},
		"wc":         {`wc -l x`, `wc -lw x`},
		"stat":       {`stat x`, `stat -c %s x`, `stat --format=%s x`},
		"pwd":        {`pwd`, `pwd -P`},
		"echo":       {`echo hello world`, `echo -n x`},
		"date":       {`date`, `date -u`, `date +%F`, `date --iso-8601=seconds`},
		"basename":   {`basename a/b`, `basename -s .go a.go`},
		"dirname":    {`dirname a/b`},
		"realpath":   {`realpath x`},
		"readlink":   {`readlink -f x`},
		"whoami":     {`whoami`},
		"id":         {`id -u`},
		"uname":      {`uname -a`},
		"nproc":      {`nproc`},
		"cut":        {`cut -d: -f1 x`, `cut -d , -f 2 x`},
		"tr":         {`tr a-z A-Z`, `tr -d x`},
		"grep":       {`grep -rn x src`, `grep -e a -e b f`, `grep --include=*.go -r x .`, `grep -A3 x f`},
		"egrep":      {`egrep 'a|b' f`},
		"fgrep":      {`fgrep x f`},
		"sort":       {`sort x`, `sort -nru x`, `sort -k2 -t, x`, `sort --key=2 x`},
		"diff":       {`diff -u a b`, `diff -r a b`},
		"cmp":        {`cmp a b`},
		"du":         {`du -sh .`, `du -d 1 x`},
		"df":         {`df -h`},
		"md5sum":     {`md5sum x`},
		"sha1sum":    {`sha1sum x`},
		"sha256sum":  {`sha256sum x`, `sha256sum -c sums`},
		"sha512sum":  {`sha512sum x`},
		"git status": {`git status`, `git status -s`, `git status --porcelain=v2 --branch`, `git --no-pager status`},
		"git log":    {`git log`, `git log --oneline -5`, `git log -n 3 --format=%h`, `git -P log -p src`, `git log --since=yesterday main..dev`, `git log --max-count 3`},
		"git show":   {`git show HEAD`, `git show --stat HEAD~1`},
		"git diff":   {`git diff`, `git diff --cached`, `git diff HEAD~1 -- src`, `git diff --no-ext-diff -U5`},
		"git branch": {`git branch --list`, `git branch -la`, `git branch --list 'x*'`},
		"go vet":     {`go vet ./...`, `go vet -v ./x`, `go vet -tags a ./x`, `go vet -tags=a ./x`},
		"go version": {`go version`},
		"go doc":     {`go doc fmt.Println`, `go doc -all fmt`},
	} {
		for _, command := range commands {
			if got, ok := Prefix(command); !ok || !slices.Equal(got, []string{row}) {
				t.Errorf("%s: %q %v, want %q", command, got, ok, row)
			}
		}
	}
	for _, k := range table() {
		if _, ok := Prefix(k.name); k.must == "" && !ok {
			t.Errorf("%s alone does not fit its row", k.name)
		}
	}
}

// What the campaign and others tried against remembered commands.
func TestKnownHostile(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		`sort --compress-prog=./x y`, `sort --compress-program ./x y`, `sort --outp=AGENTS.md x`, `sort -oAGENTS.md x`, `sort -uo AGENTS.md x`, `sort x -o AGENTS.md`, `sort -k 1 -o y x`,
		`sort -T . x`, `sort -T. x`, `sort --files0-from=x`, `sort -t -o AGENTS.md x`, `sort -k --output=y x`, `sort -k=1o x --o y`, `sort -S 1 x`, `sort --random-source=/dev/x y`,
		`go vet --vettool=./x`, `go vet -vettool ./x ./...`, `go vet -vettool=./x`, `go vet -toolexec=./x`, `go vet -C .. ./...`, `go vet -modfile=x`, `go vet -overlay x`, `go test ./...`,
		`go build -o AGENTS.md .`, `go build ./...`, `go run .`, `go generate`, `go env -w X=y`, `go vet -fix ./...`, `go doc -http`,
		`git log --output=x`, `git log --outp=x`, `git log --output x`, `git log --ext-diff -p`, `git log --textconv`, `git log --ext-d -p`, `git diff --no-index a b`, `git diff --output=x`, `git diff --out x`,
		`git -c core.pager=x log`, `git -C x log`, `git --exec-path=. status`, `git --git-dir=x log`, `git --work-tree=/ status`, `git --paginate log`, `git -p log`, `git log -O x`, `git log -Ox`,
		`git log -n --output=x`, `git log -S --output=x`, `git log --grep --output=x`, `git log --format=%G?`, `git log --pretty=format:%GK`, `git show --show-signature`, `git log --show-sig`,
		`git branch x`, `git branch -D x --list`, `git branch --list -D x`, `git branch -d x`, `git branch --edit-desc --list`, `git branch -m a b`, `git branch --list -f x y`, `git branch`,
		`git diff --submodule=diff`, `git status -v`, `git status --pathspec-from-file=x`, `git stash`, `git add x`, `git blame x`, `git p`, `git grep -O x`, `git log --remerge-diff`,
		`date -s x`, `date --set=x`, `date --se x`, `date 01010000`, `date +%F 01010000`, `date -f x`, `date -u 0101`, `date --fil=x`,
		`printf -v 'a[$(id)]' x`, `test -v 'a[$(id)]'`, `[ -v 'a[$(id)]' ]`, `[[ -v 'a[$(id)]' ]]`, `printf x`, `uniq a b`, `rg --pre ./x y`, `find . -delete`, `find .`, `tee x`, `xargs ls`,
		`diff -l a b`, `diff --paginate a b`, `diff --ifdef=x a b`, `file -C -m x`, `tree -o x`, `jq -f x y`, `less x`, `man x`, `wc --files0-from=x`, `du --files0-from=x`, `df --output=x`,
		`ls $X`, `ls "$X"`, `ls *`, `sort *`, `sort ?o`, `sort [-]o x`, `sort {-o,x} y`, `cat $(id)`, "cat `id`", `cat <(id)`, `cat >x`, `cat >> x y`, `cat x | tee y`, `echo x > AGENTS.md`,
		`LC_ALL=x ls`, `PATH=. ls`, `./ls`, `/tmp/ls`, `~/ls`, `\ls; touch y`, `ls & id`, `ls() { id; }; ls`, `alias ls=id; ls`, `cd x && ls`, `eval ls`, `command ls`, `env ls`, `exec ls`, `builtin echo`,
		`echo $((a[$(id)]))`, `echo ${x:=$(id)}`, `pwd x`, `whoami x`, `grep --dec x`, `cat --help-me`, `ls --hyperlink=always --x`, "ls a\ntouch y", `ls;touch y`,
	} {
		if got, ok := Prefix(command); ok {
			t.Errorf("%s counts as %q", command, got)
		}
	}
}

// Every harmful option, in every spelling that a program could understand: the
// full name, all its abbreviations, with a value attached or behind it, in
// clusters, before and after operands, behind options that take values.
func TestKnownAbbreviations(t *testing.T) {
	t.Parallel()
	tried := 0
	refuse := func(k known, words ...string) {
		tried++
		if k.fits(words) {
			t.Errorf("%s %q fits the row", k.name, words)
		}
	}
	for _, k := range append(table(), movers()...) {
		must := []string{}
		if k.must != "" {
			must = append(must, "--"+k.must)
		}
		for name := range strings.FieldsSeq(k.harmful) {
			var spellings []string
			if len(name) == 1 && !k.oneDash {
				spellings = append(spellings, "-"+name, "-"+name+"x", "-"+name+"=x")
				for _, flag := range k.flags {
					spellings = append(spellings, "-"+string(flag)+name, "-"+string(flag)+name+"x")
				}
			}
			for n := 1; n <= len(name); n++ {
				if _, listed := k.option(name[:n]); listed {
					continue // a name of its own: an exact one always wins
				}
				spellings = append(spellings, "--"+name[:n])
				if k.oneDash {
					spellings = append(spellings, "-"+name[:n])
				}
			}
			for _, s := range spellings {
				refuse(k, append(must, s)...)
				refuse(k, append(must, s+"=x")...)
				refuse(k, append(must, s, "x")...)
				refuse(k, append(must, "x", s, "y")...)
				refuse(k, append(must, "x", s+"=y")...)
				for _, v := range k.values {
					refuse(k, append(must, "-"+string(v), s, "x")...)
				}
				for word := range strings.FieldsSeq(k.long) {
					if long, ok := strings.CutSuffix(word, "="); ok {
						refuse(k, append(must, "--"+long, s, "x")...)
					}
				}
			}
		}
		for word := range strings.FieldsSeq(k.long) { // abbreviations of harmless ones are not known either
			bare := strings.TrimRight(word, "=?")
			for n := 1; n < len(bare); n++ {
				if _, listed := k.option(bare[:n]); !listed {
					refuse(k, append(must, "--"+bare[:n])...)
				}
			}
		}
		refuse(k, append(must, "--no-such-option")...)
		refuse(k, append(must, unknownText)...)
	}
	if tried < 10_000 {
		t.Errorf("only %d spellings were tried", tried)
	}
}

// An option cannot be harmful and harmless.
func TestKnownIsConsistent(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range append(table(), movers()...) {
		if seen[k.name] {
			t.Errorf("%s has two rows", k.name)
		}
		seen[k.name] = true
		for name := range strings.FieldsSeq(k.harmful) {
			if _, listed := k.option(name); listed || len(name) == 1 && strings.Contains(k.flags+k.values, name) {
				t.Errorf("%s: %s is on both sides", k.name, name)
			}
		}
		for _, f := range k.flags {
			if strings.ContainsRune(k.values, f) {
				t.Errorf("%s: -%c has a value and has none", k.name, f)
			}
		}
	}
}
