package httpsafe

import (
	"os"
	"regexp"
	"testing"
)

// Every built-in host has a row in the table of docs/explanation/network.md, with its kind.
func TestPackageHostsAreDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/explanation/network.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[hostKind]string{
		kindFiles: "files", kindRegistry: "registry", kindMirror: "mirror", kindSums: "checksums", kindCode: "code", kindCounted: "counted",
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9.-]+)` \\| (\\w+) \\| .+ \\|$").FindAllStringSubmatch(string(data), -1) {
		rows[m[1]] = m[2]
	}
	for host, kind := range packageHosts() {
		if rows[host] != names[kind] {
			t.Errorf("docs/explanation/network.md says %q about %s, which is of the kind %q", rows[host], host, names[kind])
		}
		delete(rows, host)
	}
	for host := range rows {
		if _, err := ParseHostRule(host); err == nil && host != "proxy" && host != "host" && host != "none" {
			t.Errorf("docs/explanation/network.md has a row about %s, which is not a package host", host)
		}
	}
}
