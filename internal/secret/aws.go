package secret

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/rds/auth"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go/logging"
)

const (
	// dialTimeout and tryTimeout bound one try, so that a lost packet costs a retry and
	// not the whole time.
	dialTimeout = 2 * time.Second
	tryTimeout  = 3 * time.Second
	// idleTimeout is short because a connection is dead after the instance was frozen
	// between two ticks. It still serves two reads in a row.
	idleTimeout = 5 * time.Second
	// maxBackoff keeps the pauses between three tries within the timeout.
	maxBackoff = time.Second
)

// What the environment lacks.
var (
	errCredentials = errors.New("no AWS credentials")
	errRegion      = errors.New("no AWS region")
)

// loadAWS reads region and credentials as every AWS tool does: from the variables that
// Lambda sets, or from a profile on a laptop.
//
// Compared with an aws.Config filled by hand, LoadDefaultConfig costs 2.1 MB of the
// bootstrap (arm64, stripped), 2 ms of init and 0.15 ms a call. It buys profiles, and
// the SDK's variables for endpoints, FIPS and CAs, as AWS documents them.
func loadAWS(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().
			WithTimeout(tryTimeout).
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
			WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idleTimeout })),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = maxBackoff })
		}),
		// The SDK logs plain text among our JSON, and nothing that the error lacks.
		config.WithLogger(logging.Nop{}))
	if err != nil {
		return cfg, &configError{err}
	}
	// Retrieved here because the SDK's own error for it has no type.
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, errors.Join(errCredentials, err)
	}
	return cfg, nil
}

// configError reports a profile or a file that cannot be read.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

// connect returns the client, built on the first call.
func (r *Reader) connect(ctx context.Context) (*secretsmanager.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil {
		cfg, err := loadAWS(ctx)
		if err != nil {
			return nil, err
		}
		r.client = secretsmanager.NewFromConfig(cfg)
	}
	return r.client, nil
}

// regionOf returns the region that an ARN names; a bare name is in the function's own.
func regionOf(id, region string) string {
	if a, err := arn.Parse(id); err == nil {
		return cmp.Or(a.Region, region)
	}
	return region
}

// IAMAuthToken signs a token that RDS accepts instead of the password of user for
// fifteen minutes. endpoint is host:port as the connection uses it; the host must be the
// one that RDS gave, not an alias. An empty region means that of the environment. No
// call leaves the process unless the credentials of a profile need one.
func IAMAuthToken(ctx context.Context, endpoint, region, user string) (string, error) {
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		return "", &SecretError{Text: "the endpoint must be host:port, as RDS gives it", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	cfg, err := loadAWS(ctx)
	if err != nil {
		return "", explain("", err)
	}
	if region = cmp.Or(region, cfg.Region); region == "" {
		return "", explain("", errRegion)
	}
	token, err := auth.BuildAuthToken(ctx, endpoint, region, user, cfg.Credentials)
	if err != nil {
		return "", explain("", err)
	}
	return token, nil
}
