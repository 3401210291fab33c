package bedrock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

const (
	containerBase = "http://169.254.170.2"
	machineBase   = "http://169.254.169.254"

	// probeTimeout is short because on most computers there is no server at
	// this address.
	probeTimeout    = time.Second
	metadataTimeout = 5 * time.Second
	machineTokenTTL = "21600" // seconds
	machineHeader   = "X-Aws-Ec2-Metadata-Token"
)

// fromContainer asks the endpoint that container platforms announce in the
// environment.
func (k *keyring) fromContainer(ctx context.Context) (credentials, error) {
	relative, full := k.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), k.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	address := full
	switch {
	case relative != "":
		address = containerBase + "/" + strings.TrimPrefix(relative, "/")
	case full == "":
		return credentials{}, errNoCredentials
	case !trustedEndpoint(full):
		return credentials{}, fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI must be https or an address of the container platform")
	}

	token := k.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if path := k.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); path != "" {
		data, err := readFile(path)
		if err != nil {
			return credentials{}, fmt.Errorf("container credentials: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}

	const source = "container credentials"
	data, err := k.fetch(ctx, question{url: address, header: "Authorization", value: token})
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}
	return parseKey(data, source)
}

// trustedEndpoint keeps the authorization token from travelling in the clear
// to others than the platform itself.
func trustedEndpoint(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return false
	}
	if u.Scheme == "https" {
		return true
	}

	host := u.Hostname()
	if u.Scheme != "http" {
		return false
	}
	if host == "localhost" || host == "169.254.170.2" || host == "169.254.170.23" || host == "fd00:ec2::23" {
		return true
	}

	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// machineToken starts a session with the machine's metadata service; "" means
// that there is none.
func (k *keyring) machineToken(ctx context.Context) (base, token string) {
	if strings.EqualFold(k.getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return "", ""
	}

	base = strings.TrimRight(cmp.Or(k.getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), machineBase), "/")
	data, err := k.fetch(ctx, question{
		method: http.MethodPut, url: base + "/latest/api/token", limit: probeTimeout,
		header: "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", value: machineTokenTTL,
	})
	if err != nil {
		return "", ""
	}
	return base, strings.TrimSpace(string(data))
}

// fromMachine asks the metadata service of a virtual machine, only in its
// second version, which forged requests cannot reach.
func (k *keyring) fromMachine(ctx context.Context) (credentials, error) {
	base, token := k.machineToken(ctx)
	if token == "" {
		if err := ctx.Err(); err != nil {
			return credentials{}, err
		}
		return credentials{}, errNoCredentials
	}

	const source = "instance role"
	list := base + "/latest/meta-data/iam/security-credentials/"
	data, err := k.fetch(ctx, question{url: list, header: machineHeader, value: token})
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}

	role, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if role == "" {
		return credentials{}, errNoCredentials
	}

	data, err = k.fetch(ctx, question{url: list + url.PathEscape(role), header: machineHeader, value: token})
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}
	return parseKey(data, source)
}

// machineRegion returns where the virtual machine runs, "" if it is none.
func (k *keyring) machineRegion(ctx context.Context) string {
	base, token := k.machineToken(ctx)
	if token == "" {
		return ""
	}
	data, err := k.fetch(ctx, question{url: base + "/latest/meta-data/placement/region", header: machineHeader, value: token})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// question is one small request to a metadata endpoint.
type question struct {
	method        string // "" is GET
	url           string
	header, value string
	limit         time.Duration // 0 is metadataTimeout
}

// fetch asks a metadata endpoint, never through a proxy.
func (k *keyring) fetch(ctx context.Context, q question) ([]byte, error) {
	client := k.client
	if client == nil {
		var err error
		if client, err = httpsafe.Client(httpsafe.Options{Direct: true}); err != nil {
			return nil, err
		}
		defer client.CloseIdleConnections()
	}

	ctx, cancel := context.WithTimeout(ctx, cmp.Or(q.limit, metadataTimeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodGet), q.url, http.NoBody)
	if err != nil {
		return nil, err
	}

	if q.value != "" {
		r.Header.Set(q.header, q.value)
	}

	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}

	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return data, nil
}
