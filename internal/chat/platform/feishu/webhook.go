package feishu

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

var errForged = errors.New("not from Feishu")

// post receives an event by HTTP.
func (b *bot) post(w http.ResponseWriter, r *http.Request, body []byte) {
	payload, outer, err := b.verified(r.Header, body)
	if err != nil {
		b.once(r.Context(), "a request is not from Feishu and is refused; check encryptKey and verificationToken if Feishu sent it", "err", err)
		kit.Reply(w, http.StatusUnauthorized)
		return
	}

	answer := []byte("{}")
	if outer.Type == "url_verification" {
		answer = challenge(outer.Challenge)
	} else if shown, err := b.accept(context.WithoutCancel(r.Context()), payload); shown != nil {
		answer = shown
	} else if err != nil {
		b.once(r.Context(), "an event of Feishu could not be kept and is left for another try", "err", err)
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}

	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(answer)
}

// verified returns the event of a request that Feishu sent. With an encrypt key it is
// encrypted, and signed unless it only proves our address; with a verification
// token it bears that.
func (b *bot) verified(h http.Header, body []byte) (payload []byte, outer envelope, err error) {
	key, payload := b.o.EncryptKey.Reveal(), body
	if key != "" {
		var sealed struct {
			Encrypt string `json:"encrypt"`
		}
		if json.Unmarshal(body, &sealed) != nil || sealed.Encrypt == "" {
			return nil, outer, errors.New("the body is not encrypted")
		}
		if payload, err = decrypt(sealed.Encrypt, key); err != nil {
			return nil, outer, err
		}
	}

	if err := json.Unmarshal(payload, &outer); err != nil {
		return nil, outer, errors.New("the event is not JSON")
	}

	proof := outer.Type == "url_verification" && outer.Header.Type == ""
	if key != "" && !proof && !signed(h, body, key) {
		return nil, outer, errors.New("the signature is wrong")
	}

	token := outer.Header.Token
	if token == "" {
		token = outer.Token
	}

	if want := b.o.VerificationToken.Reveal(); want != "" && !kit.SameSecret(token, want) {
		return nil, outer, errors.New("the verification token is wrong")
	}
	return payload, outer, nil
}

// signed reports whether the signature of a request is right.
func signed(h http.Header, body []byte, key string) bool {
	sum := sha256.New()
	for _, s := range []string{h.Get("X-Lark-Request-Timestamp"), h.Get("X-Lark-Request-Nonce"), key} {
		_, _ = io.WriteString(sum, s)
	}
	_, _ = sum.Write(body)
	return kit.SameSecret(h.Get("X-Lark-Signature"), hex.EncodeToString(sum.Sum(nil)))
}

// decrypt opens an encrypted event: AES-256 in CBC mode under the hash of the
// key, the initial vector first.
func decrypt(sealed, key string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(data) < 2*aes.BlockSize || len(data)%aes.BlockSize != 0 {
		return nil, errors.New("the encrypted event is broken")
	}

	sum := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return nil, err
	}

	iv, data := data[:aes.BlockSize], data[aes.BlockSize:]
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(data, data)
	pad := int(data[len(data)-1])
	if pad < 1 || pad > aes.BlockSize || !bytes.HasSuffix(data, bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errForged
	}
	return data[:len(data)-pad], nil
}
