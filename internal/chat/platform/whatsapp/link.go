package whatsapp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	program   = "nanobot-whatsapp"
	helloTime = time.Second // for the answer to auth, which older bridges do not give
	callTime  = 2 * time.Minute
	maxFrame  = 16 << 20
	// oldCall is the id of all requests to bridges that do not repeat an id:
	// they are made one after the other.
	oldCall = "old"
)

// endpoint is where the other side is, and the program there if it is ours.
type endpoint struct {
	url   string
	token httpsafe.Secret
	child *kit.Child
}

// endpoint starts the program, or finds the token of a bridge.
func (b *bot) endpoint(ctx context.Context) (endpoint, error) {
	dir, err := b.deps.Dir()
	if err != nil {
		return endpoint{}, err
	}

	if b.o.Transport == bridge {
		token := b.o.BridgeToken
		if token.IsZero() {
			token, err = savedToken(filepath.Join(dir, "bridge-token"))
		}
		return endpoint{url: b.o.BridgeURL, token: token}, err
	}

	store, err := b.store()
	if err != nil {
		return endpoint{}, err
	}

	token := httpsafe.NewSecret(rand.Text())
	p := kit.Program{Name: program, Args: []string{"--store", store, "--files", filepath.Join(dir, "files")}, Token: token}
	if b.o.SelfChat {
		p.Args = append(p.Args, "--self-chat")
	}
	if b.o.Proxy != "" {
		p.Env = append(p.Env, "NANOBOT_WHATSAPP_PROXY="+b.o.Proxy) // it may hold a password
	}

	child, err := kit.StartChild(ctx, b.deps.Log, p)
	if errors.Is(err, kit.ErrNoProgram) {
		err = chat.Fatal(fmt.Errorf("%w; see docs/how-to/channels/whatsapp.md, or set bridgeUrl to a bridge that runs already", err))
	}

	if err != nil {
		return endpoint{}, err
	}
	return endpoint{url: "ws://" + child.Address, token: token, child: child}, nil
}

// store returns the file with the linked device.
func (b *bot) store() (string, error) {
	path := b.o.DatabasePath
	if path == "" {
		dir, err := b.deps.Dir()
		return filepath.Join(dir, "neonize.db"), err
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	return path, nil
}

// savedToken reads the token that a bridge is started with, and makes one if
// there is none.
func savedToken(path string) (httpsafe.Secret, error) {
	data, err := os.ReadFile(path)
	if token := strings.TrimSpace(string(data)); err == nil && token != "" {
		return httpsafe.NewSecret(token), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return httpsafe.Secret{}, fmt.Errorf("read the token of the bridge: %w", err)
	}

	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token := base64.RawURLEncoding.EncodeToString(b[:])
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		return httpsafe.Secret{}, fmt.Errorf("keep the token of the bridge: %w", err)
	}
	return httpsafe.NewSecret(token), nil
}

// serve connects to the other side and hands its frames to take until ctx
// ends, an error is fatal, or the program ends.
func (b *bot) serve(ctx context.Context, take func(ctx context.Context, f *frame) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, err := b.endpoint(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	var watch sync.WaitGroup
	if at.child != nil {
		defer watch.Wait()
		defer at.child.Close()
		watch.Go(func() {
			<-at.child.Done()
			cancel()
		})
	}

	h, err := b.deps.Client("")
	if err != nil {
		return err
	}

	defer h.CloseIdleConnections()

	err = socket.Run(ctx, socket.Options{
		Client: h, MaxFrame: maxFrame, Match: b.match, Ping: b.silence / 3, Silence: b.silence,
		Dial: func(context.Context) (socket.Target, error) { return socket.Target{URL: at.url}, nil },
		Open: func(ctx context.Context, c *socket.Conn) error { return b.open(ctx, c, at.token, take) },
		Receive: func(ctx context.Context, _ *socket.Conn, raw socket.Frame) error {
			f, ok := b.read(ctx, raw)
			if !ok {
				return nil
			}
			return take(ctx, f)
		},
		Lost: b.lost,
	})

	b.use(nil, false)
	if err == nil && at.child != nil {
		err = at.child.Failed()
	}
	return err
}

// open shows the token. The answer tells what the other side can do; without
// one it is an older bridge, which says nothing until something happens.
func (b *bot) open(ctx context.Context, c *socket.Conn, token httpsafe.Secret, take func(context.Context, *frame) error) error {
	if err := send(ctx, c, frame{Type: typeAuth, Token: token.Reveal(), Protocol: protocol}); err != nil {
		return err
	}

	soon, cancel := context.WithTimeout(ctx, b.hello)
	defer cancel()
	raw, err := c.Next(soon)
	if err != nil {
		if soon.Err() == nil || ctx.Err() != nil {
			return err
		}
		b.use(c, false)
		b.deps.Ready("", nil)
		return nil
	}

	f, ok := b.read(ctx, raw)
	b.use(c, ok && f.Type == typeHello && f.Protocol >= protocol)
	if !ok {
		return nil
	}
	return take(ctx, f)
}

// lost decides how to go on after a connection.
func (b *bot) lost(err error) error {
	b.use(nil, false)
	if e, ok := errors.AsType[*socket.CloseError](err); ok && (e.Code == closeToken || e.Code == closeLate) {
		return socket.Fatal(chat.Fatal(errors.New("the bridge refuses the token: bridgeToken must be what the bridge was started with as BRIDGE_TOKEN")))
	}
	if chat.IsFatal(err) {
		return socket.Fatal(err)
	}

	if b.o.Transport == bridge {
		err = fmt.Errorf("the bridge at %s: %w", b.o.BridgeURL, err)
	}

	b.deps.Ready("", err)
	return err
}

func (b *bot) use(c *socket.Conn, modern bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn, b.modern, b.up = c, modern, c != nil && !modern
}

func (b *bot) connection() (c *socket.Conn, modern bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn, b.modern
}

func (b *bot) read(ctx context.Context, raw socket.Frame) (*frame, bool) {
	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		b.once.Warn(ctx, "malformed", "a frame of the bridge cannot be read and was dropped", "err", err)
		return nil, false
	}
	return &f, true
}

func send(ctx context.Context, c *socket.Conn, f frame) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: data})
}

// match names the request that a frame answers.
func (b *bot) match(raw socket.Frame) (string, bool) {
	var f struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if json.Unmarshal(raw.Data, &f) != nil || f.Type != typeSent && f.Type != typeError && f.Type != typeFile {
		return "", false
	}
	if f.ID == "" {
		return oldCall, true
	}
	return f.ID, true
}

// request asks the other side for something and waits for the answer.
func (b *bot) request(ctx context.Context, f frame) (*frame, error) {
	c, modern := b.connection()
	b.mu.Lock()
	up := b.up
	b.mu.Unlock()
	if c == nil || !up {
		return nil, fmt.Errorf("WhatsApp: %w", chat.ErrNotReady)
	}

	id := oldCall
	if modern {
		id = "r" + strconv.FormatInt(b.lastID.Add(1), 10)
		f.ID = id
	}

	data, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	raw, err := c.Call(ctx, id, socket.Frame{Data: data})
	if errors.Is(err, socket.ErrLost) {
		return nil, fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	}
	if err != nil {
		return nil, err
	}

	answer, ok := b.read(ctx, raw)
	if !ok {
		return nil, errors.New("the answer of the bridge cannot be read")
	}
	if answer.Type == typeError {
		return nil, refusal(answer)
	}
	return answer, nil
}

// refusal puts an error of the other side into the words of the manager. Older
// bridges give only a text.
func refusal(f *frame) error {
	err := fmt.Errorf("WhatsApp: %s", f.Error)
	says := func(phrases ...string) bool {
		for _, p := range phrases {
			if strings.Contains(strings.ToLower(f.Error), p) {
				return true
			}
		}
		return false
	}
	switch {
	case f.Code == "rate":
		return chat.RateLimited(max(time.Duration(f.RetryAfter)*time.Second, time.Second), err)
	case f.Code == "not_ready", f.Code == "" && says("not connected", "connection closed"):
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case f.Code == "permanent", f.Code == "" && says("jid", "not-authorized", "item-not-found", "bad-request", "forbidden", "enoent"):
		return chat.Permanent(err)
	}

	return err
}
