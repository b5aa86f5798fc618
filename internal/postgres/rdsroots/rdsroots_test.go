package rdsroots

import (
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAppend(t *testing.T) {
	const all = "all"
	for name, c := range map[string]struct {
		host   string
		region string // whose roots are added; empty: none
		count  int
	}{
		"Instance":               {"db.cabcdefghijk.eu-central-1.rds.amazonaws.com", "eu-central-1", 3},
		"Cluster":                {"db.cluster-ro-cabcdefghijk.us-east-1.rds.amazonaws.com", "us-east-1", 3},
		"Proxy":                  {"p.proxy-cabcdefghijk.eu-west-3.rds.amazonaws.com", "eu-west-3", 3},
		"UpperCase":              {"DB.CABC.EU-CENTRAL-1.RDS.AMAZONAWS.COM", "eu-central-1", 3},
		"TrailingDot":            {"db.cabc.eu-central-1.rds.amazonaws.com.", "eu-central-1", 3},
		"RegionWeHaveNoRootsOf":  {"db.cabc.il-central-1.rds.amazonaws.com", "", 0},
		"GovCloud":               {"db.cabc.us-gov-west-1.rds.amazonaws.com", "", 0},
		"China":                  {"db.cabc.cn-north-1.rds.amazonaws.com.cn", "", 0},
		"RegionOfAnotherNumber":  {"db.cabc.eu-central-12.rds.amazonaws.com", "", 0},
		"StartOfARegion":         {"db.cabc.eu-central.rds.amazonaws.com", "", 0},
		"Alias":                  {"db.example.com", all, 81},
		"Address":                {"10.1.2.3", all, 81},
		"RegionInAnotherPlace":   {"eu-central-1.rds.amazonaws.com.example.com", all, 81},
		"RegionWithoutADatabase": {"eu-central-1.rds.amazonaws.com", all, 81},
		"NoHostAtAll":            {"", all, 81},
	} {
		t.Run(name, func(t *testing.T) {
			want := x509.NewCertPool()
			switch c.region {
			case "":
			case all:
				want.AppendCertsFromPEM([]byte(bundle))
			default:
				want.AppendCertsFromPEM([]byte(section(c.region)))
			}
			pool := x509.NewCertPool()
			if got := Append(pool, c.host); got != c.count || !pool.Equal(want) {
				t.Errorf("%d added, want the %d of %q", got, c.count, c.region)
			}
		})
	}

	t.Run("AddsToWhatIsThere", func(t *testing.T) {
		pool, both := x509.NewCertPool(), x509.NewCertPool()
		Append(pool, "db.cabc.eu-central-1.rds.amazonaws.com")
		Append(pool, "db.cabc.eu-west-1.rds.amazonaws.com")
		both.AppendCertsFromPEM([]byte(section("eu-west-1") + section("eu-central-1")))
		if !pool.Equal(both) {
			t.Error("the pool does not hold the roots of both regions")
		}
	})
}

// Every root is that of the region it stands under, and good for years.
func TestBundle(t *testing.T) {
	name := regexp.MustCompile(`^Amazon RDS (\S+) Root CA (RSA2048|RSA4096|ECC384) G1$`)
	sections := strings.Split(bundle, marker)
	if sections[0] != "" || len(sections)-1 != 27 {
		t.Fatalf("%d regions, want 27, and nothing before the first", len(sections)-1)
	}
	for _, s := range sections[1:] {
		region, roots, _ := strings.Cut(s, "\n")
		if section(region) != roots {
			t.Errorf("%s: section() gives another part", region)
		}
		keys := map[string]bool{}
		for block, rest := pem.Decode([]byte(roots)); block != nil; block, rest = pem.Decode(rest) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatalf("%s: %v", region, err)
			}
			m := name.FindStringSubmatch(cert.Subject.CommonName)
			if m == nil || m[1] != region {
				t.Errorf("%s holds %q", region, cert.Subject.CommonName)
				continue
			}
			keys[m[2]] = true
			if soon := time.Now().AddDate(2, 0, 0); !cert.IsCA || cert.NotAfter.Before(soon) || cert.NotBefore.After(time.Now()) {
				t.Errorf("%q: CA %v, valid from %v to %v", m[0], cert.IsCA, cert.NotBefore, cert.NotAfter)
			}
			if err := cert.CheckSignatureFrom(cert); err != nil {
				t.Errorf("%q is not signed by itself: %v", m[0], err)
			}
		}
		if len(keys) != 3 {
			t.Errorf("%s has roots for %v, want RSA2048, RSA4096 and ECC384", region, keys)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, host := range map[string]string{"OneRegion": "db.cabc.eu-central-1.rds.amazonaws.com", "AllRegions": "db.example.com"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Append(x509.NewCertPool(), host)
			}
		})
	}
}
