package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// format checks a text against its enum and format tags. A choice may be written
// in capitals.
func (r *reader) format(s string, n *node, p place) (string, bool) {
	if enum := p.tag.Get("enum"); enum != "" {
		words := strings.Split(enum, "|")
		same := func(word string) bool { return strings.EqualFold(word, strings.TrimSpace(s)) }
		if i := slices.IndexFunc(words, same); i >= 0 {
			return words[i], true
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		r.issue(n, p, "must be one of "+strings.Join(words, ", "), suggest(s, words))
		return s, false
	}

	ok, want := true, ""
	switch p.tag.Get("format") {
	case "host":
		ok, want = hostName(s), "must be an IP address or a host name"
	case "hours":
		ok, want = hours(s), "must be a window such as 22:00-07:00"
	case "language":
		ok, want = s == "" || (len(s) == 2 || len(s) == 3) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "", "must be a language code of two or three lower-case letters"
	}

	if !ok {
		r.issue(n, p, want, "")
	}
	return s, ok
}

func hostName(s string) bool {
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return true
	}
	if len(s) > 253 {
		return false
	}

	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' {
			return false
		}
		for _, c := range label {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
				return false
			}
		}
	}

	return true
}

func loopbackHost(s string) bool {
	ip, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil && ip.IsLoopback() || strings.EqualFold(s, "localhost")
}

func hours(s string) bool {
	if s == "" {
		return true
	}
	from, to, ok := strings.Cut(s, "-")
	_, err1 := time.Parse("15:04", strings.TrimSpace(from))
	_, err2 := time.Parse("15:04", strings.TrimSpace(to))
	return ok && err1 == nil && err2 == nil
}

// spot returns the node and place of a canonical path.
func (r *reader) spot(root *node, path ...string) (*node, place) {
	p, n := r.root, root
	for _, part := range path {
		p, _ = p.child(part, false)
		n = n.get(part)
	}
	return n, p
}

// check judges settings against each other.
func (r *reader) check(c *Config, root *node) {
	r.checkZone(c, root)
	r.pythonSandbox(c, root)
	r.checkPresets(c, root)
	r.checkMissing(c, root)
	d := &c.Agents.Defaults
	if d.MaxTokens >= d.ContextWindowTokens {
		n, p := r.spot(root, "agents", "defaults", "maxTokens")
		r.warning(n, p.path, "is not smaller than contextWindowTokens, which leaves no room for the question", "")
	}

	if c.Gateway.Heartbeat.IntervalS < 60 {
		n, p := r.spot(root, "gateway", "heartbeat", "intervalS")
		r.warning(n, p.path, "is below 60 seconds; 60 is used", "")
		c.Gateway.Heartbeat.IntervalS = 60
	}

	for i, cidr := range c.Tools.SSRFWhitelist {
		if _, err := ParseNetwork(cidr); err != nil {
			n, p := r.spot(root, "tools", "ssrfWhitelist")
			r.warning(n, append(p.path, itoa(i)), "is not a network such as 192.168.1.0/24 and is ignored", "")
		}
	}

	for i, host := range c.Tools.Exec.AllowedHosts {
		if _, err := httpsafe.ParseHostRule(host); err != nil {
			n, p := r.spot(root, "tools", "exec", "allowedHosts")
			r.warning(n, append(p.path, itoa(i)), "is ignored: "+err.Error(), "")
		}
	}

	for i, address := range c.Tools.Exec.AllowedAddresses {
		if _, err := httpsafe.ParseAddressRule(address); err != nil {
			n, p := r.spot(root, "tools", "exec", "allowedAddresses")
			r.warning(n, append(p.path, itoa(i)), "is ignored: "+err.Error(), "")
		}
	}

	if c.API.exposed() {
		n, p := r.spot(root, "api", "host")
		r.warning(n, p.path, "the API is reachable from other machines without a key", "set api.apiKey; serve will not start without it")
	}

	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		pr := c.Providers[name]
		if pr.APIType != "" && pr.APIType != "auto" && name != "openai" {
			n, p := r.spot(root, "providers", name, "apiType")
			r.issue(n, p, "can only be set for openai", "use wire for an endpoint of your own")
		}
		if pr.APIBase != "" && !strings.Contains(pr.APIBase, "://") {
			n, p := r.spot(root, "providers", name, "apiBase")
			r.warning(n, p.path, "does not start with http:// or https://", "")
		}
	}
}

// ParseNetwork reads an entry of tools.ssrfWhitelist. An address without a length is
// a network of one.
func ParseNetwork(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// checkMissing refuses settings of parts that nanobot does not have. The Python
// version writes every setting into the file, so a default asks for nothing, and
// neither does switching such a part off.
func (r *reader) checkMissing(c *Config, root *node) {
	t, usual := &c.Tools, defaultTools()
	for _, s := range [...]struct {
		name, text string
		set        bool
	}{
		{"cliApps", "is not supported: there is no tool for CLI apps", t.CLIApps.Enable && t.CLIApps != usual.CLIApps},
		{"webuiAllowRemotePackageInstall", "is not supported: the web interface does not install packages", t.WebUIAllowRemotePackages},
	} {
		if s.set {
			n, p := r.spot(root, "tools", s.name)
			r.issue(n, p, s.text, "remove it")
		}
	}
}

// checkZone settles the time zone. A machine without a zone database cannot
// judge a name, so that is only a warning.
func (r *reader) checkZone(c *Config, root *node) {
	d := &c.Agents.Defaults
	zone, p := r.spot(root, "agents", "defaults", "timezone")
	if zone.unset(p) {
		return
	}

	if mode, mp := r.spot(root, "agents", "defaults", "timezoneMode"); mode.unset(mp) {
		d.TimezoneMode = "manual"
	}

	if r.keep && strings.Contains(zone.text, "${") {
		return
	}

	switch d.Timezone {
	case "UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Universal", "Etc/Universal", "Etc/Zulu", "GMT", "Etc/GMT":
		d.Timezone = "UTC"
		return
	}

	_, err := time.LoadLocation(d.Timezone)
	if err == nil && d.Timezone != "Local" {
		return
	}
	if _, err := time.LoadLocation("America/New_York"); err != nil {
		r.warning(zone, p.path, "cannot be checked, because this machine has no time zone database; UTC is used", "")
		return
	}
	r.issue(zone, p, "is not a time zone", "use an IANA name such as Europe/Berlin, Asia/Shanghai or UTC")
}

// checkPresets judges names that point at presets.
func (r *reader) checkPresets(c *Config, root *node) {
	names := slices.Sorted(maps.Keys(c.ModelPresets))
	known := func(name string) bool { return name == "" || name == "default" || slices.Contains(names, name) }
	if _, ok := c.ModelPresets["default"]; ok {
		n, p := r.spot(root, "modelPresets", "default")
		r.issue(n, p, "the name default is reserved for the settings in agents.defaults", "")
	}

	for _, name := range names {
		if c.ModelPresets[name].Model == "" {
			n, _ := r.spot(root, "modelPresets", name)
			if m, p := r.spot(root, "modelPresets", name, "model"); m.unset(p) {
				r.issue(n, p, "is required", "")
			}
		}
	}

	d := c.Agents.Defaults
	if !known(d.ModelPreset) && !r.reference(d.ModelPreset) {
		n, p := r.spot(root, "agents", "defaults", "modelPreset")
		r.issue(n, p, "is not a name in modelPresets", suggest(d.ModelPreset, names))
	}

	for i, f := range d.FallbackModels {
		list, p := r.spot(root, "agents", "defaults", "fallbackModels")
		at, _ := p.child(itoa(i), false)
		switch {
		case !known(f.Preset) && !r.reference(f.Preset):
			r.issue(list, at, "is not a name in modelPresets", suggest(f.Preset, names))
		case f.Preset == "" && f.Model == "":
			r.issue(list, at, "needs a model", "")
		}
	}
}

// reference reports whether a text was left unresolved on purpose.
func (r *reader) reference(s string) bool { return r.keep && strings.Contains(s, "${") }
