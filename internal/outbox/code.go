package outbox

// Code is the kind of a failed attempt: the column last_error_code, a log field and a
// trace annotation. Empty: success.
type Code string

const (
	RemoteReportedFailure Code = "remoteReportedFailure"
	MalformedResponse     Code = "malformedResponse"
	MismatchedEventID     Code = "mismatchedEventId"
	ConnectionError       Code = "connectionError"
	MalformedPayload      Code = "malformedPayload"
	StaleLeaseRecovered   Code = "staleLeaseRecovered"
	LeaseLostRepeatedly   Code = "leaseLostRepeatedly"
	UnknownError          Code = "unknownError"
)

// CodeInfo is a row of the table of codes that the README prints.
type CodeInfo struct {
	Code    Code
	Retried bool   // attempted again while attempts are left
	Meaning string // what happened
	Fix     string // what to do
}

// Codes lists every code, in the order of the README.
var Codes = []CodeInfo{
	{ConnectionError, true, "No answer, a status other than 2xx, or no complete answer in time.", "Check the status in last_error: 403 is the token, 404 an inactive workflow, 3xx a login page in front of n8n, 5xx n8n or a proxy."},
	{RemoteReportedFailure, true, "The workflow answered ok: false.", "Open the execution in n8n; last_error quotes the start of its answer."},
	{MalformedResponse, true, "A 2xx answer that does not acknowledge the event.", "End the workflow with Respond to Webhook: ok, event_id and result.execution_id."},
	{MismatchedEventID, true, "The answer acknowledged another event.", "Answer with the event_id of the request; check for a cache in front of n8n."},
	{MalformedPayload, true, "The payload cannot be sent: not an object, a key is missing, or too large.", "Fix payload_json in the row, or the service that writes it."},
	{StaleLeaseRecovered, true, "The lease ran out: the worker died or was cut off. No attempt was counted.", "Nothing, unless it recurs: then compare the function's duration with its timeout."},
	{LeaseLostRepeatedly, false, "The event lost too many leases in a row: it may kill its worker.", "Check the payload and the logs of the last invocations, then replay."},
	{UnknownError, true, "A failure without a code of its own.", "Read last_error and the log of the attempt."},
}
