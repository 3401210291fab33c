#!/bin/sh
# Waits until a tmux pane shows a text.
usage() {
	cat >&2 <<'END'
usage: wait-for-text.sh -t pane -p pattern [-S socket] [-F] [-T seconds] [-l lines]
  -t pane      session, session:window.pane or pane id
  -p pattern   extended regular expression to wait for
  -S socket    tmux socket path (default: the user's own server)
  -F           take the pattern literally
  -T seconds   give up after this time (default 15)
  -l lines     lines of scrollback to look at (default 1000)
status: 0 found, 1 timed out or the pane is gone, 2 wrong use
END
	exit 2
}

socket='' pane='' pattern='' mode=-E timeout=15 lines=1000
while getopts 'S:t:p:FT:l:' option; do
	case $option in
	S) socket=$OPTARG ;;
	t) pane=$OPTARG ;;
	p) pattern=$OPTARG ;;
	F) mode=-F ;;
	T) timeout=$OPTARG ;;
	l) lines=$OPTARG ;;
	*) usage ;;
	esac
done
[ -n "$pane" ] && [ -n "$pattern" ] || usage
for number in "$timeout" "$lines"; do
	case $number in '' | *[!0-9]*) usage ;; esac
done
command -v tmux >/dev/null 2>&1 || { echo "tmux is not installed" >&2; exit 2; }

capture() {
	if [ -n "$socket" ]; then
		tmux -S "$socket" capture-pane -p -J -t "$pane" -S "-$lines"
	else
		tmux capture-pane -p -J -t "$pane" -S "-$lines"
	fi
}

end=$(($(date +%s) + timeout))
while :; do
	shown=$(capture) || exit 1
	if printf '%s\n' "$shown" | grep -q "$mode" -e "$pattern"; then
		exit 0
	fi
	[ "$(date +%s)" -lt "$end" ] || break
	sleep 0.5
done
{
	echo "no match for '$pattern' within $timeout seconds; the pane shows:"
	printf '%s\n' "$shown" | tail -n 40
} >&2
exit 1
