package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/auth"
	"github.com/nanobot-go/nanobot/internal/web/pages"
	"github.com/nanobot-go/nanobot/internal/web/socket"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

var errPagesOff = errors.New(`the web interface is off: set gateway.webui.enabled (it is on by itself only where other machines cannot reach the gateway)`)

// webPages is the web interface on the gateway's port.
type webPages struct {
	state     *state
	directory *deliver.Directory
	listener  func() net.Addr
	auth      *auth.Server
	server    *pages.Server
	push      subject.Push
}

func newPages(g *Gateway) *webPages {
	p := &webPages{state: g.state, directory: g.directory, listener: g.Addr}
	p.auth = auth.New(auth.Options{
		Store: store.Under(app.State(g.state.config(), g.log), string(datadir.WebUI)), Log: g.log, Now: g.o.Now,
		Site:    p.site,
		Changed: func() { g.topics.soon(web.TopicDevices) },
		Notify: func(ctx context.Context, s phrase.Sentence) {
			g.background.Go(func() { g.mail.notifyOwner(ctx, s) })
		},
	})

	p.push = newPush(g, p)
	p.server = pages.New(pages.Options{
		Auth: p.auth, Site: p.site, Now: g.o.Now, API: g.desk,
		Socket: func(w http.ResponseWriter, r *http.Request, device string, gone <-chan struct{}) {
			if c := p.open(w); c != nil {
				c.ServePage(w, r, device, gone)
			}
		},
		Upload: func(w http.ResponseWriter, r *http.Request, device string) {
			if c := p.open(w); c != nil {
				c.ServeUpload(w, r, device)
			}
		},
		Media: func(w http.ResponseWriter, r *http.Request) {
			if c := p.open(w); c != nil {
				c.ServeMedia(w, r)
			}
		},
		Vouched: func(r *http.Request) bool {
			c := socketOf(p.directory)
			return c != nil && c.Vouched(r)
		},
	})
	return p
}

// open is the socket for a request, which is refused while there is none.
func (p *webPages) open(w http.ResponseWriter) *socket.Channel {
	c := socketOf(p.directory)
	if c == nil {
		w.Header().Set("Retry-After", "5")
		auth.Refuse(w, http.StatusServiceUnavailable, "not_running", "the gateway is starting or stopping; try again")
	}
	return c
}

// match is the handler for a request of a browser to the pages, if they are served.
func (p *webPages) match(r *http.Request) (http.Handler, bool) {
	if !servesPages(p.state.config(), p.listener()) {
		return nil, false
	}
	return p.server.Match(r)
}

// matchOwn is match for the socket's own listener.
func (p *webPages) matchOwn(r *http.Request, exposed bool) (http.Handler, bool) {
	if on := p.state.config().Config.Gateway.WebUI.Enabled; on == nil && exposed || on != nil && !*on {
		return nil, false
	}
	return p.server.Match(r)
}

// servesPages reports whether the web interface is served: on this machine unless
// the file says no, elsewhere only if it says yes.
func servesPages(l *config.Loaded, at net.Addr) bool {
	if enabled := l.Config.Gateway.WebUI.Enabled; enabled != nil {
		return *enabled
	}
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return httpsafe.LoopbackHost(l.Config.Gateway.Host)
}

// site is how browsers may reach the pages.
func (p *webPages) site() auth.Site {
	l := p.state.config()
	set := l.Config.Gateway.WebUI
	s := auth.Site{Hosts: slices.Clone(set.Hosts), Session: time.Duration(set.SessionDays) * 24 * time.Hour, Proxies: p.proxies()}
	if u, err := url.Parse(set.PublicURL); err == nil && u.Host != "" {
		s.Hosts = append(s.Hosts, u.Host)
	}
	if tcp, ok := p.listener().(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		s.Hosts = append(s.Hosts, tcp.String())
	}
	if c := socketOf(p.directory); c != nil && c.Host() != "" {
		s.Hosts = append(s.Hosts, c.Host())
	}
	return s
}

func (p *webPages) proxies() []netip.Prefix {
	if c := socketOf(p.directory); c != nil {
		return c.Proxies()
	}
	return nil
}

// base is the address of the pages for a browser on this machine, or the public one.
func (p *webPages) base() string {
	if public := p.state.config().Config.Gateway.WebUI.PublicURL; public != "" {
		return strings.TrimRight(public, "/") + "/"
	}

	at := p.listener()
	if at == nil {
		return ""
	}

	host := at.String()
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + host + "/"
}

// Link implements control.Pages.
func (p *webPages) Link(want control.WantedLink) (control.Link, error) {
	if !servesPages(p.state.config(), p.listener()) {
		return control.Link{}, errPagesOff
	}

	out := control.Link{Base: p.base()}
	if want.Base != "" {
		out.Base = strings.TrimRight(want.Base, "/") + "/"
	}

	if want.Code {
		out.Code = p.auth.Code()
	} else {
		out.Link = out.Base + "#/in/" + p.auth.Link()
	}
	return out, nil
}

// Devices implements control.Pages.
func (p *webPages) Devices(ctx context.Context) (control.Devices, error) {
	list, err := p.auth.Devices(ctx)
	return control.Devices{Devices: list, Waiting: p.auth.Waiting()}, err
}

// Decide implements control.Pages.
func (p *webPages) Decide(ctx context.Context, d control.Decision) error {
	if d.Revoke != "" {
		return p.auth.Revoke(ctx, d.Revoke)
	}
	return p.auth.Decide(d.Digits, d.Allow)
}
