//go:build unix

package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// verdict of the guard for one command, without and with the workspace restriction.
type verdict struct{ open, restricted string }

// The verdicts that occur.
const (
	passes  = "pass"
	refused = "refuse"
)

// adversarial are the rows of the threat table for exec and what the guard
// makes of them where there is no sandbox. What they cannot do where there is
// one is shown by TestAdversarial with the data in testdata.
func adversarial() []struct {
	row     int
	command string
	want    verdict
} {
	kernel := verdict{passes, passes}   // the guard cannot know
	fenced := verdict{passes, refused}  // the restriction sees the path
	always := verdict{refused, refused} // a deny rule
	fine := verdict{passes, passes}     // legitimate work
	return []struct {
		row     int
		command string
		want    verdict
	}{
		{1, `cd .. && cat config.json`, fenced},
		{2, `(cd ..; cat config.json)`, fenced},
		{2, `pushd .. ; cat config.json`, fenced},
		{3, `env -C .. cat config.json`, fenced},
		{4, `git -C .. status`, fenced},
		{4, `tar cf - .. | cat`, fenced},
		{5, `find .. -name config.json -exec cat {} +`, fenced},
		{6, `cat $HOME/.nanobot/config.json`, always}, // protected
		{6, `cat ${HOME}/other`, fenced},
		{7, `cat "$HOME"/.nanobot/config.json`, always},
		{7, `cat "$HOME"/other`, fenced},
		{8, `cat $'\x2fetc\x2fpasswd'`, fenced},
		{9, `cat $(printf '\057etc\057passwd')`, kernel},
		{9, "cat `printf '\\057etc\\057passwd'`", kernel},
		{10, `p=/; cat ${p}etc${p}passwd`, fenced},
		{11, `X=/etc/passwd; cat $X`, fenced},
		{12, `cat</etc/passwd`, fenced},
		{12, `cat </etc/passwd`, fenced},
		{13, `{cat,/etc/passwd}`, fenced},
		{14, `cat ~-/x`, fenced},
		{14, `cat ~+1/x`, fenced},
		{15, `cat ./link/etc/passwd`, fenced},
		{16, `python3 -c "print(open(chr(47)+'etc'+chr(47)+'passwd').read())"`, kernel},
		{17, `awk 'BEGIN{system("id")}'`, kernel},
		{17, `vim -c ':!sh'`, kernel},
		{18, `curl file:///etc/passwd`, fenced},
		{19, `cat /proc/$PPID/environ`, always},
		{19, `tr '\0' '\n' </proc/1/environ`, always},
		{19, `kill -9 $PPID`, always},
		{20, `make run`, kernel},
		{20, `npm run x`, kernel},
		{21, `rm -vrf .`, always},
		{21, `rm -rfv x`, always},
		{22, `rm --recursive --force .`, always},
		{23, `r''m -rf x`, always},
		{23, `r\m -rf x`, always},
		{24, `$(echo rm) -rf x`, always},
		{25, `echo cm0gLXJmIC4= | base64 -d | sh`, always},
		{26, `find . -delete`, always},
		{26, `python3 -c "import shutil; shutil.rmtree('.')"`, kernel},
		{27, `dd bs=1M if=/dev/zero of=x`, kernel},
		{27, `dd of=x if=/dev/zero`, kernel},
		{28, `bomb(){ bomb|bomb& };bomb`, always},
		{28, `: ( ) { : | : & } ; :`, always},
		{28, `:(){ :|:& };:`, always},
		{29, `halt`, always},
		{29, `init 0`, always},
		{29, `systemctl suspend`, always},
		{30, `echo x >| memory/history.jsonl`, always},
		{30, `truncate -s0 memory/history.jsonl`, always},
		{30, `ln -sf history.jsonl h; echo x > h`, always},
		{30, `python3 -c "open('memory/history.jsonl','w')"`, kernel},
		{31, `curl 169.254.169.254/latest/meta-data/`, kernel},
		{32, `u=169.254.169.254; curl $u`, kernel},
		{32, `curl "ht""tp://169.254.169.254/"`, kernel},
		{33, `curl gopher://127.0.0.1:6379/_INFO`, kernel},
		{33, `nc 10.0.0.5 22`, kernel},
		{34, `curl http://[::ffff:169.254.169.254]/`, kernel},
		{34, `curl http://[::]/`, kernel},
		{35, `curl http://[2002:a9fe:a9fe::]/`, kernel},
		{36, `bash ./script.sh`, kernel},
		{37, `nohup sleep 9999 &`, fine}, // the runner stops it, see TestNoSurvivors
		{37, `setsid sleep 9999 &`, fine},
		{38, `yes`, fine}, // the capture bounds it, see TestOutputIsBounded
		{38, `cat /dev/urandom | base64`, fine},
		{45, `grep -r shutdown .`, fine},
		{45, `echo please reboot later`, fine},
		{45, `git log --format=%h`, fine},
		{45, `curl "wttr.in/x?format=3&lang=zh"`, fine},
		{45, `cat notes/dd-if.md`, fine},
		{45, `rm a.txt 2>/dev/null`, fine},
	}
}

func testGuard(t *testing.T, o Options) (*guard, string) {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = filepath.Join(t.TempDir(), "ws")
		if err := os.Mkdir(o.Workspace, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"sub", "memory", "notes"} {
			if err := os.Mkdir(filepath.Join(o.Workspace, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/", filepath.Join(o.Workspace, "link")); err != nil {
			t.Fatal(err)
		}
	}
	if o.Protected == nil {
		o.Protected = []string{"~/.nanobot/config.json", "~/.ssh"}
	}
	g, err := newGuard(o, "/home/someone")
	if err != nil {
		t.Fatal(err)
	}
	g.powershell = false
	return g, o.Workspace
}

func judge(g *guard, command, dir string) string {
	if unreadable(command) != "" || g.check(command, dir) != nil {
		return refused
	}
	return passes
}

func TestAdversarialCommands(t *testing.T) {
	t.Parallel()
	open, dir := testGuard(t, Options{})
	fence, fenceDir := testGuard(t, Options{Restrict: true})
	for _, c := range adversarial() {
		t.Run(fmt.Sprintf("%d %s", c.row, c.command), func(t *testing.T) {
			t.Parallel()
			if got, want := judge(open, c.command, dir), c.want.open; got != want {
				t.Errorf("open: got %s, want %s (%v)", got, want, open.check(c.command, dir))
			}
			if got, want := judge(fence, c.command, fenceDir), c.want.restricted; got != want {
				t.Errorf("restricted: got %s, want %s (%v)", got, want, fence.check(c.command, fenceDir))
			}
		})
	}
}

func TestAllowList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, command string
		allow         []string
		want          string
	}{
		{"39 plain", `echo ok`, []string{`echo .*`}, passes},
		{"39 substitution", `echo $(touch pwn)`, []string{`echo .*`}, refused},
		{"39 quoted substitution", `echo "a $(touch pwn)"`, []string{`echo .*`}, refused},
		{"39 backquotes", "echo `touch pwn`", []string{`echo .*`}, refused},
		{"39 process substitution", `echo <(touch pwn)`, []string{`echo .*`}, refused},
		{"39 newline", "echo a\ntouch pwn", []string{`echo .*`}, refused},
		{"39 background", `echo a & touch pwn`, []string{`echo .*`}, refused},
		{"39 semicolon", `echo ok; touch pwn`, []string{`echo .*`}, refused},
		{"39 pipe", `echo ok | tee pwn`, []string{`echo .*`}, refused},
		{"39 subshell", `(echo ok; touch pwn)`, []string{`echo .*`}, refused},
		{"39 here-document", "echo <<E\n$(touch pwn)\nE", []string{`echo .*`}, refused},
		{"39 parameter default", `echo ${x:-$(touch pwn)}`, []string{`echo .*`}, refused},
		{"39 arithmetic", `echo $((a[$(touch pwn)]))`, []string{`echo .*`}, refused},
		{"redirection", `echo ok > pwn`, []string{`echo .*`}, refused},
		{"redirection to null", `echo ok > /dev/null 2>&1`, []string{`echo .*`}, passes},
		{"redirection in the pattern", `echo ok > log`, []string{`echo \w+ > log`}, passes},
		{"block redirection", `{ echo ok; } > pwn`, []string{`echo .*`}, refused},
		{"function", `echo() { echo b; }; echo a`, []string{`echo .*`}, refused},
		{"all parts listed", `echo $(date) | wc -l`, []string{`echo .*`, `date`, `wc .*`}, passes},
		{"loop of listed", `for i in 1 2; do echo $i; done`, []string{`echo .*`}, passes},
		{"not a search", `sudo echo x`, []string{`echo .*`}, refused},
		{"lower case", `ECHO ok`, []string{`echo .*`}, passes},
		{"lifts the deny rules", `rm -rf build`, []string{`rm -rf build`}, passes},
		{"lifts only what it names", `rm -rf build; rm -rf src`, []string{`rm -rf build`}, refused},
		{"empty", `# nothing`, []string{`echo .*`}, refused},
		{"40 config option", `git -c core.pager='sh -c id' log`, []string{`git status`}, refused},
		{"40 variable", `GIT_SSH_COMMAND=x git fetch`, []string{`git status`, `git fetch`}, refused},
		{"40 env", `env sh -c id`, []string{`git status`}, refused},
		{"40 xargs", `xargs sh -c`, []string{`git status`}, refused},
		{"40 sort", `sort --compress-program=./x`, []string{`git status`, `sort`}, refused},
		{"41 preload", `LD_PRELOAD=./x git status`, []string{`.*git status`}, refused},
		{"41 bash env", `BASH_ENV=x git status`, []string{`.*`}, refused},
		{"41 node", `NODE_OPTIONS=-r=./x node`, []string{`.*`}, refused},
		{"41 python", `PYTHONSTARTUP=x python3`, []string{`.*`}, refused},
		{"41 perl", `PERL5OPT=-Mx perl`, []string{`.*`}, refused},
		{"41 git diff", `GIT_EXTERNAL_DIFF=./x git diff`, []string{`.*`}, refused},
		{"41 glibc", `GLIBC_TUNABLES=x ls`, []string{`.*`}, refused},
		{"41 exported", `export LD_PRELOAD=./x; git status`, []string{`.*`}, refused},
		{"41 alone", `LD_PRELOAD=./x; git status`, []string{`.*`}, refused},
		{"41 by env", `env LD_PRELOAD=./x git status`, []string{`.*`}, refused},
		{"harmless variable", `CI=1 git status`, []string{`(CI=1 )?git status`}, passes},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, dir := testGuard(t, Options{Allow: c.allow})
			if got := judge(g, c.command, dir); got != c.want {
				t.Errorf("%q with %q: got %s, want %s", c.command, c.allow, got, c.want)
			}
		})
	}
	t.Run("does not lift protection", func(t *testing.T) {
		t.Parallel()
		g, dir := testGuard(t, Options{Allow: []string{`.*`}})
		if got := judge(g, `cat ~/.ssh/id_rsa`, dir); got != refused {
			t.Errorf("got %s, want %s", got, refused)
		}
	})
}

func TestDenyList(t *testing.T) {
	t.Parallel()
	g, dir := testGuard(t, Options{Deny: []string{`\bterraform\s+destroy\b`, `Secret`}})
	for command, want := range map[string]string{
		`terraform plan`:            passes,
		`terraform destroy`:         refused,
		`TERRAFORM Destroy`:         refused,
		`terra''form "destroy"`:     refused,
		`x=$(terraform    destroy)`: refused,
		`echo Secret`:               refused,
		`echo secret`:               passes,
	} {
		if got := judge(g, command, dir); got != want {
			t.Errorf("%q: got %s, want %s", command, got, want)
		}
	}
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"lookahead", Options{Workspace: ws, Deny: []string{`ok`, `rm(?! -i)`}}, "denyPatterns[1]"},
		{"backreference", Options{Workspace: ws, Allow: []string{`(a)\1`}}, "allowPatterns[0]"},
		{"unbalanced", Options{Workspace: ws, Allow: []string{`a)(b`}}, "allowPatterns[0]"},
		{"42 substitution as a name", Options{Workspace: ws, AllowedEnv: []string{"X$(id)"}}, "X$(id)"},
		{"42 assignment as a name", Options{Workspace: ws, AllowedEnv: []string{"A=B"}}, "A=B"},
		{"relative workspace", Options{Workspace: "ws"}, "absolute"},
		{"relative protected", Options{Workspace: ws, Protected: []string{"x"}}, "protected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestUnreadableCommands(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"43 NUL": "echo a\x00b", "43 carriage return": "echo a\rb", "43 long": "echo " + strings.Repeat("a", 2<<20),
		"43 surrogate": "echo \xed\xa0\x80", "43 bidi": "echo \u202egnp.exe", "isolate": "echo \u2066a", "blank": " \n",
	} {
		if unreadable(command) == "" {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, command := range []string{"echo 你好 مرحبا 👍", "printf 'a\\tb\\n'\n\techo b", strings.Repeat("a", maxCommandBytes)} {
		if why := unreadable(command); why != "" {
			t.Errorf("%.20q: %s", command, why)
		}
	}
}

func TestSyntaxErrorsNameThePlace(t *testing.T) {
	t.Parallel()
	g, dir := testGuard(t, Options{})
	r := g.check("echo a\necho 'b", dir)
	if r == nil || r.code != tool.InvalidArgs || !strings.Contains(r.text(), "line 2, column 6") {
		t.Errorf("got %v, want a refusal that names line 2, column 6", r)
	}
}
