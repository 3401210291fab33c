package weixintest

import (
	"crypto/aes"
	"crypto/md5" //nolint:gosec // the protocol names files by it
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// stored is a file as the CDN keeps it.
type stored struct {
	data []byte // encrypted, unless it has no key
	key  []byte
}

// upload is a file that was announced.
type upload struct {
	key           []byte
	raw, size     int
	sum, fileKey  string
	kind, address string
}

// Encrypt is AES-128-ECB with PKCS #7 padding.
func Encrypt(key, plain []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}

	n := 16 - len(plain)%16
	out := append([]byte{}, plain...)
	for range n {
		out = append(out, byte(n))
	}

	for i := 0; i < len(out); i += 16 {
		block.Encrypt(out[i:i+16], out[i:i+16])
	}
	return out
}

func decrypt(key, data []byte) ([]byte, bool) {
	block, err := aes.NewCipher(key)
	if err != nil || len(data) == 0 || len(data)%16 != 0 {
		return nil, false
	}

	out := append([]byte{}, data...)
	for i := 0; i < len(out); i += 16 {
		block.Decrypt(out[i:i+16], out[i:i+16])
	}

	n := int(out[len(out)-1])
	if n == 0 || n > 16 {
		return nil, false
	}

	for _, b := range out[len(out)-n:] {
		if int(b) != n {
			return nil, false
		}
	}
	return out[:len(out)-n], true
}

// Key is what files of people are encrypted with.
func Key() []byte { return []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} }

// Store puts a file of a person on the CDN and returns its media object. The
// form of the key is raw or hex; with none the file is not encrypted.
func (s *Server) Store(data []byte, form string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()

	param := fmt.Sprintf("param=%d&x/+", len(s.files)+1) // must be escaped in an address
	f := &stored{data: data}
	media := map[string]any{"encrypt_query_param": param, "encrypt_type": 1}
	if form != "" {
		f.key, f.data = Key(), Encrypt(Key(), data)
		media["aes_key"] = base64.StdEncoding.EncodeToString(Key())
		if form == "hex" {
			media["aes_key"] = base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(Key())))
		}
	}

	s.files[param] = f
	return media
}

// announce is getuploadurl.
func (s *Server) announce(body map[string]any) map[string]any {
	word := func(key string) string { v, _ := body[key].(string); return v }
	number := func(key string) int { v, _ := body[key].(float64); return int(v) }
	u := &upload{raw: number("rawsize"), size: number("filesize"), sum: word("rawfilemd5"), fileKey: word("filekey")}
	u.kind = map[int]string{1: "image", 2: "video", 3: "file"}[number("media_type")]
	var err error
	u.key, err = hex.DecodeString(word("aeskey"))
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case err != nil || len(u.key) != 16 || len(u.fileKey) != 32 || u.kind == "":
		return refusal(Invalid, "aeskey, filekey or media_type")
	case u.size != (u.raw/16+1)*16 || len(u.sum) != 32 || body["no_need_thumb"] != true:
		return refusal(Invalid, "filesize, rawfilemd5 or no_need_thumb")
	case !s.people[word("to_user_id")]:
		return refusal(Invalid, "to_user_id")
	}

	u.address = "up=" + strconv.Itoa(len(s.pending)+1) + "&/+"
	s.pending[u.address] = u
	return map[string]any{"ret": 0, "upload_param": u.address}
}

// cdn serves and takes files.
func (s *Server) cdn(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	f := s.failure("cdn/" + name)
	s.mu.Unlock()

	if f != nil {
		s.fail(w, f)
		return
	}

	param := r.URL.Query().Get("encrypted_query_param")
	switch {
	case name == "download" && r.Method == http.MethodGet:
		s.mu.Lock()
		f := s.files[param]
		if f != nil {
			s.fetched++
		}

		s.mu.Unlock()
		if f == nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(f.data)

	case name == "upload" && r.Method == http.MethodPost:
		s.upload(w, r, param)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, param string) {
	data, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()

	u := s.pending[param]
	refuse := func(why string) {
		w.Header().Set("X-Error-Message", why)
		w.WriteHeader(http.StatusBadRequest)
	}
	if err != nil || u == nil || r.URL.Query().Get("filekey") != u.fileKey || r.Header.Get("Content-Type") != "application/octet-stream" {
		refuse("encrypted_query_param, filekey or Content-Type")
		return
	}

	plain, ok := decrypt(u.key, data)
	sum := md5.Sum(plain) //nolint:gosec // see above
	if !ok || len(data) != u.size || len(plain) != u.raw || hex.EncodeToString(sum[:]) != u.sum {
		refuse("the file is not what was announced")
		return
	}
	if s.noParam > 0 {
		s.noParam--
		return
	}

	got := "got=" + strconv.Itoa(len(s.files)+1) + "&/+"
	s.files[got] = &stored{data: data, key: u.key}
	w.Header().Set("X-Encrypted-Param", got)
}

// attach reads a file out of an item.
func (s *Server) attach(m *Message, kind string, item map[string]any) string {
	media, _ := item["media"].(map[string]any)
	param, _ := media["encrypt_query_param"].(string)
	text, _ := media["aes_key"].(string)
	coded, err := base64.StdEncoding.DecodeString(text)
	key, bad := hex.DecodeString(string(coded))
	f := s.files[param]
	if err != nil || bad != nil || f == nil || media["encrypt_type"] != 1.0 {
		return "media"
	}

	plain, ok := decrypt(key, f.data)
	if !ok {
		return "media.aes_key"
	}

	m.File = &File{Kind: kind, Data: plain}
	size := map[string]string{"image": "mid_size", "video": "video_size"}[kind]
	switch {
	case size != "" && item[size] != float64(len(f.data)):
		return size
	case kind == "file":
		m.File.Name, _ = item["file_name"].(string)
		if m.File.Name == "" || strings.ContainsAny(m.File.Name, "/\\") || item["len"] != strconv.Itoa(len(plain)) {
			return "file_name or len"
		}
	}

	return ""
}
