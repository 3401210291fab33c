package email

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Only large and small letters of ASCII are the same in an address: some other
// letters would be taken for them, and the mailbox is another person's. Neither
// the name before an address nor a part of it counts.
func TestAddressesAreCompared(t *testing.T) {
	t.Parallel()
	const listed = "Mike@Bank.example"
	entries := readEntry(listed)
	for from, want := range map[string]bool{
		"mike@bank.example":                           true,
		"MIKE@BANK.EXAMPLE":                           true,
		`"mike@bank.example" <eve@evil.example>`:      false,
		"Mike <mike@bank.example>":                    true,
		"mi\u212Ae@bank.example":                      false, // the sign for kelvin
		"mike@ban\u212A.example":                      false,
		"m\u0130ke@bank.example":                      false, // a large i with a dot
		"mike@evil.example":                           false,
		"mike+x@bank.example":                         false,
		"mike@bank.example.evil.example":              false,
		`"mike@bank.example|"@evil.example`:           false,
		"mike@bank.example, eve@evil.example":         false,
		"=?utf-8?q?mike=40bank.example?= <e@evil.ex>": false,
	} {
		l := readHeader([]byte("From: " + from + "\r\nSubject: x\r\n\r\n"))
		got := l.from != nil && access.Matches(entries, access.Visitor{IDs: []string{l.from.Address}})
		if got != want {
			t.Errorf("%s: admitted as %s: %v", from, listed, got)
		}
	}
	if e := readEntry("mike"); e[0].Advice == "" || !strings.Contains(e[0].Advice, "address") {
		t.Errorf("a bare name: %+v, want advice", e)
	}
}
