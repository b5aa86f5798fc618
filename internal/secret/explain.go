package secret

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"outbox-dispatcher/internal/netfault"
)

// SecretError says what is wrong with one secret and what to do. Its text holds nothing
// of the value, and nothing of what AWS wrote but the error code.
type SecretError struct {
	Secret string // name or ARN; empty for an IAM token
	Text   string
	Err    error // what the SDK returned; nil if the secret was read and cannot be used
}

func (e *SecretError) Error() string {
	if e.Secret == "" {
		return "IAM token for RDS: " + e.Text
	}
	return fmt.Sprintf("secret %q: %s", e.Secret, e.Text)
}

func (e *SecretError) Unwrap() error { return e.Err }

// wrong is the error for a secret that was read and cannot be used.
func wrong(id, text string) error { return &SecretError{Secret: id, Text: text} }

// explain wraps an error of the SDK in a *SecretError. An empty id stands for an IAM
// token.
func explain(id string, err error) error {
	if _, ok := errors.AsType[*SecretError](err); ok {
		return err
	}
	return &SecretError{Secret: id, Text: sentence(err), Err: err}
}

// network is what to do where Secrets Manager cannot be reached.
const network = "inside a VPC the function needs an interface endpoint for Secrets Manager, or a NAT, and a security group that allows egress to port 443"

// meanings says what the error codes of Secrets Manager mean and what to do.
var meanings = map[string]string{
	"ResourceNotFoundException": "is not there, or has no value yet; check its name, account and region",
	"InvalidRequestException":   "is marked for deletion; restore it or name another one",
	"AccessDeniedException":     "may not be read; grant the function's role secretsmanager:GetSecretValue on it, and kms:Decrypt if it has a key of its own",
	"DecryptionFailure":         "cannot be decrypted; grant the function's role kms:Decrypt on its key, and check that the key is enabled",
	"InvalidParameterException": "is neither a name nor an ARN that Secrets Manager accepts",
	"ValidationException":       "is neither a name nor an ARN that Secrets Manager accepts",
}

// rejectedCredentials are the codes for credentials that AWS does not accept.
var rejectedCredentials = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "IncompleteSignature": true, "InvalidClientTokenId": true, "InvalidSignatureException": true,
	"MissingAuthenticationTokenException": true, "SignatureDoesNotMatch": true, "UnrecognizedClientException": true,
}

// unknownCode is what the SDK calls an answer that names no error, such as a page of
// a proxy.
const unknownCode = "UnknownError"

func sentence(err error) string {
	api, isAPI := errors.AsType[smithy.APIError](err)
	response, isResponse := errors.AsType[*awshttp.ResponseError](err)
	_, isConfig := errors.AsType[*configError](err)
	_, isSending := errors.AsType[*url.Error](err)
	fault := netfault.Of(err)
	switch {
	case isAPI && api.ErrorCode() != unknownCode:
		return apiSentence(api.ErrorCode())
	case errors.Is(err, errCredentials):
		return "there are no AWS credentials; in Lambda the function's role provides them, elsewhere log in or set AWS_PROFILE"
	case errors.Is(err, errRegion):
		return "there is no AWS region; set AWS_REGION"
	case isConfig:
		return "the AWS configuration of this machine cannot be read; check AWS_PROFILE, AWS_CA_BUNDLE and ~/.aws/config"
	case fault.Kind == netfault.Canceled:
		return "could not be read from Secrets Manager because the invocation ended"
	case isResponse && response.HTTPStatusCode() > 0:
		return fmt.Sprintf("Secrets Manager answered HTTP %d and nothing that the SDK can read; check proxies and AWS_ENDPOINT_URL", response.HTTPStatusCode())
	case fault.Kind == netfault.Timeout: // which may come after a connection
		return "Secrets Manager did not answer in time; " + network
	case isSending, fault.Kind != netfault.Unknown:
		return fmt.Sprintf("Secrets Manager could not be reached: %s; %s", fault, network)
	}
	return "could not be read from Secrets Manager, and the SDK gives no reason"
}

func apiSentence(code string) string {
	meaning, known := meanings[code]
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case known:
	case throttled:
		meaning = "could not be read because Secrets Manager is asked too often; the next invocation tries again"
	case rejectedCredentials[code]:
		meaning = "could not be read because AWS rejected the credentials; log in again, and check the clock of this machine"
	default:
		meaning = "could not be read from Secrets Manager; the next invocation tries again"
	}
	return fmt.Sprintf("%s (%s)", meaning, code)
}
