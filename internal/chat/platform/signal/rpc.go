package signal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTime  = 60 * time.Second
	idleTime  = 60 * time.Second // the daemon says something every 15 s
	maxEvent  = 8 << 20          // bytes of one message of the stream
	maxAnswer = 1 << 20          // bytes of an answer without a file in it
)

// client speaks to the daemon of signal-cli.
type client struct {
	rest    kit.REST               // but for its base
	base    atomic.Pointer[string] // nil: it is not known where the daemon is
	account string
	lastID  atomic.Int64
	idle    time.Duration // longest time without a word of the daemon; 0: idleTime
}

// newClient makes a client of the daemon at base, "" if that is not known yet.
func newClient(base, account string, h *http.Client) *client {
	c := &client{account: account, rest: kit.REST{Client: h, Judge: judge, Within: callTime, Most: maxAnswer}}
	if base != "" {
		c.base.Store(&base)
	}
	return c
}

// daemon returns the API of the daemon where it is now.
func (c *client) daemon() (kit.REST, error) {
	rest := c.rest
	base := c.base.Load()
	if base == nil {
		return rest, fmt.Errorf("signal-cli is not started yet: %w", chat.ErrNotReady)
	}
	rest.Base = *base
	return rest, nil
}

// rpcError is a refusal by signal-cli.
type rpcError struct {
	Method  string
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Response struct {
			Results []result `json:"results"`
		} `json:"response"`
	} `json:"data"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code) }

// The codes of signal-cli; those of JSON-RPC itself are below -32000.
const (
	codeUser      = -1
	codeUntrusted = -4
	codeRateLimit = -5
	codeNoMethod  = -32601
)

func (e *rpcError) mentions(phrases ...string) bool {
	for _, p := range phrases {
		if strings.Contains(strings.ToLower(e.Message), p) {
			return true
		}
	}
	return false
}

// result is what became of a message for one recipient.
type result struct {
	Type       string `json:"type"`
	RetryAfter int    `json:"retryAfterSeconds"`
}

func (c *client) call(ctx context.Context, method string, params map[string]any, into any) error {
	return c.callMost(ctx, method, params, into, 0)
}

// callMost is call for an answer with a file in it; 0 bytes are the usual ones.
func (c *client) callMost(ctx context.Context, method string, params map[string]any, into any, most int64) error {
	all := map[string]any{"account": c.account}
	maps.Copy(all, params)
	return c.ask(ctx, kit.Call{Name: method, Most: most}, all, into)
}

// ask makes a request, which need not be for an account. The call has the method
// as its name.
func (c *client) ask(ctx context.Context, k kit.Call, params map[string]any, into any) error {
	daemon, err := c.daemon()
	if err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	k.Method = http.MethodPost
	k.Path = "/api/v1/rpc"
	k.Body = kit.JSON(map[string]any{"jsonrpc": "2.0", "id": c.lastID.Add(1), "method": k.Name, "params": params})
	return daemon.Do(ctx, k, into)
}

// judge reads an answer of JSON-RPC.
func judge(a kit.Answer) (json.RawMessage, error) {
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil {
		return nil, a.Foreign("signal-cli")
	}
	if answer.Error != nil {
		answer.Error.Method = a.Call
		return nil, answer.Error
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
	}
	return answer.Result, nil
}

// judgeStatus is judge for what has a status only.
func judgeStatus(a kit.Answer) (json.RawMessage, error) {
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
	}
	return nil, nil
}

// judgeStream is judge for what is not the stream of messages.
func judgeStream(a kit.Answer) (json.RawMessage, error) {
	return nil, fmt.Errorf("%s is refused: HTTP status %d", a.Call, a.Status)
}

// check asks whether the daemon is there.
func (c *client) check(ctx context.Context) error {
	daemon, err := c.daemon()
	if err != nil {
		return err
	}
	daemon.Judge = judgeStatus
	return daemon.Do(ctx, kit.Call{Method: http.MethodGet, Path: "/api/v1/check"}, nil)
}

var errIdle = errors.New("signal-cli says nothing any more")

// events hands every event of the stream to take, until the stream ends, which
// is always an error.
func (c *client) events(ctx context.Context, opened func(), take func(data []byte)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	most := cmp.Or(c.idle, idleTime)
	idle := time.AfterFunc(most, func() { cancel(errIdle) })
	defer idle.Stop()

	daemon, err := c.daemon()
	if err != nil {
		return err
	}

	daemon.Judge = judgeStream
	res, err := daemon.Open(ctx, kit.Call{
		Method: http.MethodGet,
		Path:   "/api/v1/events?account=" + url.QueryEscape(c.account),
		Name:   "the stream of messages",
	})
	if err != nil {
		return cause(ctx, err)
	}

	defer res.Body.Close() //nolint:errcheck // read only
	opened()
	err = readEvents(bufio.NewReaderSize(res.Body, 64<<10), func() { idle.Reset(most) }, take)
	return cause(ctx, fmt.Errorf("the stream of messages ended: %w", err))
}

func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); errors.Is(why, errIdle) {
		return why
	}
	return err
}

// readEvents reads server-sent events. One that is too long is passed over.
func readEvents(r *bufio.Reader, alive func(), take func(data []byte)) error {
	var data []byte
	over := false
	for {
		line, long, err := readLine(r, maxEvent, alive)
		if err != nil {
			return err
		}

		over = over || long
		switch {
		case len(line) == 0 && !long:
			if len(data) > 0 || over {
				if over {
					data = nil
				}
				take(data)
			}
			data, over = nil, false
		case bytes.HasPrefix(line, []byte("data:")):
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(line[5:], []byte(" "))...)
			over = over || len(data) > maxEvent
			if over {
				data = nil
			}
		}
	}
}

// readLine reads a line without its end. Of one that is too long it keeps
// nothing.
func readLine(r *bufio.Reader, most int, alive func()) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		alive()
		if !long {
			line = append(line, part...)
		}
		if len(line) > most {
			line, long = nil, true
		}

		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), long, err
	}
}
