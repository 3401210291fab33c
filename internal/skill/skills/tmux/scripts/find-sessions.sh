#!/bin/sh
# Lists tmux sessions on one socket, or on all sockets of our directory.
usage() {
	cat >&2 <<'END'
usage: find-sessions.sh [-A | -S socket] [-q text]
  -A          every socket in $NANOBOT_TMUX_SOCKET_DIR (default ${TMPDIR:-/tmp}/nanobot-tmux)
  -S socket   this tmux socket
  -q text     only sessions whose name contains the text
without -A and -S: the user's own tmux server
status: 0 sessions were listed, 1 there are none, 2 wrong use
END
	exit 2
}

dir=${NANOBOT_TMUX_SOCKET_DIR:-${TMPDIR:-/tmp}/nanobot-tmux}
all='' socket='' query=''
while getopts 'AS:q:' option; do
	case $option in
	A) all=1 ;;
	S) socket=$OPTARG ;;
	q) query=$OPTARG ;;
	*) usage ;;
	esac
done
[ -z "$all" ] || [ -z "$socket" ] || usage
command -v tmux >/dev/null 2>&1 || { echo "tmux is not installed" >&2; exit 2; }

format='#{session_name}|#{?session_attached,attached,detached}|#{session_windows} window(s)|since #{t:session_created}'
list() { # $1: socket, or empty for the user's own server
	if [ -n "$1" ]; then
		tmux -S "$1" list-sessions -F "$format" 2>/dev/null
	else
		tmux list-sessions -F "$format" 2>/dev/null
	fi | while IFS='|' read -r name state windows since; do
		case $name in *"$query"*) printf '%s  %s, %s, %s  %s\n' "$name" "$state" "$windows" "$since" "$1" ;; esac
	done
}

found=$(
	if [ -n "$all" ]; then
		for file in "$dir"/*; do
			[ -S "$file" ] && list "$file"
		done
	else
		list "$socket"
	fi
)
[ -n "$found" ] || { echo "no sessions" >&2; exit 1; }
printf '%s\n' "$found"
