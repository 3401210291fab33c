package bedrock

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"time"
)

// A profile is what the shared files of the vendor's tools say of a name. Of
// the vendor's package for them only this is needed; the package itself also
// brings the clients of every way to sign in (decision 130).
type profile struct {
	name    string
	values  map[string]string
	source  *profile // whose credentials assume the role
	session *ssoSession
}

type ssoSession struct{ name, region string }

// sections are the settings in a shared file by the name of their section.
type sections map[string]map[string]string

// parseSections reads the lines of a shared file. name maps the title of a
// section to its name here; a title that it does not know is left out with all
// its settings. Lines that mean nothing are left out, as the vendor does.
func parseSections(data string, name func(title string) string) sections {
	all := sections{}
	var current map[string]string
	key := ""
	for line := range strings.Lines(data) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		switch {
		case trimmed == "" || !indented && (trimmed[0] == '#' || trimmed[0] == ';'):
			continue
		case trimmed[0] == '[':
			current, key = nil, ""
			title, _, closed := strings.Cut(trimmed[1:], "]")
			if n := name(strings.TrimSpace(title)); closed && n != "" {
				if all[n] == nil {
					all[n] = map[string]string{}
				}
				current = all[n]
			}

		case current == nil:
		default:
			k, v, ok := strings.Cut(trimmed, "=")
			k = strings.ToLower(strings.TrimSpace(k))
			switch {
			case ok && k != "" && (!indented || key == "" || current[key] != ""): // else it belongs to a setting without a value
				key = k
				current[key] = strings.TrimSpace(withoutComment(v))
			case indented && current[key] != "":
				current[key] += "\n" + trimmed
			}
		}
	}

	return all
}

// withoutComment cuts a comment off a value; it begins behind a blank.
func withoutComment(v string) string {
	for i := 1; i < len(v); i++ {
		if (v[i] == '#' || v[i] == ';') && (v[i-1] == ' ' || v[i-1] == '\t') {
			return v[:i]
		}
	}
	return v
}

// configName and credentialsName are the names of sections of the two files:
// profiles as they are called, everything else with its kind.
func configName(title string) string {
	kind, rest, _ := strings.Cut(title, " ")
	rest = unquote(strings.TrimSpace(rest))
	switch {
	case title == "default":
		return "default"
	case kind == "profile" && rest != "":
		return rest
	case kind == "sso-session" && rest != "":
		return "sso-session " + rest
	}

	return ""
}

func credentialsName(title string) string {
	if strings.HasPrefix(title, "profile ") || strings.HasPrefix(title, "sso-session ") {
		return ""
	}
	return unquote(title)
}

func unquote(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// readShared merges both files; credentials win.
func (k *keyring) readShared() (sections, error) {
	all := sections{}
	for _, f := range []struct {
		path string
		name func(string) string
	}{
		{k.sharedFile("AWS_CONFIG_FILE", "config"), configName},
		{k.sharedFile("AWS_SHARED_CREDENTIALS_FILE", "credentials"), credentialsName},
	} {
		if f.path == "" {
			continue
		}

		data, err := readFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}

		for name, values := range parseSections(string(data), f.name) {
			if all[name] == nil {
				all[name] = map[string]string{}
			}
			maps.Copy(all[name], values)
		}
	}

	return all, nil
}

// profile finds a profile and the profiles that it takes credentials from.
// Seen are those on the way to it: the second time a profile only lends its
// own credentials.
func (s sections) profile(name string, seen map[string]bool) (*profile, error) {
	values, ok := s[name]
	if !ok {
		return nil, errNoProfile
	}

	p := &profile{name: name, values: maps.Clone(values)}
	own := []string{"source_profile", "credential_source", "web_identity_token_file", "credential_process"}
	if seen[name] {
		for _, key := range append(own[:2:2], "role_arn", "external_id", "mfa_serial", "role_session_name") {
			delete(p.values, key)
		}
	}

	set := 0
	for _, key := range own {
		if p.values[key] == "" {
			continue
		}
		if set++; p.values["role_arn"] == "" && key != "credential_process" {
			return nil, fmt.Errorf("the profile %q has %s, but no role_arn", name, key)
		}
	}

	if (p.values["aws_access_key_id"] == "") != (p.values["aws_secret_access_key"] == "") {
		return nil, fmt.Errorf("the profile %q has only one of aws_access_key_id and aws_secret_access_key", name)
	}
	if len(seen) > 0 && p.hasKeys() {
		return p, nil
	}
	if set > 1 {
		return nil, fmt.Errorf("the profile %q may have only one of %s", name, strings.Join(own, ", "))
	}

	seen[name] = true
	if from := p.values["source_profile"]; from != "" {
		for _, key := range []string{"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "sso_session", "sso_start_url"} {
			delete(p.values, key)
		}

		source, err := s.profile(from, seen)
		if errors.Is(err, errNoProfile) || err == nil && !source.lends() {
			return nil, fmt.Errorf("the profile %q, which %q takes its credentials from, has none", from, name)
		}
		if err != nil {
			return nil, err
		}
		p.source = source
	}

	if session := p.values["sso_session"]; session != "" {
		values, ok := s["sso-session "+session]
		if !ok {
			return nil, fmt.Errorf("the profile %q names the sso-session %q, which does not exist", name, session)
		}
		p.session = &ssoSession{session, values["sso_region"]}
	}

	return p, nil
}

var errNoProfile = errors.New("the profile does not exist")

func (p *profile) hasKeys() bool {
	return p.values["aws_access_key_id"] != "" && p.values["aws_secret_access_key"] != ""
}

// lends reports whether a profile says where credentials come from.
func (p *profile) lends() bool {
	if p.source != nil || p.session != nil || p.hasKeys() {
		return true
	}
	for _, key := range []string{"credential_source", "credential_process", "web_identity_token_file", "sso_start_url", "login_session"} {
		if p.values[key] != "" {
			return true
		}
	}
	return false
}

// duration returns how long a role is assumed for; 0 if the profile does not
// say.
func (p *profile) duration() time.Duration {
	n, err := strconv.Atoi(p.values["duration_seconds"])
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
