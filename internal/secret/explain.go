package secret

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// SecretError says of one secret what is wrong and what to do. Its text holds nothing
// of the value, and nothing of what AWS wrote but the error code.
type SecretError struct {
	Secret string // name or ARN; empty for an IAM token
	Text   string
	Err    error // what the SDK returned; nil if the secret itself is of no use
}

func (e *SecretError) Error() string {
	if e.Secret == "" {
		return "IAM token for RDS: " + e.Text
	}
	return fmt.Sprintf("secret %q: %s", e.Secret, e.Text)
}

func (e *SecretError) Unwrap() error { return e.Err }

// wrong is the error for a secret that was read and is of no use.
func wrong(id, text string) error { return &SecretError{Secret: id, Text: text} }

// explain turns an error of the SDK into a *SecretError. An empty id stands for an IAM
// token.
func explain(id string, err error) error {
	var explained *SecretError
	if errors.As(err, &explained) {
		return err
	}
	return &SecretError{Secret: id, Text: sentence(err), Err: err}
}

// network is what to do where Secrets Manager cannot be reached.
const network = "inside a VPC the function needs an interface endpoint for Secrets Manager, or a NAT, and a security group that lets it out to port 443"

// meanings tells what the error codes of Secrets Manager mean and what to do.
var meanings = map[string]string{
	"ResourceNotFoundException": "is not there, or has no value yet; check its name, account and region",
	"InvalidRequestException":   "is marked for deletion; restore it or name another one",
	"AccessDeniedException":     "may not be read; allow secretsmanager:GetSecretValue on it to the role of the function, and kms:Decrypt if it has a key of its own",
	"DecryptionFailure":         "cannot be decrypted; allow kms:Decrypt on its key to the role of the function, and look whether the key is enabled",
	"InvalidParameterException": "is neither a name nor an ARN that Secrets Manager takes",
	"ValidationException":       "is neither a name nor an ARN that Secrets Manager takes",
}

// refusedCredentials are the codes for credentials that AWS does not take.
var refusedCredentials = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "IncompleteSignature": true, "InvalidClientTokenId": true, "InvalidSignatureException": true,
	"MissingAuthenticationTokenException": true, "SignatureDoesNotMatch": true, "UnrecognizedClientException": true,
}

// unknownCode is what the SDK calls an answer that names no error, as a proxy
// gives it.
const unknownCode = "UnknownError"

func sentence(err error) string {
	var (
		api      smithy.APIError
		response *awshttp.ResponseError
		config   *configError
		timeout  net.Error
		sending  *url.Error
	)
	switch {
	case errors.As(err, &api) && api.ErrorCode() != unknownCode:
		return apiSentence(api.ErrorCode())
	case errors.Is(err, errCredentials):
		return "there are no AWS credentials; in Lambda the role of the function gives them, elsewhere log in or set AWS_PROFILE"
	case errors.Is(err, errRegion):
		return "there is no AWS region; set AWS_REGION"
	case errors.As(err, &config):
		return "the AWS configuration of this machine cannot be read; look at AWS_PROFILE, AWS_CA_BUNDLE and ~/.aws/config"
	case errors.Is(err, context.Canceled):
		return "reading it from Secrets Manager was broken off because the invocation ended"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "Secrets Manager did not answer in time; " + network
	case errors.As(err, &response) && response.HTTPStatusCode() > 0:
		return fmt.Sprintf("Secrets Manager answered HTTP %d and not what it should; look at proxies and AWS_ENDPOINT_URL", response.HTTPStatusCode())
	case errors.As(err, &sending):
		return fmt.Sprintf("Secrets Manager could not be reached (%v); %s", sending.Err, network)
	}
	return "Secrets Manager could not be asked, for a reason that has no sentence here"
}

func apiSentence(code string) string {
	meaning, known := meanings[code]
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case known:
	case throttled:
		meaning = "could not be read because Secrets Manager is asked too often; the next invocation tries again"
	case refusedCredentials[code]:
		meaning = "could not be read because AWS does not take the credentials; log in again, and look at the clock of this machine"
	default:
		meaning = "could not be read from Secrets Manager; the next invocation tries again"
	}
	return fmt.Sprintf("%s (%s)", meaning, code)
}
