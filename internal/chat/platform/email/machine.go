package email

import (
	"slices"
	"strings"
)

// machine says why a mail must not be answered: because no person waits for an
// answer, or a loop would come of it. "" means that a person wrote.
func machine(l letter, own []string) string {
	if slices.Contains(own, l.from.Address) {
		return "our own mail"
	}

	h := l.header
	if v := token(h.Get("Auto-Submitted")); v != "" && v != "no" {
		return "sent automatically"
	}

	switch token(h.Get("Precedence")) {
	case "bulk", "list", "junk", "auto_reply", "auto-reply":
		return "sent in bulk"
	}

	if slices.ContainsFunc([]string{"List-Id", "List-Unsubscribe", "List-Post", "Feedback-Id", "X-Autoreply", "X-Autorespond", "X-Loop"}, h.Has) {
		return "sent by a list or a machine"
	}
	if h.Has("Return-Path") && strings.Trim(h.Get("Return-Path"), " <>") == "" {
		return "a bounce"
	}
	if kind := strings.ToLower(h.Get("Content-Type")); strings.HasPrefix(kind, "multipart/report") {
		return "a report"
	}

	local, _, _ := strings.Cut(l.from.Address, "@")
	switch strings.NewReplacer("-", "", "_", "", ".", "").Replace(local) {
	case "mailerdaemon", "postmaster", "noreply", "donotreply", "bounce", "bounces":
		return "a machine's address"
	}
	return ""
}

// token returns the first word of a header value, without comments and parameters.
func token(s string) string {
	s = strings.TrimSpace(strings.ToLower(s))
	if i := strings.IndexAny(s, "; \t("); i >= 0 {
		s = s[:i]
	}
	return s
}
