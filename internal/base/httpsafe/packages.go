package httpsafe

import (
	"net/http"
	"strings"
	"sync"
)

// PackageHost reports whether a host serves packages or code of the common
// package managers. Programs read there without asking. A client that is
// contained (Access.Contained) is served only what such a host has stored, by
// the rules of its kind.
func PackageHost(host string, port uint16) bool {
	return webPort(port) && packageHosts()[host] != kindNone
}

// hostKind says what a request to a package host can tell others than the
// operator of the host, and so what a contained client may ask there.
type hostKind int

const (
	kindNone hostKind = iota // not a package host
	// kindFiles serves files that were put there before. Only the operator sees
	// which are read.
	kindFiles
	// kindRegistry serves packages by name, and publishes how often each was
	// fetched in a day or in all. It publishes nothing that a request says about
	// itself except parts of the User-Agent, which is ours for contained clients.
	kindRegistry
	// kindMirror fetches what it does not have from the host that the path names.
	// Disable-Module-Fetch makes it answer from its store alone.
	kindMirror
	// kindSums looks up checksums, and asks the mirror for a module that it does
	// not know. So it is asked only about versions that the mirror has stored.
	kindSums
	// kindCode holds repositories of strangers. Fetching with git, archives and
	// single files change nothing that a stranger sees but the number of clones in
	// a day. Everything else (pages, searches, downloads of releases with their
	// public counters, APIs) counts as a host of a stranger.
	kindCode
	// kindCounted shows the owner of a repository how much was read from it, to
	// the byte. All of it counts as a host of a stranger.
	kindCounted
)

// packageHosts are exact names. docs/explanation/network.md has a line about each, and
// decision 114 says why.
var packageHosts = sync.OnceValue(func() map[string]hostKind {
	out := map[string]hostKind{}
	add := func(kind hostKind, list string) {
		for name := range strings.FieldsSeq(list) {
			out[name] = kind
		}
	}

	add(kindMirror, `proxy.golang.org`)
	add(kindSums, `sum.golang.org`)
	add(kindFiles, `
		index.golang.org go.dev golang.org gopkg.in
		files.pythonhosted.org
		nodejs.org
		index.crates.io static.rust-lang.org
		services.gradle.org downloads.gradle.org
		deb.debian.org security.debian.org
		archive.ubuntu.com security.ubuntu.com ports.ubuntu.com
		dl-cdn.alpinelinux.org
		mirrors.fedoraproject.org dl.fedoraproject.org download.fedoraproject.org
		index.rubygems.org
		codeload.github.com raw.githubusercontent.com
		objects.githubusercontent.com release-assets.githubusercontent.com`)

	add(kindRegistry, `
		pypi.org
		registry.npmjs.org registry.yarnpkg.com
		crates.io static.crates.io
		repo.maven.apache.org repo1.maven.org plugins.gradle.org
		rubygems.org
		packagist.org repo.packagist.org`)

	add(kindCode, `github.com gitlab.com bitbucket.org codeberg.org`)
	add(kindCounted, `media.githubusercontent.com`)
	return out
})

// codeHost reports whether git fetches from a package host.
func codeHost(host string) bool { return packageHosts()[host] == kindCode }

// exposes says what a request to a package host shows to others than its
// operator; "" is nothing. What is named counts as sent to a stranger.
func exposes(r *http.Request, host string) string {
	switch packageHosts()[host] {
	case kindCode:
		if fetchesCode(r) {
			return ""
		}
		return "it asks for more than code: the owner of a repository there sees how often releases are downloaded and pages are read, and paths can carry data"

	case kindCounted:
		return "the owner of a repository there sees how much is read from it"
	default:
		return ""
	}
}

// fetchesCode reports whether a request is one of git that fetches, or reads an
// archive or a single file of a repository.
func fetchesCode(r *http.Request) bool {
	path := r.URL.EscapedPath()
	if r.Method == http.MethodPost {
		return r.URL.RawQuery == "" && strings.HasSuffix(path, "/git-upload-pack") // readOnly has looked at the rest
	}
	if strings.HasSuffix(path, "/info/refs") {
		return r.URL.RawQuery == "service=git-upload-pack"
	}
	if r.URL.RawQuery != "" {
		return false
	}

	// /OWNER/REPOSITORY/archive/..., or /GROUP/.../PROJECT/-/archive/...
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case last, i < 2:
		case part == "-":
			return parts[i+1] == "archive" || parts[i+1] == "raw"
		case i == 2 && (part == "archive" || part == "raw" || part == "get"):
			return true
		}
	}

	return false
}

// storedHeader makes a module mirror answer from what it has stored.
const storedHeader = "Disable-Module-Fetch"

// moduleMirror is asked whether a version of a module is stored.
const moduleMirror = "proxy.golang.org"

// looksUp returns the module version that a request asks a checksum database about,
// as the path of its archive at a mirror; "" if the version cannot be told. The
// other paths are files. A mirror may pass such questions on.
func looksUp(r *http.Request, host string) (archive string, ok bool) {
	path := r.URL.EscapedPath()
	switch packageHosts()[host] {
	case kindSums:
	case kindMirror:
		if !strings.Contains(path, "/sumdb/") {
			return "", false
		}
	default:
		return "", false
	}

	_, rest, ok := strings.Cut(path, "/lookup/")
	if !ok {
		return "", false
	}

	// Both ends must mean the same version: nothing here is for one of them to decode.
	module, version, _ := strings.Cut(rest, "@")
	version = strings.TrimSuffix(version, "/go.mod")
	if module == "" || version == "" || strings.ContainsAny(version, "/@") || strings.ContainsAny(rest, "%;\\") ||
		strings.Contains(rest, "..") || strings.Contains(rest, "//") || r.URL.RawQuery != "" {
		return "", true
	}
	return "/" + module + "/@v/" + version + ".zip", true
}

// containedHeaders returns what a contained client may say about its reading
// requests. All of it counts.
func containedHeaders(r *http.Request) http.Header {
	const list = `Accept Accept-Encoding Content-Encoding Content-Type Git-Protocol If-Modified-Since If-None-Match If-Range Range`
	out := http.Header{}
	for name := range strings.FieldsSeq(list) {
		if v := r.Header.Values(name); len(v) > 0 {
			out[name] = v
		}
	}

	// Which program asks is chosen by the program, and registries publish it.
	out.Set("User-Agent", "nanobot")
	if codeHost(r.Host) && (strings.HasSuffix(r.URL.Path, "/info/refs") || strings.HasSuffix(r.URL.Path, "/git-upload-pack")) {
		out.Set("User-Agent", "git/2.45.0 (nanobot)") // forges answer programs that are not git with a page
	}
	return out
}
