package feishutest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

// service is the id of our connections.
const service = 123

// conn is a long connection. Its fields but ws are guarded by the server's lock.
type conn struct {
	ws  *ws.Conn
	out [][]byte
	cut bool
}

// Frame is one of the long connection.
type Frame struct {
	Seq, Log uint64
	Service  int32
	Method   int32 // 0 control, 1 data
	Headers  [][2]string
	Payload  []byte
}

// Header is the value of a header, "" if there is none.
func (f *Frame) Header(key string) string {
	for _, h := range f.Headers {
		if h[0] == key {
			return h[1]
		}
	}
	return ""
}

// Encode makes the bytes of a frame as Feishu's own libraries do, with the
// optional fields that are empty.
func (f *Frame) Encode() []byte {
	field := func(b []byte, n int, data []byte) []byte {
		b = append(b, byte(n<<3|2)) //nolint:gosec // below 16
		b = binary.AppendUvarint(b, uint64(len(data)))
		return append(b, data...)
	}

	number := func(b []byte, n int, v uint64) []byte {
		return binary.AppendUvarint(append(b, byte(n<<3)), v) //nolint:gosec // below 16
	}
	b := number(nil, 1, f.Seq)
	b = number(b, 2, f.Log)
	b = number(b, 3, uint64(f.Service)) //nolint:gosec // never negative
	b = number(b, 4, uint64(f.Method))  //nolint:gosec // never negative
	for _, h := range f.Headers {
		b = field(b, 5, field(field(nil, 1, []byte(h[0])), 2, []byte(h[1])))
	}

	b = field(field(b, 6, nil), 7, nil)
	if f.Payload != nil {
		b = field(b, 8, f.Payload)
	}
	return field(b, 9, nil)
}

var errFrame = errors.New("not a frame")

// DecodeFrame reads the bytes of a frame. The first four fields must be there.
func DecodeFrame(data []byte) (*Frame, error) {
	f := &Frame{}
	seen := 0
	err := fields(data, func(n int, v uint64, part []byte) error {
		switch n {
		case 1:
			f.Seq = v
		case 2:
			f.Log = v
		case 3:
			f.Service = int32(v) //nolint:gosec // as protobuf does
		case 4:
			f.Method = int32(v) //nolint:gosec // as protobuf does
		case 5:
			var h [2]string
			if err := fields(part, func(n int, _ uint64, part []byte) error {
				if n == 1 || n == 2 {
					h[n-1] = string(part)
				}
				return nil
			}); err != nil {
				return err
			}

			f.Headers = append(f.Headers, h)

		case 8:
			f.Payload = part
		}

		if n <= 4 {
			seen |= 1 << n
		}
		return nil
	})
	if err == nil && seen != 0b11110 {
		err = errFrame
	}
	return f, err
}

func fields(data []byte, take func(n int, v uint64, part []byte) error) error {
	for len(data) > 0 {
		tag, k := binary.Uvarint(data)
		if k <= 0 {
			return errFrame
		}

		v, m := binary.Uvarint(data[k:])
		if m <= 0 {
			return errFrame
		}

		data = data[k+m:]
		var part []byte
		switch tag & 7 {
		case 0:
		case 2:
			if v > uint64(len(data)) {
				return errFrame
			}
			part, data = data[:v:v], data[v:]
		default:
			return errFrame
		}

		if err := take(int(tag>>3), v, part); err != nil {
			return err
		}
	}
	return nil
}

// serveSocket is the address that /callback/ws/endpoint names.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	deaf, ok := s.deaf, q.Get("service_id") == strconv.Itoa(service) && q.Get("ticket") == "ticket-"+q.Get("device_id")
	s.mu.Unlock()

	if deaf || !ok {
		w.Header().Set("Handshake-Status", "403")
		w.Header().Set("Handshake-Msg", "Forbidden")
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}

	cn := &conn{} // it is there before the client knows that it is connected
	s.locked(func() { s.conns[cn] = true })
	defer s.locked(func() { delete(s.conns, cn) })
	c, err := ws.Accept(w, r, &ws.AcceptOptions{CompressionMode: ws.CompressionDisabled, InsecureSkipVerify: true})
	if err != nil {
		return
	}

	defer c.CloseNow() //nolint:errcheck // it may be closed already
	c.SetReadLimit(1 << 20)
	cn.ws = c
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.write(ctx, cn)
		cancel()
	}()

	s.read(ctx, cn)
	cancel()
	<-done
}

// write sends what is queued, and the events that are not acknowledged.
func (s *Server) write(ctx context.Context, cn *conn) {
	for {
		s.mu.Lock()
		changed, cut, frozen := s.changed, cn.cut || s.closed, s.frozen
		if !frozen {
			for _, e := range s.events {
				if s.hook == "" && !e.acked && len(e.sent) == 0 {
					e.sent[cn] = true
					cn.out = append(cn.out, s.frames(e)...)
				}
			}
		}

		out := cn.out
		if cn.out = nil; frozen {
			out = nil
		}

		s.mu.Unlock()
		for _, f := range out {
			if cn.ws.Write(ctx, ws.MessageBinary, f) != nil {
				cut = true
			}
		}

		if cut || ctx.Err() != nil {
			_ = cn.ws.CloseNow()
			s.mu.Lock()
			for _, e := range s.events {
				if !e.press {
					delete(e.sent, cn)
				}
			}

			s.news()
			s.mu.Unlock()
			return
		}

		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// frames are those of an event: the payload may come in several.
func (s *Server) frames(e *event) [][]byte {
	var out [][]byte
	n := min(max(s.split, 1), len(e.payload))
	for i := range n {
		from, to := i*len(e.payload)/n, (i+1)*len(e.payload)/n
		s.serial++
		f := &Frame{
			Seq: uint64(s.serial), Log: 7, Service: service, Method: 1, //nolint:gosec // small
			Headers: [][2]string{
				{"type", "event"},
				{"message_id", "frame-" + e.id},
				{"sum", strconv.Itoa(n)},
				{"seq", strconv.Itoa(i)},
				{"trace_id", "trace-" + e.id},
				{"timestamp", strconv.FormatInt(time.Now().UnixMilli(), 10)},
			},
			Payload: e.payload[from:to],
		}

		out = append(out, f.Encode())
	}

	return out
}

// read takes pings and acknowledgements.
func (s *Server) read(ctx context.Context, cn *conn) {
	for {
		kind, data, err := cn.ws.Read(ctx)
		if err != nil {
			return
		}

		f, err := DecodeFrame(data)
		s.locked(func() {
			switch {
			case kind != ws.MessageBinary || err != nil:
				s.bad = append(s.bad, "a frame that cannot be read")
			case f.Service != service:
				s.bad = append(s.bad, "a frame of another service")
			case f.Method == 0 && f.Header("type") == "ping":
				s.pings++
				pong := &Frame{Service: service, Headers: [][2]string{{"type", "pong"}}, Payload: []byte(`{"ReconnectCount":-1,"ReconnectInterval":120,"ReconnectNonce":30,"PingInterval":120}`)}
				cn.out = append(cn.out, pong.Encode())
			case f.Method == 1:
				s.acknowledge(f)
			default:
				s.bad = append(s.bad, "an unknown frame")
			}
		})
	}
}

// acknowledge takes the answer to an event: its own headers and the time that
// it took, and a code. The lock is held.
func (s *Server) acknowledge(f *Frame) {
	var answer struct {
		Code int    `json:"code"`
		Data []byte `json:"data"` // base64
	}
	id := strings.TrimPrefix(f.Header("message_id"), "frame-")
	if err := json.Unmarshal(f.Payload, &answer); err != nil || f.Header("biz_rt") == "" || f.Header("type") != "event" || f.Header("sum") == "" {
		s.bad = append(s.bad, "a wrong acknowledgement of "+id)
		return
	}

	for _, e := range s.events {
		if e.id == id && answer.Code == http.StatusOK { // else it comes again, with Repeat or the next connection
			e.acked, e.answer = true, answer.Data
		}
	}
}

// Repeat sends the events again that are not acknowledged, as Feishu does after
// 15 seconds, 5 minutes, 1 hour and 6 hours.
func (s *Server) Repeat() {
	s.locked(func() {
		for _, e := range s.events {
			if !e.press {
				clear(e.sent)
			}
		}
	})
}

// Connected is how many connections there are.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Pings is how many came.
func (s *Server) Pings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pings
}

// Cut ends all connections; the next one is taken.
func (s *Server) Cut() {
	s.locked(func() {
		for c := range s.conns {
			c.cut = true
		}
	})
}

// SetDeaf lets the server refuse connections.
func (s *Server) SetDeaf(deaf bool) { s.locked(func() { s.deaf = deaf }) }

// SetFrozen lets the server stay silent on its connections.
func (s *Server) SetFrozen(frozen bool) { s.locked(func() { s.frozen = frozen }) }

// SetSplit lets each event come in so many frames.
func (s *Server) SetSplit(n int) { s.locked(func() { s.split = n }) }

// Raw sends bytes on all connections, whatever they are.
func (s *Server) Raw(data []byte) {
	s.locked(func() {
		for c := range s.conns {
			c.out = append(c.out, data)
		}
	})
}

// Data sends a data frame with a payload on all connections.
func (s *Server) Data(payload []byte, headers ...[2]string) {
	f := Frame{Seq: 1, Log: 2, Service: service, Method: 1, Payload: payload, Headers: append([][2]string{
		{"type", "event"}, {"message_id", "raw"}, {"sum", "1"}, {"seq", "0"}, {"trace_id", "t"},
	}, headers...)}
	s.Raw(f.Encode())
}

// Hook sends events by HTTP to an address from now on, encrypted and signed or
// with the verification token only. It does not ask whether the address is ours.
func (s *Server) Hook(address string, sealed bool) {
	s.locked(func() { s.hook, s.sealed = address, sealed })
}

// post delivers an event by HTTP, and again until it is taken.
func (s *Server) post(e *event) {
	for range 200 {
		s.mu.Lock()
		address, sealed, closed := s.hook, s.sealed, s.closed
		s.mu.Unlock()
		if closed {
			return
		}

		body, header := Seal(e.payload, sealed, time.Now())
		req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(string(body))) //nolint:noctx // of a test
		if err != nil {
			return
		}

		req.Header = header
		if res, err := (&http.Client{}).Do(req); err == nil {
			answer, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				s.locked(func() { e.acked, e.answer = true, answer })
				return
			}
		}

		if e.press {
			return
		}

		changed := s.Changed()
		t := time.NewTimer(50 * time.Millisecond)
		select {
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}

// Seal makes the body and the headers of a request with an event.
func Seal(payload []byte, sealed bool, at time.Time) ([]byte, http.Header) {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	if !sealed {
		return payload, h
	}

	body := []byte(`{"encrypt":"` + Encrypt(payload, EncryptKey) + `"}`)
	stamp, nonce := strconv.FormatInt(at.Unix(), 10), "nonce1"
	sum := sha256.Sum256([]byte(stamp + nonce + EncryptKey + string(body)))
	h.Set("X-Lark-Request-Timestamp", stamp)
	h.Set("X-Lark-Request-Nonce", nonce)
	h.Set("X-Lark-Signature", hex.EncodeToString(sum[:]))
	return body, h
}

// Encrypt makes of an event what Feishu sends when the app has an encrypt key.
func Encrypt(payload []byte, key string) string {
	sum := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		panic(err)
	}

	pad := aes.BlockSize - len(payload)%aes.BlockSize
	plain := append([]byte{}, payload...)
	for range pad {
		plain = append(plain, byte(pad))
	}

	out := make([]byte, aes.BlockSize+len(plain))
	_, _ = rand.Read(out[:aes.BlockSize])
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], plain)
	return base64.StdEncoding.EncodeToString(out)
}
