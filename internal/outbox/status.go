package outbox

// Status codes other than 2xx, and whose fault each is. The rule behind the table:
//
//   - What is the same in every POST is the endpoint's: URL, method, headers,
//     token, connection, quota, and whatever stands between here and n8n.
//   - What differs is the event's own: its body, and the state of what it is about.
//   - In doubt it is the endpoint's. Three such answers stop an invocation and
//     cost three attempts; an outage taken for bad events costs every attempt of
//     the whole backlog.
//
// A 2xx is not in it: there the body decides, see Judge.

// StatusRow says whose fault a range of HTTP status codes is.
type StatusRow struct {
	First, Last int    // inclusive
	Signal      Signal // EndpointFault or EventFault
	Reason      string // one phrase for people
}

// Statuses is that table. The first row that holds a code decides; the last row of
// a class is for unregistered codes. infra/docs/http-statuses.md
// prints it. Sources: the IANA registry of HTTP status codes, and the manuals of
// the vendors named.
var Statuses = []StatusRow{
	{100, 199, EndpointFault, "an interim answer with no final one after it"},

	{300, 399, EndpointFault, "a redirect, such as to a login page; it is never followed"},

	{400, 400, EventFault, "the request is refused as malformed"},
	{401, 401, EndpointFault, "the credentials are refused"},
	{402, 402, EndpointFault, "the plan or its quota is used up"},
	{403, 403, EndpointFault, "the token is refused, or a firewall refuses the caller"},
	{404, 404, EndpointFault, "no webhook is registered at this path"},
	{405, 405, EndpointFault, "this path does not accept POST"},
	{406, 406, EndpointFault, "about the Accept header, the same in every POST"},
	{407, 407, EndpointFault, "a proxy requires authentication"},
	{408, 408, EndpointFault, "the request did not arrive in time"},
	{409, 409, EventFault, "a conflict with the state of what the event is about"},
	{410, 410, EndpointFault, "the webhook was removed for good"},
	{411, 411, EndpointFault, "the Content-Length that every POST has was lost on the way"},
	{412, 412, EndpointFault, "about precondition headers, which no POST has"},
	{413, 413, EventFault, "this body is too large"},
	{414, 414, EndpointFault, "the URL is too long, the same in every POST"},
	{415, 415, EndpointFault, "about the Content-Type header, the same in every POST"},
	{416, 416, EndpointFault, "about the Range header, which no POST has"},
	{417, 417, EndpointFault, "about the Expect header, which no POST has"},
	{418, 418, EndpointFault, "not used by HTTP; a bot filter's refusal"},
	{419, 419, EndpointFault, "Laravel: the session has expired"},
	{420, 420, EndpointFault, "an old rate limit"},
	{421, 421, EndpointFault, "the server does not serve this host name"},
	{422, 422, EventFault, "the body was read and refused"},
	{423, 423, EventFault, "what the event is about is locked"},
	{424, 424, EventFault, "a step that this event depends on has failed"},
	{425, 425, EndpointFault, "the connection is not ready for requests yet"},
	{426, 426, EndpointFault, "another protocol is required"},
	{428, 428, EndpointFault, "a precondition header is required, which no POST has"},
	{429, 429, EndpointFault, "too many requests"},
	{430, 430, EndpointFault, "Shopify: too many requests, or refused for security"},
	{431, 431, EndpointFault, "the headers are too large, the same in every POST"},
	{440, 440, EndpointFault, "IIS: the session has expired"},
	{444, 444, EndpointFault, "nginx: closed without an answer"},
	{449, 449, EndpointFault, "IIS: the request lacks credentials"},
	{450, 450, EndpointFault, "Windows: blocked by a filter"},
	{451, 451, EndpointFault, "blocked for legal reasons"},
	{460, 460, EndpointFault, "AWS ALB: the client closed the connection"},
	{461, 462, EndpointFault, "not documented; load balancers of AWS use this range"},
	{463, 463, EndpointFault, "AWS ALB: too many addresses in X-Forwarded-For"},
	{464, 464, EndpointFault, "AWS ALB: the protocol versions do not match"},
	{494, 494, EndpointFault, "nginx: the headers are too large"},
	{495, 495, EndpointFault, "nginx: the client certificate is refused"},
	{496, 496, EndpointFault, "nginx: a client certificate is required"},
	{497, 497, EndpointFault, "nginx: plain HTTP on the port of HTTPS"},
	{498, 498, EndpointFault, "Esri: the token is invalid or has expired"},
	{499, 499, EndpointFault, "nginx: the client closed the connection; Esri: a token is required"},
	{400, 499, EventFault, "unknown: counts as 400, by RFC 9110 section 15"},

	{500, 500, EventFault, "the workflow failed on this event"},
	{501, 501, EndpointFault, "the server does not know the method"},
	{502, 502, EndpointFault, "a gateway got no valid answer from n8n"},
	{503, 503, EndpointFault, "unavailable: overloaded, in maintenance, or its database is down"},
	{504, 504, EndpointFault, "a gateway got no answer from n8n in time"},
	{505, 505, EndpointFault, "the HTTP version is not supported"},
	{506, 506, EndpointFault, "the server is misconfigured (content negotiation)"},
	{507, 507, EndpointFault, "the server's storage is full"},
	{508, 508, EndpointFault, "a loop; cPanel: the account's resource limit"},
	{509, 509, EndpointFault, "cPanel: the account's bandwidth limit"},
	{510, 510, EndpointFault, "an extension of HTTP is required"},
	{511, 511, EndpointFault, "the network requires a login (captive portal)"},
	{520, 520, EndpointFault, "Cloudflare: n8n gave an unknown answer"},
	{521, 521, EndpointFault, "Cloudflare: n8n refuses the connection"},
	{522, 522, EndpointFault, "Cloudflare: no connection to n8n in time"},
	{523, 523, EndpointFault, "Cloudflare: n8n is unreachable"},
	{524, 524, EndpointFault, "Cloudflare: no answer from n8n in time"},
	{525, 525, EndpointFault, "Cloudflare: the TLS handshake with n8n failed"},
	{526, 526, EndpointFault, "Cloudflare: the TLS certificate of n8n is invalid"},
	{527, 527, EndpointFault, "Cloudflare: Railgun failed"},
	{529, 529, EndpointFault, "Qualys and others: the server is overloaded"},
	{530, 530, EndpointFault, "Cloudflare: the tunnel or the name of n8n does not resolve; Pantheon: the site is frozen"},
	{540, 540, EndpointFault, "Shopify: temporarily disabled"},
	{561, 561, EndpointFault, "AWS ALB: the identity provider returned an error"},
	{598, 598, EndpointFault, "a proxy's read timeout"},
	{599, 599, EndpointFault, "a proxy's connect timeout"},
	{500, 599, EndpointFault, "unknown: n8n itself answers 500 alone, so this is from something before it"},

	{600, 999, EndpointFault, "not a status of HTTP, so not from n8n"},
}

// statusSignal returns whose fault a status other than 2xx is.
func statusSignal(status int) Signal {
	for _, row := range Statuses {
		if row.First <= status && status <= row.Last {
			return row.Signal
		}
	}
	return EndpointFault // a client of HTTP reads three digits, so there are no others
}
