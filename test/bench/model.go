package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What a driver writes to make the model behave badly. Only the chat that
// wrote it has it in its requests.
const (
	hangModel = "never-answer-this"
	hangTool  = "start-a-tool-that-hangs"
	largeWord = "answer-with-a-megabyte"
)

const toolAnswer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"exec\",\"arguments\":\"{\\\"command\\\":\\\"sleep 600\\\"}\"}}]},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n" +
	"data: [DONE]\n\n"

// model is a process that answers like a provider, so that what it costs is
// not counted with the driver or the gateway.
type model struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// modelStats is what a model has seen.
type modelStats struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
}

func (b *bench) startModel() (*model, error) {
	cmd := exec.Command(b.self, "model")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	return &model{url: strings.TrimSpace(url), cmd: cmd, stdin: in}, nil
}

func (m *model) close() {
	_ = m.stdin.Close() // it ends with its standard input
	_ = m.cmd.Wait()
}

// serve is where a model answers after a delay.
func (m *model) serve(delay time.Duration) string {
	return fmt.Sprintf("%s/%d", m.url, delay.Milliseconds())
}

func (m *model) stats() (s modelStats, err error) {
	resp, err := http.Get(m.url + "/stats")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// runModel is that process. /<ms>/v1/chat/completions answers after so many
// milliseconds.
func runModel() error {
	var requests, size atomic.Int64
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	large := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("word ", 1000) + "\"},\"finish_reason\":null}]}\n\n"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(modelStats{requests.Load(), size.Load()})
	})
	mux.HandleFunc("POST /{ms}/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		buf, _ := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buf)
		buf.Reset()
		n, _ := io.Copy(buf, r.Body)
		requests.Add(1)
		size.Add(n)
		var delay time.Duration
		if ms := r.PathValue("ms"); ms != "0" {
			delay, _ = time.ParseDuration(ms + "ms")
			t := time.NewTimer(delay)
			select {
			case <-t.C:
			case <-r.Context().Done():
				t.Stop()
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		body := buf.Bytes()
		switch {
		case bytes.Contains(body, []byte(hangModel)):
			<-r.Context().Done()
		case bytes.Contains(body, []byte(hangTool)):
			_, _ = io.WriteString(w, toolAnswer)
		case bytes.Contains(body, []byte(largeWord)):
			for range 200 {
				_, _ = io.WriteString(w, large)
			}
			_, _ = io.WriteString(w, answer)
		default:
			_, _ = io.WriteString(w, answer)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// direct is a client of the model with nothing in between: what the driver
// gets at best.
type direct struct {
	http *http.Client
	url  string
	body []byte
}

func newDirect(url string, size int64) *direct {
	return &direct{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, url + "/v1/chat/completions", bytes.Repeat([]byte("x"), int(size))}
}

func (d *direct) turn(ctx context.Context, _ int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(d.body))
	if err != nil {
		return err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (d *direct) close() { d.http.CloseIdleConnections() }
