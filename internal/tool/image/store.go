package image

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
)

var (
	errTooLarge   = errors.New("the picture is larger than 10 MB")
	errNotPicture = errors.New("what came back is not a PNG, JPEG, WebP or GIF picture")
)

func extension(mime string) string {
	if mime == "image/jpeg" {
		return "jpg"
	}
	return strings.TrimPrefix(mime, "image/")
}

func (p picture) dataURL() string {
	return "data:" + p.mime + ";base64," + base64.StdEncoding.EncodeToString(p.data)
}

// fetch turns what a provider returned into a verified picture.
func (m *maker) fetch(ctx context.Context, src string) (picture, error) {
	var data []byte
	var err error
	switch {
	case strings.HasPrefix(src, "http://"), strings.HasPrefix(src, "https://"):
		data, err = m.download(ctx, src)
	default:
		data, err = decodeBase64(src)
	}

	if err != nil {
		return picture{}, err
	}

	mime := llm.PictureType(data)
	if mime == "" {
		return picture{}, errNotPicture
	}
	return picture{data, mime}, nil
}

// decodeBase64 reads a data URL or bare base64, in any of its alphabets.
func decodeBase64(src string) ([]byte, error) {
	if strings.HasPrefix(src, "data:") {
		_, rest, ok := strings.Cut(src, ";base64,")
		if !ok {
			return nil, errNotPicture
		}
		src = rest
	}

	if base64.RawStdEncoding.DecodedLen(len(src)) > maxPicture+maxPicture/16 { // line breaks aside
		return nil, errTooLarge
	}

	src = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(strings.TrimSpace(src)), "=")
	if base64.RawStdEncoding.DecodedLen(len(src)) > maxPicture {
		return nil, errTooLarge
	}

	data, err := base64.RawStdEncoding.DecodeString(src)
	if err != nil {
		return nil, errNotPicture
	}
	return data, nil
}

// download fetches a picture without credentials. Only a server the user
// configured on their own network may name an address there.
func (m *maker) download(ctx context.Context, src string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	client := m.o.Download
	if m.classify.Local && sameHost(src, m.base) {
		client = m.o.Client
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, src, http.NoBody)
	if err != nil {
		return nil, errors.New("the provider named an address that is not a URL")
	}

	req.Header.Set("Accept", "image/*")
	req.Header.Set("User-Agent", "nanobot")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch the picture: %w", httpsafe.WithoutURL(err))
	}

	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch the picture: HTTP %d", resp.StatusCode)
	}

	data, err := io.ReadAll(io.LimitReader(resp.Body, maxPicture+1))
	if err != nil {
		return nil, fmt.Errorf("fetch the picture: %w", err)
	}
	if len(data) > maxPicture {
		return nil, errTooLarge
	}
	return data, nil
}

func sameHost(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	return err == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// save stores a picture and its sidecar under a name that is free.
func (m *maker) save(p picture, prompt string, sources []string) (artifact, error) {
	now := m.o.Now()
	dir := filepath.Join(m.o.Media, m.o.SaveDir, now.Format(time.DateOnly))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return artifact{}, err
	}

	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	name := "img_" + hex.EncodeToString(id[:])
	if sources == nil {
		sources = []string{}
	}

	a := artifact{
		ID: name, Path: filepath.Join(dir, name+"."+extension(p.mime)), MIME: p.mime, Prompt: prompt,
		Model: m.o.Model, Provider: m.row.name, Sources: sources, Created: now.Format(time.RFC3339),
	}
	side, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return artifact{}, err
	}
	if err := diskio.WriteFile(a.Path, p.data, 0o600); err != nil {
		return artifact{}, err
	}
	return a, diskio.WriteFile(filepath.Join(dir, name+".json"), append(side, '\n'), 0o600)
}
