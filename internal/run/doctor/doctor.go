// Package doctor looks at an installation and hides how each part is examined.
// Checkup and Examine list what is broken (a Diagnosis of Symptoms), Security what
// is less protected than it could be (a SecurityReport). Looking changes nothing;
// only the Fix methods do. Checkup asks no other server than a gateway that
// runs here.
package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// Health is how a part of the installation is.
type Health string

// The states of a Symptom.
const (
	Well    Health = "ok"
	Doubt   Health = "warn"
	Broken  Health = "fail"
	Skipped Health = "skip" // it was not looked at, or does not count
)

// Symptom holds what one look at a part of the installation found.
type Symptom struct {
	ID     string `json:"id"`
	State  Health `json:"state"`
	Detail string `json:"detail"`        // what is the case
	Fix    string `json:"fix,omitempty"` // what to do about it, for a person

	// What closes it without a decision, for --fix.
	Mode map[string]fs.FileMode `json:"-"`
	Make []string               `json:"-"` // folders
}

// fixable reports whether the symptom can be removed without a decision.
func (s Symptom) fixable() bool { return len(s.Mode)+len(s.Make) > 0 }

// Diagnosis is all that was found.
type Diagnosis struct {
	Symptoms []Symptom `json:"checks"`
	// Config is nil if no configuration could be read at all.
	Config *config.Loaded `json:"-"`
	// Unusable says that the configuration has errors.
	Unusable bool `json:"-"`

	found   func(Symptom) // is told of each symptom; may be nil
	offline bool
}

// count counts the symptoms that have a state.
func (d *Diagnosis) count(h Health) (n int) {
	for _, s := range d.Symptoms {
		if s.State == h {
			n++
		}
	}
	return n
}

// add takes note of more.
func (d *Diagnosis) add(more ...Symptom) {
	d.Symptoms = append(d.Symptoms, more...)
	for _, s := range more {
		// A channel whose settings are valid is asked later.
		if d.found != nil && (d.offline || s.State != Well || !strings.HasPrefix(s.ID, "channel.")) {
			d.found(s)
		}
	}
}

func (d *Diagnosis) say(h Health, id, detail, fix string) {
	d.add(Symptom{ID: id, State: h, Detail: detail, Fix: fix})
}

// Checkup looks at everything on this machine that can go wrong. It changes
// nothing and makes no requests except to a gateway that runs here.
func Checkup(ctx context.Context, o app.Options) *Diagnosis {
	d := &Diagnosis{offline: true}
	d.checkup(ctx, o)
	return d
}

func (d *Diagnosis) checkup(ctx context.Context, o app.Options) {
	if o.Now == nil {
		o.Now = time.Now
	}

	d.program(o)
	d.clock(o.Now())
	l := d.config(o)
	if l == nil {
		return
	}

	d.say(Well, "clock.zone", "times are shown as "+o.Now().In(l.Config.Agents.Defaults.Location()).Format("15:04 MST (-07:00)"), "")
	ws, err := app.Workspace(o.Workspace, l)
	if err != nil {
		d.say(Broken, "workspace", err.Error(), "set agents.defaults.workspace to a folder")
		return
	}

	d.dataDir(l)
	d.workspace(ws)
	d.modes(l)
	d.space(l.DataDir, ws)
	d.commands(ctx, l)
	d.channels(l)
	running := d.gateway(ctx, l)
	d.jobs(ctx, l, ws, running, o.Now())
	d.logs("sessions", datadir.Sessions.In(l.DataDir), "the next use of the conversation sets the incomplete last line aside")
	d.logs("journal", datadir.Bus.In(l.DataDir), "the next start of the gateway sets the incomplete last line aside")
}

func (d *Diagnosis) program(o app.Options) {
	exe, err := os.Executable()
	if err != nil {
		exe = "unknown place"
	}
	d.say(Well, "program", fmt.Sprintf("nanobot %s, %s/%s, %s", o.Version, runtime.GOOS, runtime.GOARCH, exe), "")
	if os.Geteuid() == 0 && os.Getpid() != 1 {
		d.say(Doubt, "program.user", "this runs as root", "run it as a dedicated user, which limits the effect of mistakes")
	}
}

func (d *Diagnosis) clock(now time.Time) {
	if y := now.Year(); y < 2025 || y > 2100 {
		d.say(Broken, "clock", "the clock shows "+now.Format(time.DateTime), "set the clock; encrypted connections and schedules need it")
		return
	}
	d.say(Well, "clock", now.Format(time.RFC3339), "")
}

// config reads the configuration the strict way and, if that fails, the way
// the gateway does, which leaves out what it can do without.
func (d *Diagnosis) config(o app.Options) *config.Loaded {
	const fix = "correct it with: nanobot config edit, or check it with: nanobot config validate"
	l, err := config.Load(o.Config)
	if err != nil {
		d.Unusable = true
		d.say(Broken, "config", strings.TrimSpace(err.Error()), fix)
		lenient := o.Config
		lenient.Lenient = true

		if l, err = config.Load(lenient); err != nil {
			d.goesOn(o)
			return nil
		}

		for _, p := range l.Disabled {
			d.say(Doubt, "config.left_out", "the gateway starts without this: "+p.String(), fix)
		}
	}

	d.Config = l
	wrong, err := settings(l)
	if err != nil {
		d.say(Broken, "config.settings", err.Error(), fix)
	}

	for _, w := range append(wrong, l.Warnings...) {
		d.say(Doubt, "config.warning", w.String(), "")
	}

	switch {
	case !l.Exists:
		d.say(Well, "config", "there is no configuration yet ("+l.File+"); everything works without one", "set up a model with: nanobot onboard")
	case !d.Unusable:
		d.say(Well, "config", l.File, "")
	}
	return l
}

// goesOn tells of a gateway that still runs with an older configuration.
func (d *Diagnosis) goesOn(o app.Options) {
	file, err := config.Locate(o.Config)
	if err != nil {
		return
	}
	if i, err := daemon.Find(gateway.InstanceFile(&config.Loaded{DataDir: filepath.Dir(file)})); err == nil {
		d.say(Well, "gateway", fmt.Sprintf("process %d continues with the previous configuration", i.PID), "")
	}
}

func (d *Diagnosis) dataDir(l *config.Loaded) {
	info, err := os.Stat(l.DataDir)
	switch {
	case diskio.IsMissing(err):
		d.say(Well, "data", l.DataDir+" will be created when it is needed", "")
	case err != nil || !info.IsDir():
		d.say(Broken, "data", l.DataDir+" cannot be used as a folder", "remove the existing file, or choose another place with -c")
	case !writable(l.DataDir):
		d.say(Broken, "data", l.DataDir+" cannot be written to", "make your user its owner: sudo chown -R \"$(id -u)\" "+l.DataDir)
	default:
		d.say(Well, "data", l.DataDir, "")
		d.strangers(l.DataDir)
	}
}

// strangers names what is in the data folder and not ours. Tools do not see it
// there, and backups leave it out.
func (d *Diagnosis) strangers(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the data folder itself was looked at
	}

	var names []string
	for _, e := range entries {
		if _, ok := datadir.Lookup(e.Name()); !ok && len(names) < 10 {
			names = append(names, e.Name())
		}
	}

	if len(names) > 0 {
		d.say(Skipped, "data.other", "not part of nanobot and not in backups: "+strings.Join(names, ", "), "")
	}
}

func (d *Diagnosis) workspace(ws string) {
	info, err := os.Stat(ws)
	switch {
	case diskio.IsMissing(err):
		d.add(Symptom{ID: "workspace", State: Well, Detail: ws + " will be created when it is needed", Make: []string{ws}})
	case err != nil || !info.IsDir():
		d.say(Broken, "workspace", ws+" cannot be used as a folder", "set agents.defaults.workspace to another one")
	case !writable(ws):
		d.say(Broken, "workspace", ws+" cannot be written to", "make your user its owner: sudo chown -R \"$(id -u)\" "+ws)
	default:
		d.say(Well, "workspace", ws, "")
		d.links(ws)
	}
}

// links names what the program would use in the workspace and does not, because
// it is a link.
func (d *Diagnosis) links(ws string) {
	for _, note := range app.LinkNotes(ws) {
		d.say(Doubt, "links", note, "move the file or folder there; you can link to it from elsewhere")
	}
}

// writable tries it: permissions alone do not tell on every file system.
func writable(dir string) bool {
	tree, err := diskio.OpenTree(dir)
	if err != nil {
		return false
	}
	defer tree.Close() //nolint:errcheck // nothing is pending

	name := ".nanobot-doctor-" + strings.ToLower(rand.Text())
	_, err = tree.CreateNew(name, nil, 0o600)
	return err == nil && tree.Remove(name) == nil
}

func (d *Diagnosis) modes(l *config.Loaded) {
	i := &inspection{l: l}
	if i.files(); len(i.out) == 0 {
		return // not on this system
	}

	c := i.out[0]
	s := Symptom{ID: c.ID, State: Well, Detail: c.Detail}
	if c.Severity != "" {
		s.State = Broken
		s.Fix = c.Fix + ", or: nanobot doctor --fix"
		s.Mode = c.Mode
	}

	d.add(s)
}

func (d *Diagnosis) space(dirs ...string) {
	var seen []string
	for _, dir := range dirs {
		for !exists(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}

		free, ok := diskio.FreeBytes(dir)
		line := fmt.Sprintf("%d MB free", free>>20)
		if !ok || slices.Contains(seen, line) {
			continue
		}

		seen = append(seen, line)
		switch {
		case free < gateway.LowSpace/10:
			d.say(Broken, "disk", line+" at "+dir, "free some space; new messages cannot be stored")
		case free < gateway.LowSpace:
			d.say(Doubt, "disk", line+" at "+dir, "free some space")
		default:
			d.say(Well, "disk", line+" at "+dir, "")
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// commands looks at what holds the commands of the agent.
func (d *Diagnosis) commands(ctx context.Context, l *config.Loaded) {
	p := app.Posture(l)
	switch {
	case !l.Config.Tools.Exec.Enable:
		d.say(Well, "sandbox", "commands are disabled", "")
		return
	case p.Sandbox == sandbox.None:
		d.say(Doubt, "sandbox", "commands run with all rights of your user", "set tools.exec.sandbox to auto; see: nanobot doctor security")
		return
	}

	box, err := sandbox.Open(ctx, sandbox.Options{Mode: p.Sandbox})
	if err != nil {
		d.say(Doubt, "sandbox", fmt.Sprintf("commands do not run, because the sandbox cannot be used: %v", err), "see docs/explanation/security.md")
		return
	}
	d.say(Well, "sandbox", box.Level().String(), "")
}

// channels says which of them can be used.
func (d *Diagnosis) channels(l *config.Loaded) {
	on := 0
	for _, c := range l.Config.Channels.Each {
		if c.Enabled {
			on++
		}
	}

	if on == 0 {
		d.say(Well, "channels", "none is enabled", "")
		return
	}

	states, err := gateway.CheckChannels(l)
	if err != nil {
		d.say(Broken, "channels", err.Error(), "")
		return
	}

	for _, s := range states {
		switch {
		case !s.Enabled:
		case s.Error != "":
			d.say(Broken, "channel."+s.Name, s.Error, "correct channels."+s.Name+" in the configuration; see docs/how-to/channels")
		default:
			d.say(Well, "channel."+s.Name, "its settings are valid", "")
		}
	}

	people, err := gateway.CheckPeople(l)
	if err != nil {
		d.say(Broken, "channels", err.Error(), "")
		return
	}

	for _, p := range people {
		d.say(Doubt, "channel."+strings.TrimPrefix(p.Path, "channels.")+".people", p.Message, p.Hint)
	}
}

// Text returns what was found, for a chat.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	for _, s := range d.Symptoms {
		if s.State != Broken && s.State != Doubt {
			continue
		}
		fmt.Fprintf(&b, "- %s: %s\n", s.ID, strings.ReplaceAll(s.Detail, "\n", "\n  "))
		if s.Fix != "" {
			fmt.Fprintf(&b, "  %s\n", s.Fix)
		}
	}

	return fmt.Sprintf("%d broken, %d to check, %d ok.\n%sThis made no network requests; nanobot doctor in a terminal does.",
		d.count(Broken), d.count(Doubt), d.count(Well), b.String())
}
