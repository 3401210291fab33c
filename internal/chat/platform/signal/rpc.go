package signal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	callTime  = 60 * time.Second
	idleTime  = 60 * time.Second // the daemon says something every 15 s
	maxEvent  = 8 << 20          // bytes of one message of the stream
	maxAnswer = 1 << 20          // bytes of an answer without a file in it
)

// client speaks to the daemon of signal-cli.
type client struct {
	base    atomic.Pointer[string] // nil: it is not known where the daemon is
	account string
	http    *http.Client
	lastID  atomic.Int64
	idle    time.Duration // longest time without a word of the daemon; 0: idleTime
}

// newClient makes a client of the daemon at base, "" if that is not known yet.
func newClient(base, account string, h *http.Client) *client {
	c := &client{account: account, http: h}
	if base != "" {
		c.base.Store(&base)
	}
	return c
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

func (e *rpcError) says(phrases ...string) bool {
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
	return c.callMost(ctx, method, params, into, maxAnswer)
}

func (c *client) callMost(ctx context.Context, method string, params map[string]any, into any, most int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	all := map[string]any{"account": c.account}
	maps.Copy(all, params)
	return c.ask(ctx, method, all, into, most)
}

// ask makes a request as long as ctx allows, which need not be for an account.
func (c *client) ask(ctx context.Context, method string, all map[string]any, into any, most int64) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.lastID.Add(1), "method": method, "params": all})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}

	res, err := c.do(ctx, http.MethodPost, "/api/v1/rpc", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if int64(len(data)) > most {
		return fmt.Errorf("%s: %w", method, media.ErrTooLarge)
	}

	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("%s: HTTP status %d without an answer of signal-cli", method, res.StatusCode)
	}
	if answer.Error != nil {
		answer.Error.Method = method
		return answer.Error
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d", method, res.StatusCode)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, into); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", method, err)
	}
	return nil
}

func (c *client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	base := c.base.Load()
	if base == nil {
		return nil, fmt.Errorf("signal-cli is not started yet: %w", chat.ErrNotReady)
	}
	req, err := http.NewRequestWithContext(ctx, method, *base+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	return res, nil
}

// check asks whether the daemon is there.
func (c *client) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	res, err := c.do(ctx, http.MethodGet, "/api/v1/check", nil)
	if err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	return err
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

	res, err := c.do(ctx, http.MethodGet, "/api/v1/events?account="+url.QueryEscape(c.account), nil)
	if err != nil {
		return cause(ctx, err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream of messages is refused: HTTP status %d", res.StatusCode)
	}
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
