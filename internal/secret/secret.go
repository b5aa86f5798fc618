// Package secret reads the webhook token and the login of the database from Secrets
// Manager, and signs IAM tokens for RDS.
//
// No client is built and no call made before the first secret is needed. Only the
// version labelled AWSCURRENT is read. A value is cached for MaxAge, across the
// invocations of a warm instance; a failure is not.
//
// # Failure handling
//
// Every error is one sentence for the operator: which secret, what is wrong, what to
// do. It never holds a value or a part of one. A service that does not answer is such an
// error after DefaultTimeout, long before the function is killed: in a VPC without a
// route to Secrets Manager a call would hang for ever.
package secret

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"golang.org/x/sync/singleflight"
)

const (
	// MaxAge is how long a value is cached. A rotated secret is noticed sooner where the
	// old value is refused: see Token.Refresh. A call every five minutes costs about
	// 0.04 USD a month for each secret.
	MaxAge = 5 * time.Minute
	// DefaultTimeout bounds one read, its retries included. A read takes well under a
	// second; 8 s leave room for two slow tries and stay below the 10 s after which an
	// operator must have an answer.
	DefaultTimeout = 8 * time.Second
)

// Reader reads secrets and caches them. The zero value is ready for use. It is safe for
// concurrent use: callers that need the same secret at the same time share one call.
type Reader struct {
	// Timeout bounds one read, its retries included. Zero means DefaultTimeout.
	Timeout time.Duration

	now    func() time.Time // nil: time.Now
	flight singleflight.Group

	mu     sync.Mutex
	client *secretsmanager.Client // nil until the first secret is read
	kept   map[string]kept
}

// kept is a value and when it was read.
type kept struct {
	value string
	at    time.Time
}

// value returns the text of a secret, past the cache if fresh is set. It ends with ctx;
// the call that it started goes on for other callers until its own timeout.
func (r *Reader) value(ctx context.Context, id string, fresh bool) (string, error) {
	if v, ok := r.recall(id); ok && !fresh {
		return v, nil
	}
	answer := r.flight.DoChan(id, func() (any, error) {
		// Another caller's call may have ended just before this one began.
		if v, ok := r.recall(id); ok && !fresh {
			return v, nil
		}
		v, err := r.ask(context.WithoutCancel(ctx), id)
		if err == nil {
			r.keep(id, v)
		}
		return v, err
	})
	select {
	case a := <-answer:
		v, _ := a.Val.(string)
		return v, a.Err
	case <-ctx.Done():
		return "", explain(id, ctx.Err())
	}
}

// ask reads the current version of a secret.
func (r *Reader) ask(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	client, err := r.connect(ctx)
	if err != nil {
		return "", explain(id, err)
	}
	region := regionOf(id, client.Options().Region)
	if region == "" {
		return "", explain(id, errRegion)
	}
	// Without a version or stage, Secrets Manager returns AWSCURRENT.
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(id)},
		func(o *secretsmanager.Options) { o.Region = region })
	switch {
	case err != nil:
		return "", explain(id, err)
	case out.SecretString != nil:
		// Some editors put a byte order mark first, which is not part of the value.
		return strings.TrimPrefix(*out.SecretString, "\ufeff"), nil
	case len(out.SecretBinary) > 0:
		return "", wrong(id, "holds binary data; store it as text")
	}
	return "", wrong(id, "is empty; store a value in it")
}

func (r *Reader) recall(id string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.kept[id]
	// By the wall clock: the monotonic one may stop while the instance is frozen.
	age := r.clock().Sub(k.at)
	return k.value, ok && age >= 0 && age < MaxAge
}

func (r *Reader) keep(id, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[string]kept{}
	}
	r.kept[id] = kept{value, r.clock()}
}

// forget drops a value that turned out to be wrong, so that the next invocation sees
// the corrected secret.
func (r *Reader) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, id)
}

func (r *Reader) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now().Round(0)
}

func (r *Reader) timeout() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return DefaultTimeout
}
