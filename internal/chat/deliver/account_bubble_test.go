package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

func statusOf(r *rig, name string) deliver.Status {
	for _, s := range r.m.Status() {
		if s.Name == name {
			return s
		}
	}
	return deliver.Status{}
}

// Two sections with one account would answer everything twice.
func TestSameAccountTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		claiming := func(p *platform) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				if err := p.deps.Claim("@bot"); err != nil {
					return err
				}
				p.deps.Ready("@bot", nil)
				<-ctx.Done()
				return nil
			}
		}
		first, second := &platform{}, &platform{}
		first.run, second.run = claiming(first), claiming(second)
		r := newRig(t, map[string]*platform{"a": first}, func(o *deliver.Options) {
			o.Drivers["a"] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
				if d.Name == "a.work" {
					second.deps = d
					return second, nil
				}
				first.deps = d
				return first, nil
			}}
		})
		both := map[string]json.RawMessage{"a": json.RawMessage(plainSection), "a.work": json.RawMessage(plainSection)}
		if errs := r.m.Apply(t.Context(), both); len(errs) > 0 {
			t.Fatal(errs)
		}
		synctest.Wait()
		got := statusOf(r, "a.work")
		if got.State != deliver.Failed || !strings.Contains(got.Error, "channels.a.work is the same account as channels.a (@bot)") {
			t.Errorf("the second section is %s: %s", got.State, got.Error)
		}
		if s := statusOf(r, "a"); s.State != deliver.Running {
			t.Errorf("the first section is %s: %s", s.State, s.Error)
		}

		// The first one keeps its account while it is changed and restarted.
		both["a"] = json.RawMessage(`{"enabled":true,"sendProgress":true}`)
		if errs := r.m.Apply(t.Context(), both); len(errs) > 0 {
			t.Fatal(errs)
		}
		if err := r.m.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if one, two := statusOf(r, "a"), statusOf(r, "a.work"); one.State != deliver.Running || two.State != deliver.Failed {
			t.Errorf("after a restart the first section is %s, the second %s", one.State, two.State)
		}

		// Without the first one the second comes up by itself.
		both["a"] = json.RawMessage(`{"enabled":false}`)
		if errs := r.m.Apply(t.Context(), both); len(errs) > 0 {
			t.Fatal(errs)
		}
		synctest.Wait()
		if s := statusOf(r, "a.work"); s.State != deliver.Running || s.Error != "" {
			t.Errorf("alone the second section is %s: %s", s.State, s.Error)
		}
	})
}

// A section whose account another one uses waits for it: until that section is
// removed, uses another account, or gives up.
func TestAccountIsFree(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]map[string]json.RawMessage{
		"removed": {"a.work": json.RawMessage(plainSection)},
		"another account": {
			"a": json.RawMessage(`{"enabled":true,"as":"@other"}`), "a.work": json.RawMessage(plainSection),
		},
		"revoked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				revoked := make(chan struct{})
				r := newRig(t, map[string]*platform{"a": {}}, func(o *deliver.Options) {
					o.Drivers["a"] = chat.Driver{New: func(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
						p := &platform{deps: d}
						p.run = func(ctx context.Context) error {
							as := struct{ As string }{"@bot"}
							if err := json.Unmarshal(section, &as); err != nil {
								return err
							}
							if err := d.Claim(as.As); err != nil {
								return err
							}
							d.Ready(as.As, nil)
							select {
							case <-revoked:
								if d.Name == "a" {
									return chat.Fatal(errors.New("the token was revoked"))
								}
								<-ctx.Done()
							case <-ctx.Done():
							}
							return nil
						}
						return p, nil
					}}
				})
				both := map[string]json.RawMessage{"a": json.RawMessage(plainSection), "a.work": json.RawMessage(plainSection)}
				if errs := r.m.Apply(t.Context(), both); len(errs) > 0 {
					t.Fatal(errs)
				}
				synctest.Wait()
				if s := statusOf(r, "a.work"); s.State != deliver.Failed {
					t.Fatalf("the second section is %s: %s", s.State, s.Error)
				}
				if after == nil {
					close(revoked)
				} else if errs := r.m.Apply(t.Context(), after); len(errs) > 0 {
					t.Fatal(errs)
				}
				synctest.Wait()
				if s := statusOf(r, "a.work"); s.State != deliver.Running {
					t.Errorf("the second section is %s: %s", s.State, s.Error)
				}
			})
		})
	}
}

type noDialog struct{ chat.Dialog }

// A login keeps the channel from using the account meanwhile and starts it
// again, also one that had given up.
func TestLoginWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		loggedIn, runs := false, 0
		p.run = func(ctx context.Context) error {
			runs++
			if !loggedIn {
				return chat.Fatal(errors.New("logged out: run nanobot channels login a"))
			}
			p.deps.Ready("+49", nil)
			<-ctx.Done()
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			d := o.Drivers["a"]
			d.Login = func(_ context.Context, deps chat.Deps, _ json.RawMessage, _ chat.Dialog, force bool) (chat.Result, error) {
				if !force {
					return chat.Result{}, errors.New("the code expired")
				}
				dir, err := deps.Dir()
				if err != nil {
					return chat.Result{}, err
				}
				loggedIn = true
				return chat.Result{Identity: "+49"}, os.WriteFile(filepath.Join(dir, "session"), []byte("x"), 0o600)
			}
			o.Drivers["a"] = d
		})
		if s := statusOf(r, "a"); s.State != deliver.Failed {
			t.Fatalf("the channel is %s", s.State)
		}
		if _, err := r.m.Login(t.Context(), "a", noDialog{}, false); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("the failed login says %v", err)
		}
		got, err := r.m.Login(t.Context(), "a", noDialog{}, true)
		if err != nil || got.Identity != "+49" {
			t.Fatalf("login: %+v, %v", got, err)
		}
		synctest.Wait()
		if s := statusOf(r, "a"); s.State != deliver.Running || s.Identity != "+49" {
			t.Errorf("after the login the channel is %s as %q", s.State, s.Identity)
		}
		if _, err := os.Stat(filepath.Join(r.dir, "accounts", "a", "session")); err != nil {
			t.Error(err)
		}
		info, err := os.Stat(filepath.Join(r.dir, "accounts", "a"))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder of the account: %v, %v", info, err)
		}
		if runs != 3 {
			t.Errorf("the channel ran %d times, want 3: before, after the failed and after the good login", runs)
		}
	})
}

// What needs no login says what is missing, or that nothing is.
func TestLoginWithoutNeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]*platform{"a": {}})
		if _, err := r.m.Login(t.Context(), "a", noDialog{}, false); !errors.Is(err, deliver.ErrNoLogin) {
			t.Errorf("login: %v", err)
		}
		if _, err := r.m.Login(t.Context(), "a.work", noDialog{}, false); err == nil || !strings.Contains(err.Error(), "no section channels.a.work; there are a") {
			t.Errorf("login of a section that is not there: %v", err)
		}
		if err := r.m.Restart(t.Context(), "ghost"); err == nil || !strings.Contains(err.Error(), "known channels: a") {
			t.Errorf("restart of an unknown platform: %v", err)
		}
	})
}

// One section may hold several accounts, and each has a channel.
func TestInstances(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var made []string
		r := newRig(t, map[string]*platform{"a": {}}, func(o *deliver.Options) {
			o.Drivers["a"] = chat.Driver{
				New: func(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
					made = append(made, d.Name+" "+string(section))
					return &platform{deps: d}, nil
				},
				Expand: func(section json.RawMessage) (map[string]json.RawMessage, error) {
					var s struct{ Instances map[string]json.RawMessage }
					return s.Instances, json.Unmarshal(section, &s)
				},
			}
			o.Sections = map[string]json.RawMessage{"a": json.RawMessage(`{"instances":{"home":{"enabled":true},"work":{"enabled":true}}}`)}
		})
		if len(made) != 2 || len(r.m.Status()) != 2 || statusOf(r, "a.work").State != deliver.Running || statusOf(r, "a.home").State != deliver.Running {
			t.Errorf("made %q, status %+v", made, r.m.Status())
		}
	})
}

// An account of a section that cannot be used leaves the others alone.
func TestInstancesLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]*platform{"a": {}}, func(o *deliver.Options) {
			d := o.Drivers["a"]
			d.Expand = func(section json.RawMessage) (map[string]json.RawMessage, error) {
				if strings.Contains(string(section), "none") {
					return nil, errors.New("no list")
				}
				return map[string]json.RawMessage{"home": json.RawMessage(`{"enabled":true}`)}, errors.New("the second one has no id")
			}
			o.Drivers["a"] = d
			o.Sections["a.none"] = json.RawMessage(`{"enabled":true,"x":"none"}`)
		})
		var names []string
		for _, s := range r.m.Status() {
			names = append(names, s.Name)
		}
		diff(t, "channels", names, []string{"a.home", "a.none"})
	})
}

// People who were let in with another account are strangers again, and only
// they.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := &platform{}, &platform{}
		r := newRig(t, map[string]*platform{"a": one, "b": two})
		p, ctx := r.m.Book(), t.Context()
		let := func(name, who string) {
			code, err := p.Ask(ctx, name, who, "alias-of-"+who)
			if err == nil {
				_, err = p.ApproveOwner(ctx, code)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		known := func(name string, ids ...string) access.Known {
			t.Helper()
			k, err := p.Known(name, ids...)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		forget := func(by *platform, account, before string) {
			t.Helper()
			if err := by.deps.Forget(ctx, account, before); err != nil {
				t.Fatal(err)
			}
		}
		let("a", "ann")
		let("b", "ann")
		forget(one, "app1", "")
		forget(one, "app1", "app0") // what is noted counts, not what the channel believes
		if !known("a", "alias-of-ann").Owner {
			t.Error("the same account is another one")
		}
		if _, err := p.Ask(ctx, "a", "bob"); err != nil {
			t.Fatal(err)
		}
		forget(one, "app2", "")
		waiting, approved, err := p.List()
		if err != nil || known("a", "ann", "alias-of-ann") != (access.Known{}) || len(waiting) != 0 || len(approved["a"]) != 0 || !known("b", "ann").Owner {
			t.Errorf("waiting %v, approved %v, %v", waiting, approved, err)
		}
		let("a", "eve")
		forget(one, "app2", "app1")
		if !known("a", "eve").Owner {
			t.Error("who was let in with this account is forgotten")
		}
		if forget(two, "app2", "app1"); known("b", "ann").Owner {
			t.Error("the people of an account that the channel knows of are not forgotten")
		}
	})
}

// A probe needs neither an enabled section nor a running channel, and a panic
// in it is an error.
func TestProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]*platform{"a": {}}, func(o *deliver.Options) {
			d := o.Drivers["a"]
			d.Probe = func(_ context.Context, deps chat.Deps, section json.RawMessage) (chat.Report, error) {
				if strings.Contains(string(section), "bad") {
					panic("oh")
				}
				return chat.Report{Identity: "@" + deps.Name}, nil
			}
			o.Drivers["a"] = d
			o.Sections["a.off"] = json.RawMessage(`{"enabled":false}`)
			o.Sections["a.bad"] = json.RawMessage(`{"enabled":false,"x":"bad"}`)
		})
		if got, err := r.m.Probe(t.Context(), "a.off"); err != nil || got.Identity != "@a.off" {
			t.Errorf("probe: %+v, %v", got, err)
		}
		if _, err := r.m.Probe(t.Context(), "a.bad"); err == nil || !strings.Contains(err.Error(), "panic") {
			t.Errorf("probe: %v", err)
		}
	})
}
