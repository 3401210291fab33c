package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	pollEvery = 3 * time.Second
	scanTime  = 5 * time.Minute // for one code
	codesMost = 3               // that are shown before we give up
	loginMost = 1 << 20         // bytes of an answer
	source    = "nanobot"
	scanNote  = "Open WeCom on the phone, scan the code and confirm: WeCom creates the bot."
	seenNote  = "Scanned. Confirm on the phone."
	oldNote   = "The code has expired; this is a new one."
)

// scan is what the set-up page of WeCom says.
type scan struct {
	Data struct {
		Code    string `json:"scode"`
		AuthURL string `json:"auth_url"`
		Status  string `json:"status"`
		Bot     struct {
			ID     string `json:"botid"`
			Secret string `json:"secret"`
		} `json:"bot_info"`
	} `json:"data"`
}

// login lets WeCom create a bot for the person who scans a code.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return chat.Result{}, err
	}
	if o.BotID != "" && !o.Secret.IsZero() && !force {
		return chat.Result{}, fmt.Errorf("channels.%s has a botId and a secret already; a login with --force replaces them by a new bot", d.Name)
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Result{}, err
	}

	defer h.CloseIdleConnections()
	s := &signIn{rest: kit.REST{
		Client: h,
		Base:   o.LoginURL,
		Judge:  judge,
		Within: downloadTime,
		Most:   loginMost,
	}, deps: d}
	if err := (kit.QR{Dialog: p, Now: d.Now, Codes: codesMost, Seen: seenNote, Show: s.show}).Run(ctx); err != nil {
		return chat.Result{}, err
	}
	return chat.Result{Identity: s.made.Data.Bot.ID, Patch: o.patch(s.made)}, nil
}

// patch returns what a new bot means for the section. It may be one of another company,
// where the same ids are those of other people.
func (o *options) patch(found scan) map[string]any {
	bot := found.Data.Bot
	patch := map[string]any{"enabled": true, "botId": bot.ID, "secret": bot.Secret}
	if o.BotID == "" || o.BotID == bot.ID {
		return patch
	}

	for name, list := range map[string][]string{"allowFrom": o.AllowFrom, "owners": o.Owners} {
		if len(list) > 0 {
			patch[name] = []string{}
		}
	}
	return patch
}

// signIn lets WeCom create a bot by a QR code.
type signIn struct {
	rest kit.REST
	deps chat.Deps
	made scan // after the code was confirmed
}

// show asks for a code.
func (s *signIn) show(ctx context.Context, n int) (kit.Code, error) {
	got, err := s.ask(ctx, "/ai/qc/generate", url.Values{"source": {source}, "sourceID": {source}, "plat": {system()}})
	if err != nil {
		return kit.Code{}, fmt.Errorf("get a QR code from WeCom: %w", err)
	}

	code, qr := got.Data.Code, got.Data.AuthURL
	if code == "" || qr == "" {
		return kit.Code{}, errors.New("WeCom gives no QR code: create the bot in the console and copy botId and secret (see docs/how-to/channels/wecom.md)")
	}

	step := chat.Step{QR: qr, URL: qr, Note: scanNote, Expires: s.deps.Now().Add(scanTime)}
	if n > 0 {
		step.Note = oldNote + " " + scanNote
	}
	return kit.Code{
		Step:  step,
		Every: pollEvery,
		Poll:  func(ctx context.Context) (kit.Scan, error) { return s.poll(ctx, code) },
	}, nil
}

// poll asks what became of a code.
func (s *signIn) poll(ctx context.Context, code string) (kit.Scan, error) {
	got, err := s.ask(ctx, "/ai/qc/query_result", url.Values{"scode": {code}})
	if err != nil { // the next try may be better
		s.deps.Log.DebugContext(ctx, "the state of a QR code is not known", "err", err)
		return kit.ScanWaits, nil
	}

	switch got.Data.Status {
	case "success":
		if got.Data.Bot.ID == "" || got.Data.Bot.Secret == "" {
			return kit.ScanWaits, errors.New("WeCom confirmed the code without a bot: create the bot in the console (see docs/how-to/channels/wecom.md)")
		}
		s.made = got
		return kit.ScanConfirmed, nil

	case "expired":
		return kit.ScanExpired, nil
	case "scaned":
		return kit.ScanSeen, nil
	}

	return kit.ScanWaits, nil
}

func (s *signIn) ask(ctx context.Context, path string, q url.Values) (got scan, err error) {
	err = s.rest.Do(ctx, kit.Call{Method: http.MethodGet, Path: path + "?" + q.Encode()}, &got)
	return got, err
}

// judge reads what the set-up page said.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
	}
	return a.Body, nil
}

// system returns the number that WeCom has for this operating system.
func system() string {
	switch runtime.GOOS {
	case "darwin":
		return "1"
	case "windows":
		return "2"
	case "linux":
		return "3"
	}
	return "0"
}

// errReached ends a probe.
var errReached = errors.New("reached")

// probe looks whether the server is there. It does not subscribe: that would end
// the connection of a gateway that runs.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	o, err := decode(section)
	if err != nil {
		return chat.Report{}, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Report{}, err
	}

	defer h.CloseIdleConnections()
	err = socket.Run(ctx, socket.Options{
		Client:  h,
		Dial:    func(context.Context) (socket.Target, error) { return socket.Target{URL: o.WSURL}, nil },
		Open:    func(context.Context, *socket.Conn) error { return errReached },
		Receive: func(context.Context, *socket.Conn, socket.Frame) error { return nil },
		Lost:    socket.Fatal,
	})

	check := chat.Check{Name: "connection", OK: errors.Is(err, errReached), Detail: "the server is reached; it judges botId and secret when the channel connects, since a second connection would end the first"}
	if !check.OK {
		check.Detail = fmt.Sprint(err)
	}
	return chat.Report{Checks: []chat.Check{check}}, nil
}
