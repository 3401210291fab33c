package weixintest

import (
	"fmt"
	"net/http"
	"time"
)

// makeCode is get_bot_qrcode.
func (s *Server) makeCode(body map[string]any) map[string]any {
	list, _ := body["local_token_list"].([]any)
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(list) > 10 {
		return refusal(Invalid, "local_token_list")
	}

	for _, t := range list {
		if known, _ := t.(string); !s.tokens[known] {
			return refusal(Invalid, "local_token_list")
		}
	}

	s.codes++
	s.wrong = 0
	return map[string]any{"ret": 0, "qrcode": s.code(), "qrcode_img_content": "https://liteapp.weixin.qq.com/q/" + s.code()}
}

func (s *Server) code() string { return fmt.Sprintf("qr-%d", s.codes) }

// Codes is how many QR codes were made.
func (s *Server) Codes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.codes
}

// codeStatus is get_qrcode_status.
func (s *Server) codeStatus(r *http.Request) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()

	if r.URL.Query().Get("qrcode") != s.code() {
		return map[string]any{"ret": 0, "status": "expired"}
	}

	if len(s.states) == 0 {
		changed := s.changed
		s.mu.Unlock()
		limit := time.NewTimer(s.Hold)
		select {
		case <-changed:
		case <-limit.C:
		case <-r.Context().Done():
		}

		limit.Stop()
		s.mu.Lock()
		return map[string]any{"ret": 0, "status": "wait"}
	}

	st := s.states[0]
	if typed := r.URL.Query().Get("verify_code"); st.Status == "need_verifycode" && typed != "" {
		if typed == st.Code {
			s.states = s.states[1:]
			return map[string]any{"ret": 0, "status": "scaned"}
		}
		if s.wrong++; s.wrong >= 3 {
			s.states = s.states[1:]
			return map[string]any{"ret": 0, "status": "verify_code_blocked"}
		}
	}

	if st.Status != "need_verifycode" {
		s.states = s.states[1:]
	}

	out := map[string]any{"ret": 0, "status": st.Status}
	switch {
	case st.Status == "scaned_but_redirect":
		out["redirect_host"] = st.Host
	case st.Status == "confirmed" && !st.Empty:
		token := fmt.Sprintf("bot-token-%d@im.bot:secret", s.codes)
		s.tokens[token] = true
		out["bot_token"], out["ilink_bot_id"], out["ilink_user_id"], out["baseurl"] = token, fmt.Sprintf("b0700000000%d@im.bot", s.codes), Owner, s.http.URL
		if st.User != "" {
			out["ilink_user_id"] = st.User
		}
		if st.Base != "" {
			out["baseurl"] = st.Base
		}
	}

	return out
}
