package httpsafe

import (
	"regexp"
	"strings"
	"sync"
)

// TypedKey replaces a key that was typed into a text.
const TypedKey = "[redacted:key]"

// typedKeys are keys as vendors make them: a mark of the vendor and so many
// characters that no word, version or identifier looks like it. What only may
// be a key is left alone, because a person meant to say it.
var typedKeys = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)`,
		`\beyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
		`\bgithub_pat_[A-Za-z0-9_]{40,}`, `\bgh[pousr]_[A-Za-z0-9]{30,}`, `\bglpat-[A-Za-z0-9_-]{18,}`,
		`\bxox[abepsr]-[A-Za-z0-9-]{20,}`, `\bxapp-[A-Za-z0-9-]{20,}`, `\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,
		`\bAIza[A-Za-z0-9_-]{30,}`, `\b[0-9]{6,12}:[A-Za-z0-9_-]{34,36}\b`,
		`\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}`, `\bsk[-_][A-Za-z0-9_-]{20,}`,
		`\b(?:gsk|hf|csk|r8|pplx|tvly|fc|jina|lin_api|dop_v1|npm|pypi)[-_][A-Za-z0-9_-]{24,}`,
		`\b(?:xai|nvapi|tp)-[A-Za-z0-9_-]{24,}`, `\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, `\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`,
	}, "|"))
})

// namedKeys are random characters after a word that says what they are.
var namedKeys = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:api[-_ ]?key|access[-_ ]?token|auth[-_ ]?token|client[-_ ]?secret|secret[-_ ]?key|bearer)["']?(?:\s*(?:[:=]|is)\s*|\s+)["'` + "`" + `]?([A-Za-z0-9._~+/=-]{20,})`)
})

// TypedKeys finds keys in what a person typed and returns the text without
// them. The keys are in the order they stand in the text.
func TypedKeys(s string) (clean string, keys []string) {
	if !mayHoldKey(s) {
		return s, nil
	}

	take := func(key string) string {
		if !random(key) {
			return key
		}
		keys = append(keys, key)
		return TypedKey
	}

	s = typedKeys().ReplaceAllStringFunc(s, func(m string) string {
		key := strings.TrimRight(m, "-_.")
		return take(key) + m[len(key):]
	})
	if !mayNameSecret(s) {
		return s, keys
	}

	s = namedKeys().ReplaceAllStringFunc(s, func(m string) string {
		at := namedKeys().FindStringSubmatchIndex(m)
		key := strings.TrimRight(m[at[2]:at[3]], ".=")
		if strings.Contains(key, TypedKey) || strings.Contains(key, "/") || strings.Count(key, ".") > 2 {
			return m // an address or a name in a program
		}
		return m[:at[2]] + take(key) + m[at[2]+len(key):]
	})
	return s, keys
}

// mayHoldKey is a cheap look: without a long run of characters there is none.
func mayHoldKey(s string) bool {
	run := 0
	for i := range len(s) {
		if keyByte(s[i]) {
			if run++; run >= 16 {
				return true
			}
			continue
		}
		run = 0
	}

	return false
}

// random reports whether a text has digits and letters mixed as no word has: in
// one piece between hyphens, or over all of it.
func random(s string) bool {
	if strings.HasPrefix(s, "-----BEGIN") {
		return true
	}

	var changes, digits, last int
	for i := range len(s) {
		kind := 0
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			kind = 1
			digits++
		case c >= 'a' && c <= 'z':
			kind = 2
		case c >= 'A' && c <= 'Z':
			kind = 3
		}

		if kind != 0 && last != 0 && kind != last {
			changes++
		}
		last = kind
	}

	return digits >= 2 && changes >= 4
}
