package email

import (
	"bytes"
	"context"
	"errors"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"golang.org/x/net/publicsuffix"
)

// Bounds of checking signatures.
const (
	maxSignatures = 5
	verifyTime    = 15 * time.Second
)

// verifier finds out whether mails are from the address that they name.
type verifier struct {
	o      *options
	lookup func(ctx context.Context, name string) ([]string, error) // of TXT records
}

// verified reports whether the sender of a mail is who From says. Either the
// server that received it for us says so, or a signature of the sender's own
// domain does, which we check ourselves.
func (v *verifier) verified(ctx context.Context, l letter, raw []byte) bool {
	if !v.o.VerifyDKIM && !v.o.VerifySPF {
		return true // the owner does not want to know
	}

	for _, value := range v.trustedResults(l) {
		_, results := parseResults(value)
		for _, r := range results {
			if v.vouches(r, domain(l.from.Address)) {
				return true
			}
		}
	}

	return v.o.VerifyDKIM && v.signed(ctx, l, raw)
}

// vouches reports whether one result proves the domain of a sender.
func (v *verifier) vouches(r result, from string) bool {
	if r.value != "pass" {
		return false
	}

	switch r.method {
	case "dmarc":
		return strings.EqualFold(r.props["header.from"], from)
	case "dkim":
		d := or(r.props["header.d"], domain(r.props["header.i"]))
		return v.o.VerifyDKIM && aligned(d, from)
	case "spf":
		return v.o.VerifySPF && aligned(or(domain(r.props["smtp.mailfrom"]), r.props["smtp.mailfrom"]), from)
	}

	return false
}

// trustedResults returns the values of Authentication-Results that our own server
// wrote. A sender can write such a line as well, but cannot put it above the
// line with which our server says from where it got the mail. Google and
// Microsoft write theirs below that line and always write one, so that there
// the topmost is theirs.
func (v *verifier) trustedResults(l letter) []string {
	google, microsoft := v.provider()
	var out []string
	for f := l.header.Fields(); f.Next(); {
		switch strings.ToLower(f.Key()) {
		case "authentication-results":
			id, results := parseResults(f.Value())
			switch {
			case google:
				if id == "mx.google.com" {
					return []string{f.Value()}
				}
				return nil

			case microsoft:
				if id == "" && len(results) > 0 || v.trusts(id) {
					return []string{f.Value()}
				}
				return nil

			case v.trusts(id):
				out = append(out, f.Value())
			}
		case "received":
			if !google && !microsoft && !insideHop(f.Value()) {
				return out
			}
		}
	}

	return out
}

// insideHop reports whether a Received line speaks of a step inside the server:
// handed over by LMTP, or not received from anywhere. The receiving side writes
// both, so a sender cannot make our server write such a line.
func insideHop(v string) bool {
	fields := strings.Fields(strings.ToLower(uncomment(v)))
	if len(fields) == 0 || fields[0] != "from" {
		return len(fields) > 0 && fields[0] == "by"
	}
	i := slices.Index(fields, "with")
	return i > 0 && i+1 < len(fields) && strings.HasPrefix(fields[i+1], "lmtp")
}

// provider reports whether the mailbox is at one of the two providers that
// order their headers in another way.
func (v *verifier) provider() (google, microsoft bool) {
	switch registrable(v.o.IMAPHost) {
	case "gmail.com", "googlemail.com", "google.com":
		return true, false
	case "office365.com", "outlook.com", "office.com":
		return false, true
	}
	return false, false
}

// trusts reports whether a name is that of a server that checks mail for us:
// one that the owner named, or else one that belongs to the domain of the
// mailbox or of its server.
func (v *verifier) trusts(id string) bool {
	id = strings.ToLower(strings.TrimSuffix(id, "."))
	if id == "" {
		return false
	}
	if len(v.o.TrustedAuthservIDs) > 0 {
		return slices.ContainsFunc(v.o.TrustedAuthservIDs, func(s string) bool { return strings.EqualFold(s, id) })
	}
	if id == strings.ToLower(v.o.IMAPHost) {
		return true
	}

	mine := []string{registrable(v.o.IMAPHost), registrable(domain(address(v.o.IMAPUsername)))}
	if slices.Contains(mine, "fastmail.com") {
		mine = append(mine, "messagingengine.com")
	}

	r := registrable(id)
	return r != "" && slices.Contains(mine, r)
}

// signed checks the signatures in a mail. One counts if it is of the sender's
// domain and covers what the mail is about.
func (v *verifier) signed(ctx context.Context, l letter, raw []byte) bool {
	if !l.header.Has("Dkim-Signature") || int64(len(raw)) > maxMail {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	list, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{
		MaxVerifications: maxSignatures,
		LookupTXT:        func(name string) ([]string, error) { return v.lookup(ctx, name) },
	})
	if err != nil && !errors.Is(err, dkim.ErrTooManySignatures) {
		return false
	}

	covers := func(keys []string, key string) bool {
		return !l.header.Has(key) || slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) })
	}
	return slices.ContainsFunc(list, func(s *dkim.Verification) bool {
		return s.Err == nil && aligned(s.Domain, domain(l.from.Address)) && covers(s.HeaderKeys, "Subject") && covers(s.HeaderKeys, "Reply-To") &&
			l.header.FieldsByKey("Subject").Len() <= 1
	})
}

// aligned reports whether two domains belong to the same owner.
func aligned(d, from string) bool {
	d, from = strings.ToLower(strings.TrimSuffix(d, ".")), strings.ToLower(from)
	if d == "" || from == "" {
		return false
	}
	return d == from || registrable(d) != "" && registrable(d) == registrable(from)
}

// registrable returns the part of a name that can be owned, "" if there is none.
func registrable(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	out, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		return ""
	}
	return out
}

// domain returns what stands behind the @.
func domain(a string) string {
	if parsed, err := mail.ParseAddress(a); err == nil {
		a = parsed.Address
	}
	i := strings.LastIndexByte(a, '@')
	if i < 0 {
		return ""
	}
	return strings.ToLower(strings.Trim(a[i+1:], "<> \""))
}

// result is one word of a server about a mail.
type result struct {
	method, value string
	props         map[string]string
}

// parseResults reads the value of Authentication-Results. Comments are taken
// away first, because a sender's words may be in them. Microsoft leaves the
// name of the server out.
func parseResults(v string) (id string, out []result) {
	for i, stmt := range split(uncomment(v), ';') {
		fields := split(stmt, ' ')
		if len(fields) == 0 {
			continue
		}

		method, value, ok := strings.Cut(fields[0], "=")
		if i == 0 && !ok {
			id = strings.ToLower(strings.Trim(fields[0], `"`))
			continue
		}
		if !ok {
			continue
		}

		method, _, _ = strings.Cut(method, "/")
		r := result{method: strings.ToLower(method), value: strings.ToLower(value), props: map[string]string{}}
		for _, f := range fields[1:] {
			if k, w, ok := strings.Cut(f, "="); ok {
				if k = strings.ToLower(k); r.props[k] == "" {
					r.props[k] = strings.Trim(w, `"`)
				}
			}
		}

		out = append(out, r)
	}
	return id, out
}

// uncomment takes comments in brackets away, which may nest, and makes every
// white space a blank. A quoted string stays as it is.
func uncomment(s string) string {
	var b strings.Builder
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && (depth > 0 || quoted) && i+1 < len(s):
			if i++; depth == 0 && s[i] != '"' {
				b.WriteByte(s[i])
			}
		case depth > 0:
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}

		case c == '"':
			quoted = !quoted
			b.WriteByte(c)
		case c == '(' && !quoted:
			depth++
			b.WriteByte(' ')
		case c == '\t' || c == '\r' || c == '\n':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}

	return b.String()
}

// split cuts at a character outside of quotes and leaves empty pieces out,
// except the first.
func split(s string, at byte) []string {
	var out []string
	quoted, from := false, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] == '"' {
			quoted = !quoted
		}

		if i < len(s) && (s[i] != at || quoted) {
			continue
		}

		if piece := strings.TrimSpace(s[from:i]); piece != "" || at == ';' && len(out) == 0 {
			out = append(out, piece)
		}
		from = i + 1
	}

	return out
}
