package shell

import "testing"

func TestMatches(t *testing.T) {
	t.Parallel()
	for rule, rows := range map[string]map[Match][]string{
		"git push": {
			Surely: {
				`git push`, `git push origin main`, `git -C . push`, `git --git-dir=x push`, `git --git-dir x push`, `git -c a=b -C .. --no-pager push -u o`, `command git push`, `env git push`,
				`env -i A=b git push`, `\git push`, `g''it push`, `"git" "push"`, `/usr/bin/git push`, `/usr/bin/../bin/git push`, `x=push; git $x`, `x=git; $x push`, `c="git push"; $c`,
				`(git push)`, `{ git push; }`, `ls && git push`, `git status; git push`, `true | git push`, `git push &`, `git -C "$D" push`, `! git push`, `time git push`, `bash -c 'git push'`,
				`sh -c "cd x && git -C . push"`, `eval git push`, `eval "git push"`, `f() { git push; }; f`, `alias g='git push'; g`, `alias g=git; g push`, `if true; then git push; fi`,
				`echo $(git push)`, "echo `git push`", `cat <(git push)`, `nice -n 5 git push`, `timeout 5 git push`, `sudo -u me git push`, `xargs git push`, `find . -exec git push \;`,
				`bash <<< 'git push'`, "bash <<X\ngit push\nX", `env -S 'git push'`, `trap 'git push' EXIT`, `$'git' push`, `$'\x67it' push`, `{git,push}`, `while :; do git push; done`,
				`exec git push`, `busybox sh -c 'git push'`, `export X=push; git $X`, `coproc git push`, `nohup git push`, `echo "git push"`, `setsid bash -c 'bash -c "git push"'`,
			},
			Perhaps: {
				`git $X`, `git "$X" origin`, `$X push`, `git $(echo push)`, "git `cat cmd`", `eval "$X"`, `bash script.sh`, `./script.sh`, `. ./env`, `source x`, `python3 x.py`, `python3 -c 'x'`,
				`make`, `npm test`, `bash`, `cat x | sh`, `git p`, `git -c alias.p=push p`, `git -c alias.x='!sh x' status`, `xargs git`, `echo push | xargs git`, `find . -exec git {} +`,
				`for x in push; do git $x; done`, `g() { git "$@"; }; g push`, `git pu*`, `git -C $D $X`, `awk 'BEGIN{system(x)}'`, `vim -c x`, `ssh host x`, `go generate ./...`, `go run x.go`,
				`GIT_SSH_COMMAND='x y' git fetch`, `BASH_ENV=x bash -c ls`, `env PAGER=./x git log`, `git --exec-path=. status`, `read x; git $x`, `a=(git push); "${a[@]}"`, `x=a; x=push; git $x`,
				`git submodule foreach x`, `git rebase -x ls`, `${X:-git} $Y`, `ls 'open`, `project/bin/tool`, `bash -c "$X"`, `printf x | bash`, `git ${X#a}`, `alias g=git; g $X`,
				`ffmpeg -i x y`, `newbuildtool all`, `entr x`, `go build ./...`, `tar xf x --to-command=x`, `sort --compress-prog=x y`, `sed 1e x`, `split --filter=x y`, `curl -K x`, `/opt/x/newtool y`,
				`git -$X`, `git -$X status`, `git -c $X status`, `git -C $X status`, `git -C $X`, `git -c a=b -C $(cat x) log`, `git --git-dir $X log`, `alias a=b; alias b=a; a`, `alias a='a x'; a`,
				`/usr/bin/$X push`, `/usr/bin/g?t push`,
			},
			Never: {
				`git status`, `git pull`, `git commit -m push`, `git -C . status`, `git log --grep push`, `ls push`, `cat x`, `touch a b`, `echo git`, `echo $X`, `cat "$F"`, `go vet ./...`,
				`git commit -m "$MSG"`, `grep -r push .`, `x=1; echo $x`, `git stash push`, `for f in a b; do cat $f; done`, `/usr/bin/ls`, `mkdir -p x && cp a b`, `A=1 ls`,
				`f() { ls; }; f`, `tar czf x.tgz y`, `sed -n 1,5p x`, `awk '{print $1}' x`, `curl -sf -o x https://example.org`, `find . -name x`, `env | sort`, `timeout 5 cat x`, `command -v go`,
			},
		},
		"rm -rf": {
			Surely:  {`rm -rf x`, `rm -r -f x`, `rm -fr x`, `rm -Rvfr x`, `r''m   -"rf" x`, `sudo rm -rf /`, `rm x -rf`},
			Perhaps: {`rm $X`, `rm -r $X`, `rm --recursive --force x`, `rm -r --force x`, `rm *`},
			Never:   {`rm x`, `rm -r x`, `rm -i x`, `ls -rf`, `rmdir x`},
		},
		"git push --force": {
			Surely:  {`git push --force`, `git push origin --force`, `git -C . push origin main --force`, `git push --forc`},
			Perhaps: {`git push -f`, `git push $X`, `git push origin $X`},
			Never:   {`git push`, `git push origin main`, `git fetch --force`},
		},
		"git push origin main": {
			Surely:  {`git push origin main`, `git push -u origin main`},
			Perhaps: {`git push a $X`, `git push -- a $X`, `git push -o x origin main`, `git push origin $X`},
			Never:   {`git push origin`, `git push a main`, `git push -- a b`},
		},
		"docker run": {
			Surely:  {`docker run x`, `docker --host=x run y`, `docker -H x run y`},
			Perhaps: {`docker ps`}, // what it starts is not shown
		},
		"secret.txt": {
			Surely:  {`cat secret.txt`, `cat ./a/secret.txt`, `cat s"ecret".txt`, `f=secret.txt; cat $f`},
			Perhaps: {`cat $X`, `cat "$(ls)"`},
			Never:   {`cat other.txt`, `ls`},
		},
		"push --force": {
			Surely:  {`git push --force`},
			Perhaps: {`git push $X`, `$X push --force`, `g?t push --force`},
			Never:   {`git status $X`},
		},
		"unknowncmd sub": {
			Surely:  {`unknowncmd sub`, `unknowncmd sub x`},
			Perhaps: {`unknowncmd --opt val sub`, `unknowncmd $X`, `unknowncmd other`}, // what it starts is not known
			Never:   {`ls unknowncmd`},
		},
	} {
		for want, commands := range rows {
			for _, command := range commands {
				if got := Matches(command, rule); got != want {
					t.Errorf("rule %q, command %s: %d, want %d", rule, command, got, want)
				}
			}
		}
	}
}
