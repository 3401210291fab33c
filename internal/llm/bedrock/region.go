package bedrock

import (
	"context"
	"strings"
)

// findRegion tells where requests go and what they are signed for. It is
// looked for once; a model's ARN decides only if no setting does.
func (d *driver) findRegion(ctx context.Context, model string) (string, error) {
	d.mu.Lock()
	region := d.region
	d.mu.Unlock()
	if region != "" {
		return region, nil
	}

	name, _ := d.keys.profileName()
	p, _, err := d.keys.readProfile(name)
	if err != nil && d.bearer.IsZero() {
		return "", d.misconfigured(err.Error())
	}
	if arn := regionOfARN(model); p.values["region"] == "" && isRegion(arn) {
		return arn, nil
	}

	region = p.values["region"]
	if region == "" && (d.bearer.IsZero() || d.base == "") {
		region = d.keys.machineRegion(ctx)
	}

	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case region == "" && d.base != "" && !d.bearer.IsZero():
		return "", nil // neither the address nor the key needs one
	case !isRegion(region):
		return "", d.misconfigured("no AWS region is known: set the provider's region, AWS_REGION, or region in ~/.aws/config")
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	d.region = region
	return region, nil
}

// isRegion guards the address made of it.
func isRegion(s string) bool {
	return len(s) > 4 && len(s) < 40 && strings.Contains(s, "-") &&
		!strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
}

// regionOfHost reads bedrock-runtime.REGION.amazonaws.com and its variants.
func regionOfHost(host string) string {
	labels := strings.Split(host, ".")
	for i, l := range labels[:len(labels)-1] {
		if (l == "bedrock-runtime" || l == "bedrock-runtime-fips") && strings.HasPrefix(strings.TrimPrefix(strings.Join(labels[i+2:], "."), "vpce."), "amazonaws.") {
			return labels[i+1]
		}
	}
	return ""
}

// regionOfARN reads arn:PARTITION:bedrock:REGION:...
func regionOfARN(model string) string {
	f := strings.Split(model, ":")
	if len(f) < 6 || f[0] != "arn" {
		return ""
	}
	return f[3]
}

// dnsSuffix returns what the host names of a region end in. Every prefix but
// the default belongs to a part of the vendor's cloud with networks of its own.
func dnsSuffix(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "amazonaws.com.cn"
	case strings.HasPrefix(region, "eusc-"):
		return "amazonaws.eu"
	case strings.HasPrefix(region, "us-iso-"):
		return "c2s.ic.gov"
	case strings.HasPrefix(region, "us-isob-"):
		return "sc2s.sgov.gov"
	case strings.HasPrefix(region, "eu-isoe-"):
		return "cloud.adc-e.uk"
	case strings.HasPrefix(region, "us-isof-"):
		return "csp.hci.ic.gov"
	}
	return "amazonaws.com"
}
