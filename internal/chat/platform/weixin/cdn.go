package weixin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/md5" //nolint:gosec // the protocol names files by it
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	fetchTries = 2
	fetchPause = 300 * time.Millisecond
	uploadTime = 5 * time.Minute
)

var errBadKey = errors.New("the file cannot be decrypted: its key or its content is wrong")

// encrypt is AES-128-ECB with PKCS #7 padding, in place if there is room.
func encrypt(key, data []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}

	n := aes.BlockSize - len(data)%aes.BlockSize
	data = append(data, bytes.Repeat([]byte{byte(n)}, n)...)
	for i := 0; i < len(data); i += aes.BlockSize {
		block.Encrypt(data[i:], data[i:])
	}
	return data, nil
}

// decrypt is the opposite, in place.
func decrypt(key, data []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil || len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil, errBadKey
	}

	for i := 0; i < len(data); i += aes.BlockSize {
		block.Decrypt(data[i:], data[i:])
	}

	n := int(data[len(data)-1])
	if n == 0 || n > aes.BlockSize || !bytes.Equal(data[len(data)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errBadKey
	}
	return data[:len(data)-n], nil
}

// parseKey reads the key of a file: of images 32 hex digits, else base64 of 16
// bytes or of 32 hex digits. Nil without an error is none.
func parseKey(digits, coded string) ([]byte, error) {
	if digits != "" {
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != aes.BlockSize {
			return nil, errBadKey
		}
		return key, nil
	}

	if coded == "" {
		return nil, nil
	}

	key, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return nil, errBadKey
	}
	if len(key) == aes.BlockSize {
		return key, nil
	}
	return parseKey(string(key), "")
}

// file returns the file of an item. False means that there is none to fetch; the
// kind is set all the same if the item is of one.
func (b *bot) file(it *item) (r kit.Received, ok bool) {
	var f *fileItem
	switch it.Type {
	case itemImage:
		f, r.Kind, r.Name = it.Image, kit.ImageFile, "image.jpg"
	case itemVoice:
		f, r.Kind, r.Name = it.Voice, kit.VoiceFile, "voice.silk"
	case itemFile:
		f, r.Kind, r.Name = it.File, kit.OtherFile, "file"
	case itemVideo:
		f, r.Kind, r.Name = it.Video, kit.VideoFile, "video.mp4"
	}

	if f == nil {
		return r, false
	}

	r.Name = cmp.Or(strings.TrimSpace(f.Name), map[int]string{5: "voice.amr", 7: "voice.mp3"}[f.Coding], r.Name)
	r.Size = f.Length.number()
	where := []*cdnFile{f.Media, f.Thumb}
	if f.Media.there() && f.Media.Key == "" && f.AESKey == "" && r.Kind != kit.ImageFile || !f.Media.there() && !f.Thumb.there() {
		return r, false
	}

	most := b.deps.Media.Max
	r.Open = func(ctx context.Context) (io.ReadCloser, error) {
		var err error
		for _, m := range where {
			if !m.there() {
				continue
			}

			var data []byte
			digits := f.AESKey
			if m == f.Thumb && m.Key != "" {
				digits = ""
			}

			if data, err = b.fetch(ctx, m, digits, most); err == nil {
				return io.NopCloser(bytes.NewReader(data)), nil
			}
			if errors.Is(err, media.ErrTooLarge) {
				break
			}
		}

		return nil, err
	}
	return r, true
}

// fetch downloads a file and decrypts it.
func (b *bot) fetch(ctx context.Context, m *cdnFile, digits string, most int64) ([]byte, error) {
	key, err := parseKey(digits, m.Key)
	if err != nil {
		return nil, err
	}

	var addresses []string
	if m.FullURL != "" && b.o.trusts(m.FullURL) {
		addresses = append(addresses, m.FullURL)
	}
	if m.Param != "" {
		addresses = append(addresses, b.o.CDNBaseURL+"/download?encrypted_query_param="+url.QueryEscape(m.Param))
	}

	err = errors.New("the file has no address of WeChat's")
	for _, address := range addresses {
		for try := range fetchTries {
			if try > 0 && wait.For(ctx, fetchPause) != nil {
				return nil, ctx.Err()
			}

			var data []byte
			if data, err = b.download(ctx, address, most); err == nil {
				if key == nil {
					return data, nil
				}
				return decrypt(key, data)
			}

			if e := refusal(err); e != nil && chat.IsPermanent(classify(e)) || errors.Is(err, media.ErrTooLarge) {
				return nil, err
			}
		}
	}

	return nil, err
}

func (b *bot) download(ctx context.Context, address string, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("download: %w", httpsafe.WithoutURL(err))
	}

	res, err := b.client.rest.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("download: %w", httpsafe.WithoutURL(err))
	}

	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return nil, &apiError{Call: "download", Status: res.StatusCode}
	}

	most += aes.BlockSize // of padding
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = media.ErrTooLarge
	}
	return data, err
}

// upload encrypts a file, puts it where WeChat finds it, and returns the item
// that shows it.
func (b *bot) upload(ctx context.Context, s session, user, fileKey string, f *kit.Attachment) (object, error) {
	data := make([]byte, f.Size(), f.Size()+aes.BlockSize)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read the file to send: %w", err)
	}

	kind, number := "file_item", 3
	item := object{"type": itemFile}
	switch f.Kind {
	case kit.ImageFile:
		kind, number, item["type"] = "image_item", 1, itemImage
	case kit.VideoFile:
		kind, number, item["type"] = "video_item", 2, itemVideo
	}

	sum := md5.Sum(data) //nolint:gosec // see above
	var key [aes.BlockSize]byte
	_, _ = rand.Read(key[:])
	digits := hex.EncodeToString(key[:])
	size := len(data)
	data, err := encrypt(key[:], data)
	if err != nil {
		return nil, err
	}

	var where struct {
		FullURL string `json:"upload_full_url"`
		Param   string `json:"upload_param"`
	}
	err = b.client.post(ctx, callTime, s, "getuploadurl", object{
		"filekey":       fileKey,
		"media_type":    number,
		"to_user_id":    user,
		"rawsize":       size,
		"rawfilemd5":    hex.EncodeToString(sum[:]),
		"filesize":      len(data),
		"no_need_thumb": true,
		"aeskey":        digits,
	}, &where)
	if err != nil {
		return nil, err
	}

	address := strings.TrimSpace(where.FullURL)
	if address == "" || !b.o.trusts(address) {
		address = b.o.CDNBaseURL + "/upload?encrypted_query_param=" + url.QueryEscape(where.Param) + "&filekey=" + fileKey
	}

	param, err := b.store(ctx, address, data)
	if err != nil {
		return nil, err
	}

	inner := object{"media": object{"encrypt_query_param": param, "aes_key": base64.StdEncoding.EncodeToString([]byte(digits)), "encrypt_type": 1}}
	switch f.Kind {
	case kit.ImageFile:
		inner["mid_size"] = len(data)
	case kit.VideoFile:
		inner["video_size"] = len(data)
	default:
		inner["file_name"], inner["len"] = f.Name, strconv.Itoa(size)
	}

	item[kind] = inner
	return item, nil
}

// store uploads encrypted data and returns what stands for it in a message.
func (b *bot) store(ctx context.Context, address string, data []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("upload: %w", httpsafe.WithoutURL(err))
	}

	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := b.client.rest.Client.Do(req)
	if err != nil {
		return "", fmt.Errorf("upload: %w", httpsafe.WithoutURL(err))
	}

	defer res.Body.Close() //nolint:errcheck // nothing is read
	if res.StatusCode != http.StatusOK {
		return "", &apiError{Call: "upload " + res.Header.Get("X-Error-Message"), Status: res.StatusCode}
	}

	param := res.Header.Get("X-Encrypted-Param")
	if param == "" {
		return "", errors.New("upload: the answer does not say where the file is")
	}
	return param, nil
}
