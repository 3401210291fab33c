package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
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

var errExpired = errors.New("the QR code expired before it was confirmed; try again")

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
	for n := range codesMost {
		found, err := scanned(ctx, d, h, o.LoginURL, p, n > 0)
		switch {
		case err == nil:
			return chat.Result{Identity: found.Data.Bot.ID, Patch: o.patch(found)}, nil
		case !errors.Is(err, errExpired):
			return chat.Result{}, err
		}
	}
	return chat.Result{}, errExpired
}

// patch is what a new bot means for the section. It may be one of another company,
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

// scanned shows one code and waits until it is confirmed or expires.
func scanned(ctx context.Context, d chat.Deps, h *http.Client, base string, p chat.Dialog, again bool) (scan, error) {
	q := url.Values{"source": {source}, "sourceID": {source}, "plat": {system()}}
	s, err := ask(ctx, h, base+"/ai/qc/generate?"+q.Encode())
	if err != nil {
		return s, fmt.Errorf("get a QR code from WeCom: %w", err)
	}
	code, qr := s.Data.Code, s.Data.AuthURL
	if code == "" || qr == "" {
		return s, errors.New("WeCom gives no QR code: create the bot in the console and copy botId and secret (see docs/how-to/channels/wecom.md)")
	}
	step := chat.Step{QR: qr, URL: qr, Note: scanNote, Expires: d.Now().Add(scanTime)}
	if again {
		step.Note = oldNote + " " + scanNote
	}
	p.Tell(step)

	end, told := step.Expires, false
	for d.Now().Before(end) {
		if err := wait.For(ctx, pollEvery); err != nil {
			return s, err
		}
		s, err := ask(ctx, h, base+"/ai/qc/query_result?"+url.Values{"scode": {code}}.Encode())
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case err != nil: // the next try may be better
			d.Log.DebugContext(ctx, "the state of a QR code is not known", "err", err)
			continue
		}
		switch s.Data.Status {
		case "success":
			if s.Data.Bot.ID == "" || s.Data.Bot.Secret == "" {
				return s, errors.New("WeCom confirmed the code without a bot: create the bot in the console (see docs/how-to/channels/wecom.md)")
			}
			return s, nil
		case "expired":
			return s, errExpired
		case "scaned":
			if !told {
				told = true
				p.Tell(chat.Step{Note: seenNote, Expires: end})
			}
		}
	}
	return s, errExpired
}

func ask(ctx context.Context, h *http.Client, address string) (s scan, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return s, err
	}
	res, err := h.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the code in the address
		}
		return s, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return s, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, loginMost)).Decode(&s); err != nil {
		return s, fmt.Errorf("the answer is not as expected: %w", err)
	}
	return s, nil
}

// system is the number that WeCom has for this operating system.
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
