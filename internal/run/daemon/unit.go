package daemon

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Service is a program that starts with the machine or the login.
type Service struct {
	Name    string // of the unit, without ending
	About   string
	Command []string // absolute path and arguments
	Env     []string // NAME=value
	Folder  string   // working folder
	Write   []string // folders it may write to, for the system service
	User    string   // for the system service
	System  bool     // for the machine instead of the user
	Log     string   // of launchd: file without ending
}

// Exit codes the service manager is told about.
const (
	exitRestart = 75 // start me again at once
	exitConfig  = 78 // starting me again is pointless
)

// delegated is the variable that says that the control group of the service is
// left to it. The sandbox looks for it.
const delegated = "NANOBOT_DELEGATED"

// systemd returns the unit file.
func (s Service) systemd() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=%s", unitText(s.About))
	line("Wants=network-online.target")
	line("After=network-online.target")
	line("StartLimitIntervalSec=300")
	line("StartLimitBurst=10")
	line("")
	line("[Service]")
	line("Type=notify")
	line("NotifyAccess=main")
	line("ExecStart=%s", unitWords(s.Command))
	line("ExecReload=/bin/kill -HUP $MAINPID")
	if s.Folder != "" {
		line("WorkingDirectory=%s", unitText(s.Folder))
	}

	for _, e := range s.Env {
		line("Environment=%s", unitList([]string{e}))
	}

	line("Restart=on-failure")
	line("RestartSec=5")
	line("RestartForceExitStatus=%d", exitRestart)
	line("RestartPreventExitStatus=%d", exitConfig)
	line("SuccessExitStatus=%d", exitRestart)
	line("WatchdogSec=120")
	line("TimeoutStopSec=45")
	line("KillMode=mixed")
	// Commands of the agent get groups of their own with limits. One that is
	// ended for its memory is not a reason to end the service.
	line("Delegate=memory pids")
	line("Environment=%s=1", delegated) // a user's manager does not mark the group
	line("OOMPolicy=continue")
	line("NoNewPrivileges=yes")

	if s.System {
		// Nothing that covers parts of /proc, hides control groups or filters
		// namespaces is here: the sandbox of commands needs them.
		line("User=%s", unitText(s.User))
		line("ProtectSystem=strict")
		line("ReadWritePaths=%s", unitList(s.Write))
		line("PrivateTmp=yes")
		line("CapabilityBoundingSet=")
		line("ProtectKernelModules=yes")
		line("LockPersonality=yes")
		line("RestrictRealtime=yes")
		line("UMask=0077")
	}

	line("")
	line("[Install]")
	if s.System {
		line("WantedBy=multi-user.target")
	} else {
		line("WantedBy=default.target")
	}
	return b.String()
}

// unitText keeps a value on its line and its percent signs its own.
func unitText(s string) string {
	return strings.ReplaceAll(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " "), "%", "%%")
}

// unitWords writes the words of a command, where dollar signs stand for
// variables.
func unitWords(words []string) string {
	return strings.ReplaceAll(unitList(words), "$", "$$")
}

// unitList writes words the way systemd splits them.
func unitList(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		w = unitText(w)
		if w == "" || strings.ContainsAny(w, " \t\"'\\;") {
			w = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
		}
		out[i] = w
	}
	return strings.Join(out, " ")
}

// launchd returns the property list.
func (s Service) launchd() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)

	text := func(s string) string {
		var t strings.Builder
		_ = xml.EscapeText(&t, []byte(s)) // a builder takes everything
		return "<string>" + t.String() + "</string>"
	}

	key := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	key("Label", text(s.Name))
	words := make([]string, len(s.Command))
	for i, w := range s.Command {
		words[i] = "\t\t" + text(w) + "\n"
	}

	key("ProgramArguments", "<array>\n"+strings.Join(words, "")+"\t</array>")
	if s.Folder != "" {
		key("WorkingDirectory", text(s.Folder))
	}

	if len(s.Env) > 0 {
		var env strings.Builder
		for _, e := range slices.Sorted(slices.Values(s.Env)) {
			name, value, _ := strings.Cut(e, "=")
			fmt.Fprintf(&env, "\t\t<key>%s</key>\n\t\t%s\n", strings.TrimSuffix(strings.TrimPrefix(text(name), "<string>"), "</string>"), text(value))
		}
		key("EnvironmentVariables", "<dict>\n"+env.String()+"\t</dict>")
	}

	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>")
	key("ThrottleInterval", "<integer>5</integer>")
	key("ExitTimeOut", "<integer>45</integer>")

	if s.Log != "" {
		key("StandardOutPath", text(s.Log+".log"))
		key("StandardErrorPath", text(s.Log+".err.log"))
	}

	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}
