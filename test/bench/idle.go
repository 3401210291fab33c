package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/venue"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

const idleEach = 3 // gateways of each kind that idle

// idler is a gateway with one channel or none, by its configuration.
type idler struct {
	name    string
	section map[string]any
	dir     string
	conf    string
	ready   []time.Duration
	rss     []int64
	own     []int64
	cpu     []time.Duration // in a minute
	routine []int64
}

// channels measures what one channel costs a gateway that does nothing: beside
// one without any, memory, processor time and the time until it is ready.
func (b *bench) channels() error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	var sets [idleEach][]*idler // an account is used by one gateway only
	for n := range sets {
		list, stop, err := idlers(b.dir)
		if err != nil {
			return err
		}
		defer stop()
		sets[n] = list
		for _, i := range list {
			if err := i.configure(filepath.Join(b.dir, fmt.Sprintf("idle-%s-%d", i.name, n)), m.serve(0)); err != nil {
				return err
			}
		}
	}

	for n := range b.times(20, 5) + 1 { // in turn, since a machine has moods
		for _, i := range sets[0] {
			g, err := b.startGateway(i.dir, i.conf)
			if err != nil {
				return fmt.Errorf("%s: %w", i.name, err)
			}
			if n > 0 { // the first one makes the workspace
				i.ready = append(i.ready, g.ready)
			}
			g.stop()
		}
	}
	if err := b.rests(slices.Concat(sets[:]...)); err != nil {
		return err
	}
	for _, list := range sets[1:] {
		for n, i := range list {
			sets[0][n].add(i)
		}
	}
	b.tables = append(b.tables, idleTable(sets[0]))
	return nil
}

func (i *idler) configure(dir, url string) (err error) {
	channels := map[string]any{}
	if i.section != nil {
		i.section["enabled"] = true
		channels[i.name] = i.section
	}
	text, err := json.Marshal(channels)
	if err != nil {
		return err
	}
	i.dir = dir
	i.conf, err = writeHome(dir, url, string(text), "")
	return err
}

func (i *idler) add(more *idler) {
	i.rss, i.own = append(i.rss, more.rss...), append(i.own, more.own...)
	i.cpu, i.routine = append(i.cpu, more.cpu...), append(i.routine, more.routine...)
}

// rests lets all gateways do nothing at the same time.
func (b *bench) rests(list []*idler) error {
	var all []*gateway
	defer func() {
		for _, g := range all {
			g.stop()
		}
	}()
	for _, i := range list {
		g, err := b.startGateway(i.dir, i.conf)
		if err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		all = append(all, g)
	}
	time.Sleep(time.Duration(b.times(80, 20)) * time.Second) // what a start leaves to do is done by then
	watch := time.Duration(b.times(60, 20)) * time.Second
	before := make([]time.Duration, len(all))
	for n, g := range all {
		var err error
		if before[n], err = g.processor(); err != nil {
			return err
		}
	}
	time.Sleep(watch)
	for n, g := range all {
		after, err := g.processor()
		if err != nil {
			return err
		}
		u, err := g.usage()
		if err != nil {
			return err
		}
		i := list[n]
		if up := fmt.Sprintf(`nanobot_channel_up{channel=%q}`, i.name); i.section != nil && g.metric(up) != 1 { // a question before would be work
			return fmt.Errorf("%s is not connected\n%s", i.name, &g.errs)
		}
		i.cpu = append(i.cpu, time.Duration(float64(after-before[n])*time.Minute.Seconds()/watch.Seconds()))
		i.rss, i.own, i.routine = append(i.rss, u.rss), append(i.own, u.own), append(i.routine, int64(u.goroutines))
	}
	return nil
}

// idleTable has a line for each channel: what it costs beyond a gateway without.
// Of the starts the fastest counts: other programs only make one slower.
func idleTable(list []*idler) string {
	var t strings.Builder
	t.WriteString("| Channel | memory | of it own | goroutines | processor in a minute | exec to ready |\n|---|---|---|---|---|---|\n")
	base := list[0]
	fmt.Fprintf(&t, "| without | %s | %s | %d | %s | %s |\n", mib(middle(base.rss)), mib(middle(base.own)), middle(base.routine), ms(middle(base.cpu)), ms(slices.Min(base.ready)))
	for _, i := range list[1:] {
		fmt.Fprintf(&t, "| %s | %+.1f MiB | %+.1f MiB | %+d | %+.2f ms | %+.2f ms |\n", i.name,
			float64(middle(i.rss)-middle(base.rss))/(1<<20), float64(middle(i.own)-middle(base.own))/(1<<20), middle(i.routine)-middle(base.routine),
			(middle(i.cpu)-middle(base.cpu)).Seconds()*1000, (slices.Min(i.ready)-slices.Min(base.ready)).Seconds()*1000)
	}
	return t.String()
}

func middle[T cmp.Ordered](list []T) T {
	s := slices.Clone(list)
	slices.Sort(s)
	return s[len(s)/2]
}

// processor is the time that a process has used the processor, to the
// nanosecond. That of threads which ended is not in it; a gateway at rest ends
// none.
func (g *gateway) processor() (sum time.Duration, err error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", g.cmd.Process.Pid))
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, err
}

// idlers are a gateway without a channel and one for each platform.
func idlers(dir string) (list []*idler, stop func(), err error) {
	mail, err := startMail()
	if err != nil {
		return nil, nil, err
	}
	teams, signal, whatsapp := teamstest.New(), signaltest.New(), whatsapptest.New(dir)
	list = []*idler{
		{name: "without"},
		{name: "email", section: mail.section()},
		{name: "msteams", section: map[string]any{
			"appId": teamstest.AppID, "appPassword": teamstest.Password, "tenantId": teamstest.Tenant, "port": 0, "allowFrom": []string{"*"},
			"loginBase": teams.URL(), "openIdUrl": teams.OpenIDURL(), "serviceUrl": teams.ServiceURL(), "trustedServiceUrlHosts": []string{"127.0.0.1"},
		}},
		{name: "signal", section: map[string]any{"phoneNumber": signaltest.Number, "daemonHost": signal.Host(), "daemonPort": signal.Port(), "allowFrom": []string{"*"}}},
		{name: "websocket", section: map[string]any{"token": benchToken}},
		{name: "whatsapp", section: map[string]any{"bridgeUrl": whatsapp.URL(), "bridgeToken": whatsapptest.Token, "allowFrom": []string{"*"}}},
	}
	venues := venue.Five(1)
	for _, v := range venues {
		list = append(list, &idler{name: v.Name, section: v.Section})
	}
	slices.SortStableFunc(list[1:], func(a, b *idler) int { return cmp.Compare(a.name, b.name) })
	return list, func() {
		for _, v := range venues {
			v.Close()
		}
		teams.Close()
		signal.Close()
		whatsapp.Close()
		mail.close()
	}, nil
}

// mailbox is an IMAP server with an empty account. No mail is sent at rest, so
// there is no server for that.
type mailbox struct {
	server *imapserver.Server
	at     net.Listener
}

func startMail() (*mailbox, error) {
	user := imapmemserver.NewUser("bot@example.com", "bench-password")
	if err := user.Create("INBOX", nil); err != nil {
		return nil, err
	}
	mem := imapmemserver.New()
	mem.AddUser(user)
	s := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return mem.NewSession(), &imapserver.GreetingData{}, nil
		},
		InsecureAuth: true,
		Logger:       log.New(io.Discard, "", 0),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = s.Serve(l) }()
	return &mailbox{s, l}, nil
}

func (m *mailbox) section() map[string]any {
	_, port, _ := net.SplitHostPort(m.at.Addr().String()) // it listens there
	n, _ := strconv.Atoi(port)
	return map[string]any{
		"consentGranted": true, "allowFrom": []string{"ann@example.com"},
		"imapHost": "127.0.0.1", "imapPort": n, "imapUsername": "bot@example.com", "imapPassword": "bench-password", "imapUseSsl": false,
		"smtpHost": "127.0.0.1", "smtpPort": n, "smtpUsername": "bot@example.com", "smtpPassword": "bench-password", "smtpUseTls": false,
	}
}

func (m *mailbox) close() { _ = m.server.Close() }
